{{- /*
Copyright (c) 2026, the gpufleet.node authors
GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
SPDX-License-Identifier: GPL-3.0-or-later
*/ -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "fullname" . }}-service-account
  namespace: {{ include "namespace" . }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ include "fullname" . }}-role
rules:
- {apiGroups: [""], resources: [nodes], verbs: [get, list, watch, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ include "fullname" . }}-role-binding
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {{ include "fullname" . }}-role}
subjects:
- {kind: ServiceAccount, name: {{ include "fullname" . }}-service-account, namespace: {{ include "namespace" . }}}
