{{- /*
Copyright (c) 2026, the gpufleet.node authors
GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
SPDX-License-Identifier: GPL-3.0-or-later
*/ -}}
{{- if .Values.devicePlugin.enabled }}
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: {{ include "fullname" . }}-mps-control-daemon
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
      nodeSelector: {{ merge (dict "nvidia.com/mps.capable" "true") .Values.nodeSelector | toJson }}
      hostNetwork: {{ .Values.mps.enableHostNetwork | default false }}
      {{- if .Values.config.name }}
      initContainers:
      {{- include "configManager" (dict "root" . "name" "mps-control-daemon-init" "process" "") | nindent 6 }}
      {{- end }}
      containers:
      {{- if .Values.config.name }}
      {{- include "configManager" (dict "root" . "name" "mps-control-daemon-sidecar" "process" "/usr/bin/mps-control-daemon") | nindent 6 }}
      {{- end }}
      - name: mps-control-daemon-ctr
        command: [mps-control-daemon]
        {{- include "container" . | nindent 8 }}
        securityContext: {privileged: true}
        volumeMounts:
        - {name: mps, mountPath: /mps}
        {{- include "configMounts" . | nindent 8 }}
      volumes:
      - {name: mps, hostPath: {path: {{ .Values.mps.root }}, type: DirectoryOrCreate}}
      {{- include "configVolumes" . | nindent 6 }}
{{- end }}
