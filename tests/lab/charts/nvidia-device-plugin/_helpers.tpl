{{- /*
Copyright (c) 2026, the gpufleet.node authors
GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
SPDX-License-Identifier: GPL-3.0-or-later
*/ -}}
{{- define "fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end -}}

{{- define "selector" -}}
{{- if .Values.selectorLabelsOverride -}}
{{- toYaml .Values.selectorLabelsOverride -}}
{{- else -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}
{{- end -}}

{{- define "withMig" -}}
{{- if ne (default "none" .Values.migStrategy) "none" -}}true{{- end -}}
{{- end -}}

{{- define "security" -}}
{{- if .given -}}
{{- toYaml .given -}}
{{- else if and .plugin .root.Values.compatWithCPUManager -}}
privileged: true
{{- else if include "withMig" .root -}}
capabilities: {add: [SYS_ADMIN]}
{{- else -}}
allowPrivilegeEscalation: false
capabilities: {drop: [ALL]}
{{- end -}}
{{- end -}}

{{- /* The parts of a pod that all programs have in common. */ -}}
{{- define "pod" -}}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
securityContext: {{ toJson .Values.podSecurityContext }}
serviceAccountName: {{ include "fullname" . }}-service-account
affinity: {{ toJson .Values.affinity }}
tolerations: {{ toJson .Values.tolerations }}
{{- end -}}

{{- define "image" -}}
image: {{ .Values.image.repository }}:{{ .Values.image.tag | default (printf "v%s" .Chart.AppVersion) }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end -}}

{{- define "container" -}}
{{- include "image" . }}
{{- with .Values.resources }}
resources: {{ toJson . }}
{{- end }}
env:
- {name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
- {name: NVIDIA_VISIBLE_DEVICES, value: all}
- {name: NVIDIA_DRIVER_CAPABILITIES, value: "compute,utility"}
{{- if .Values.migStrategy }}
- {name: MIG_STRATEGY, value: {{ .Values.migStrategy | quote }}}
{{- end }}
{{- if include "withMig" . }}
- {name: NVIDIA_MIG_MONITOR_DEVICES, value: all}
{{- end }}
{{- if kindIs "bool" .Values.failOnInitError }}
- {name: FAIL_ON_INIT_ERROR, value: {{ .Values.failOnInitError | quote }}}
{{- end }}
{{- end -}}
