{{- /*
Copyright (c) 2026, the gpufleet.node authors
GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
SPDX-License-Identifier: GPL-3.0-or-later
*/ -}}
{{- if (.Values.clusterPolicy | default (dict "deployCR" true)).deployCR }}
{{- if semverCompare "<25.10.0-0" .Chart.Version }}
{{- /* The original has no quotes around this value. */}}
{{- $config := .Values.migManager.config }}
{{- $_ := set $config "default" (index (fromYaml (printf "value: %s" $config.default)) "value") }}
{{- end }}
apiVersion: nvidia.com/v1
kind: ClusterPolicy
metadata:
  name: cluster-policy
  labels: {app.kubernetes.io/component: gpu-operator}
spec:
  operator:
    runtimeClass: {{ .Values.operator.runtimeClass }}
  {{- toYaml (omit .Values "operator" "platform" "nfd" "node-feature-discovery" "clusterPolicy" "gpuCluster" "draDriver" "extraObjects" "global") | nindent 2 }}
{{- end }}
{{- range .Values.extraObjects }}
---
{{ tpl (typeIs "string" . | ternary . (toYaml .)) $ }}
{{- end }}
