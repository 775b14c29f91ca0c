{{- /*
Copyright (c) 2026, the gpufleet.node authors
GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
SPDX-License-Identifier: GPL-3.0-or-later
*/ -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: gpu-operator
  namespace: {{ .Release.Namespace }}
  labels: {app: gpu-operator, app.kubernetes.io/component: gpu-operator}
  annotations: {gpufleet.invalid/stand-in: this is not NVIDIA's program}
spec:
  replicas: 1
  selector:
    matchLabels: {app: gpu-operator}
  template:
    metadata:
      labels: {app: gpu-operator, app.kubernetes.io/component: gpu-operator}
      annotations: {{ merge (dict "gpufleet.invalid/stand-in" "this is not NVIDIA's program") .Values.operator.annotations | toJson }}
    spec:
      serviceAccountName: gpu-operator
      {{- with .Values.operator.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with .Values.operator.imagePullSecrets }}
      imagePullSecrets: [{{ range . }}{name: {{ . }}}, {{ end }}]
      {{- end }}
      nodeSelector: {{ toJson (.Values.operator.nodeSelector | default dict) }}
      affinity: {{ toJson .Values.operator.affinity }}
      tolerations: {{ toJson .Values.operator.tolerations }}
      containers:
      - name: gpu-operator
        image: {{ .Values.operator.repository }}/{{ .Values.operator.image }}:{{ .Values.operator.version | default .Chart.AppVersion }}
        imagePullPolicy: {{ .Values.operator.imagePullPolicy }}
        command: [gpu-operator]
        env:
        - {name: OPERATOR_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
        - {name: OPERATOR_VERSION, value: {{ .Chart.AppVersion | quote }}}
        {{- with .Values.operator.env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        resources: {{ toJson .Values.operator.resources }}
