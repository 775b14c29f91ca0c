{{- /*
Copyright (c) 2026, the gpufleet.node authors
GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
SPDX-License-Identifier: GPL-3.0-or-later
*/ -}}
{{- if .Values.operator.upgradeCRD }}
apiVersion: v1
kind: ConfigMap
metadata:
  name: gpu-operator-crd
  namespace: {{ .Release.Namespace }}
  annotations: {helm.sh/hook: pre-upgrade, helm.sh/hook-weight: "0", helm.sh/hook-delete-policy: "before-hook-creation,hook-succeeded"}
data:
  clusterpolicies.json: {{ .Files.Get "crds/clusterpolicies.yaml" | fromYaml | toJson | quote }}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: gpu-operator-upgrade-crd
  namespace: {{ .Release.Namespace }}
  annotations: {helm.sh/hook: pre-upgrade, helm.sh/hook-weight: "1", helm.sh/hook-delete-policy: "before-hook-creation,hook-succeeded"}
spec:
  backoffLimit: 3
  template:
    metadata:
      annotations: {gpufleet.invalid/stand-in: this is not NVIDIA's program}
    spec:
      serviceAccountName: gpu-operator
      restartPolicy: OnFailure
      tolerations: {{ toJson .Values.operator.tolerations }}
      containers:
      - name: upgrade-crd
        image: {{ .Values.operator.repository }}/{{ .Values.operator.image }}:{{ .Values.operator.version | default .Chart.AppVersion }}
        imagePullPolicy: {{ .Values.operator.imagePullPolicy }}
        command: [upgrade-crd]
        volumeMounts:
        - {name: definition, mountPath: /definition}
      volumes:
      - {name: definition, configMap: {name: gpu-operator-crd}}
{{- end }}
