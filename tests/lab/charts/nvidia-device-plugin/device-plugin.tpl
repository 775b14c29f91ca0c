{{- /*
Copyright (c) 2026, the gpufleet.node authors
GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
SPDX-License-Identifier: GPL-3.0-or-later
*/ -}}
{{- if .Values.devicePlugin.enabled }}
{{- $security := include "security" (dict "given" .Values.securityContext "plugin" true "root" .) }}
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: {{ include "fullname" . }}
  namespace: {{ include "namespace" . }}
  labels: {{ include "selector" . | fromYaml | toJson }}
  annotations: {gpufleet.invalid/stand-in: this is not NVIDIA's program}
spec:
  selector:
    matchLabels: {{ include "selector" . | fromYaml | toJson }}
  updateStrategy: {{ toJson .Values.updateStrategy }}
  template:
    metadata:
      labels: {{ include "selector" . | fromYaml | toJson }}
      annotations: {{ merge (dict "gpufleet.invalid/stand-in" "this is not NVIDIA's program") .Values.podAnnotations | toJson }}
    spec:
      {{- include "pod" . | nindent 6 }}
      nodeSelector: {{ toJson .Values.nodeSelector }}
      hostNetwork: {{ .Values.devicePlugin.enableHostNetwork | default false }}
      containers:
      - name: nvidia-device-plugin-ctr
        command: [nvidia-device-plugin]
        {{- include "container" . | nindent 8 }}
        {{- if kindIs "bool" .Values.compatWithCPUManager }}
        - {name: PASS_DEVICE_SPECS, value: {{ .Values.compatWithCPUManager | quote }}}
        {{- end }}
        {{- with .Values.deviceListStrategy }}
        - {name: DEVICE_LIST_STRATEGY, value: {{ . | quote }}}
        {{- end }}
        {{- with .Values.deviceIDStrategy }}
        - {name: DEVICE_ID_STRATEGY, value: {{ . | quote }}}
        {{- end }}
        securityContext: {{ fromYaml $security | toJson }}
        volumeMounts:
        - {name: plugins, mountPath: /var/lib/kubelet/device-plugins}
        - {name: host, mountPath: /host, mountPropagation: HostToContainer}
      volumes:
      - {name: plugins, hostPath: {path: /var/lib/kubelet/device-plugins, type: Directory}}
      - {name: host, hostPath: {path: /}}
{{- end }}
