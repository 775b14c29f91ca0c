{{- /*
Copyright (c) 2026, the gpufleet.node authors
GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
SPDX-License-Identifier: GPL-3.0-or-later
*/ -}}
{{- $cluster := (.Values.gpuCluster | default dict).deployCR }}
{{- $policy := (.Values.clusterPolicy | default (dict "deployCR" true)).deployCR }}
{{- if and $cluster $policy }}
{{- fail "gpuCluster.deployCR and clusterPolicy.deployCR are mutually exclusive" }}
{{- end }}
{{- if $cluster }}
{{- fail "the lab's stand-in for the GPU operator has no GPUCluster (gpuCluster.deployCR)" }}
{{- end }}
{{- if and .Values.cdi.nriPluginEnabled (not .Values.cdi.enabled) }}
{{- fail "the NRI Plugin cannot be enabled when CDI is disabled" }}
{{- end }}
{{- with .Values.devicePlugin.config }}
{{- if and .create (or (not .name) (not .data)) }}
{{- fail "devicePlugin.config.create requires devicePlugin.config.name and devicePlugin.config.data" }}
{{- end }}
{{- if .create }}
{{- fail "the lab's stand-in for the GPU operator's chart creates no ConfigMap (devicePlugin.config.create)" }}
{{- end }}
{{- end }}
