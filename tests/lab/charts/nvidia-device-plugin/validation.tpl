{{- /*
Copyright (c) 2026, the gpufleet.node authors
GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
SPDX-License-Identifier: GPL-3.0-or-later
*/ -}}
{{- if and (eq (include "namespace" .) "default") (not .Values.allowDefaultNamespace) }}
{{- fail "Running in the 'default' namespace is not recommended. Set 'allowDefaultNamespace=true' to bypass this error." }}
{{- end }}
{{- if or .Values.config.name .Values.config.map }}
{{- fail "the lab's stand-in for the device plugin's chart has no config manager: use that of the GPU operator" }}
{{- end }}
