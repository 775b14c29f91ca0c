{{- /*
Copyright (c) 2026, the gpufleet.node authors
GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
SPDX-License-Identifier: GPL-3.0-or-later
*/ -}}
{{- if $ENABLED }}
{{- $name := printf "%s-node-feature-discovery" .Release.Name }}
apiVersion: v1
kind: ServiceAccount
metadata: {name: {{ $name }}, namespace: {{ .Release.Namespace }}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: {{ $name }}}
rules:
- {apiGroups: [""], resources: [nodes], verbs: [get, list, watch, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: {{ $name }}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {{ $name }}}
subjects:
- {kind: ServiceAccount, name: {{ $name }}, namespace: {{ .Release.Namespace }}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: {{ $name }}-worker
  namespace: {{ .Release.Namespace }}
  labels: {app.kubernetes.io/name: node-feature-discovery, app.kubernetes.io/instance: {{ .Release.Name }}, role: worker}
  annotations: {gpufleet.invalid/stand-in: this is not node feature discovery}
spec:
  selector:
    matchLabels: {app.kubernetes.io/name: node-feature-discovery, app.kubernetes.io/instance: {{ .Release.Name }}, role: worker}
  template:
    metadata:
      labels: {app.kubernetes.io/name: node-feature-discovery, app.kubernetes.io/instance: {{ .Release.Name }}, role: worker}
      annotations: {gpufleet.invalid/stand-in: this is not node feature discovery}
    spec:
      serviceAccountName: {{ $name }}
      tolerations: {{ toJson ($VALUES).worker.tolerations }}
      containers:
      - name: worker
        image: $IMAGE
        imagePullPolicy: IfNotPresent
        command: [nfd-worker]
        env:
        - {name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
        volumeMounts:
        - {name: sys, mountPath: /host/sys, readOnly: true, mountPropagation: HostToContainer}
      volumes:
      - {name: sys, hostPath: {path: /sys}}
{{- end }}
