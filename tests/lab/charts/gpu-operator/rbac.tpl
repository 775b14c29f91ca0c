{{- /*
Copyright (c) 2026, the gpufleet.node authors
GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
SPDX-License-Identifier: GPL-3.0-or-later
*/ -}}
apiVersion: v1
kind: ServiceAccount
metadata: {name: gpu-operator, namespace: {{ .Release.Namespace }}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: gpu-operator}
rules:
- {apiGroups: [""], resources: [nodes], verbs: [get, list, watch, patch]}
- {apiGroups: [nvidia.com], resources: [clusterpolicies, clusterpolicies/finalizers], verbs: ["*"]}
- {apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], verbs: [get, create, patch]}
- {apiGroups: [apps], resources: [daemonsets], verbs: ["*"]}
- {apiGroups: [node.k8s.io], resources: [runtimeclasses], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: gpu-operator}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: gpu-operator}
subjects:
- {kind: ServiceAccount, name: gpu-operator, namespace: {{ .Release.Namespace }}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: nvidia-operands, namespace: {{ .Release.Namespace }}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: nvidia-operands}
rules:
- {apiGroups: [""], resources: [nodes], verbs: [get, list, watch, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: nvidia-operands}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: nvidia-operands}
subjects:
- {kind: ServiceAccount, name: nvidia-operands, namespace: {{ .Release.Namespace }}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: nvidia-operands, namespace: {{ .Release.Namespace }}}
rules:
- {apiGroups: [""], resources: [pods, configmaps], verbs: [get, list, watch, create, patch, delete]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: nvidia-operands, namespace: {{ .Release.Namespace }}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: nvidia-operands}
subjects:
- {kind: ServiceAccount, name: nvidia-operands, namespace: {{ .Release.Namespace }}}
