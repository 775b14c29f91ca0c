{{- /*
Copyright (c) 2026, the gpufleet.node authors
GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
SPDX-License-Identifier: GPL-3.0-or-later
*/ -}}
{{- if .Values.gfd.enabled }}
{{- $security := include "security" (dict "given" .Values.gfd.securityContext "plugin" false "root" .) }}
{{- $labels := dict "app.kubernetes.io/name" "gpu-feature-discovery" "app.kubernetes.io/instance" .Release.Name }}
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: {{ include "fullname" . }}-gpu-feature-discovery
  namespace: {{ include "namespace" . }}
  labels: {{ toJson $labels }}
  annotations: {gpufleet.invalid/stand-in: this is not NVIDIA's program}
spec:
  selector:
    matchLabels: {{ toJson $labels }}
  updateStrategy: {{ toJson .Values.updateStrategy }}
  template:
    metadata:
      labels: {{ toJson $labels }}
      annotations: {{ merge (dict "gpufleet.invalid/stand-in" "this is not NVIDIA's program") .Values.podAnnotations | toJson }}
    spec:
      {{- include "pod" . | nindent 6 }}
      nodeSelector: {{ toJson .Values.nodeSelector }}
      hostNetwork: {{ .Values.gfd.enableHostNetwork | default false }}
      containers:
      - name: gpu-feature-discovery-ctr
        command: [gpu-feature-discovery]
        {{- include "container" . | nindent 8 }}
        {{- if kindIs "bool" .Values.gfd.noTimestamp }}
        - {name: GFD_NO_TIMESTAMP, value: {{ .Values.gfd.noTimestamp | quote }}}
        {{- end }}
        {{- with .Values.gfd.sleepInterval }}
        - {name: GFD_SLEEP_INTERVAL, value: {{ . | quote }}}
        {{- end }}
        securityContext: {{ fromYaml $security | toJson }}
        volumeMounts:
        - {name: sys, mountPath: /host/sys, readOnly: true, mountPropagation: HostToContainer}
      volumes:
      - {name: sys, hostPath: {path: /sys}}
{{- end }}
