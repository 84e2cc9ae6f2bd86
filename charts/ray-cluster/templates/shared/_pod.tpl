{{/*
The Pod template of a head or worker group.
Takes a dict: root (the top context), group (its values), container (its name), labels (YAML).
*/}}
{{- define "ray.podTemplate" -}}
{{- $labels := .labels | fromYaml -}}
{{- $metadata := dict "labels" (mergeOverwrite $labels (deepCopy (default dict .group.labels))) -}}
{{- with .group.annotations }}{{ $_ := set $metadata "annotations" . }}{{ end -}}
{{- dict "metadata" $metadata "spec" (include "ray.podSpec" . | fromYaml) | toYaml -}}
{{- end -}}

{{- define "ray.podSpec" -}}
{{- $group := .group -}}
{{- $container := include "ray.container" . | fromYaml -}}
{{- $pod := dict "containers" (concat (list $container) (default list $group.sidecarContainers)) -}}
{{- $fields := list "initContainers" "volumes" "dnsConfig" "nodeSelector" "affinity" "tolerations" "priorityClassName" -}}
{{- $fields = concat $fields (list "topologySpreadConstraints" "restartPolicy" "runtimeClassName" "serviceAccountName" "resourceClaims") -}}
{{- range $field := $fields -}}
{{- with get $group $field }}{{ $_ := set $pod $field . }}{{ end -}}
{{- end -}}
{{- with .root.Values.imagePullSecrets }}{{ $_ := set $pod "imagePullSecrets" . }}{{ end -}}
{{- with $group.podSecurityContext }}{{ $_ := set $pod "securityContext" . }}{{ end -}}
{{- with $group.priority }}{{ $_ := set $pod "priority" (int .) }}{{ end -}}
{{- mergeOverwrite $pod (deepCopy (default dict $group.podSpec)) | toYaml -}}
{{- end -}}

{{- define "ray.container" -}}
{{- $group := .group -}}
{{- $image := mergeOverwrite (deepCopy .root.Values.image) (deepCopy (default dict $group.image)) -}}
{{- $container := dict "name" .container "image" (printf "%v:%v" $image.repository $image.tag) "imagePullPolicy" $image.pullPolicy -}}
{{- with concat (default list (.root.Values.common).containerEnv) (default list $group.containerEnv) -}}
{{- $_ := set $container "env" . -}}
{{- end -}}
{{- range $field := list "command" "args" "envFrom" "volumeMounts" "ports" "resources" "lifecycle" "securityContext" -}}
{{- with get $group $field }}{{ $_ := set $container $field . }}{{ end -}}
{{- end -}}
{{- mergeOverwrite $container (deepCopy (default dict $group.containerSpec)) | toYaml -}}
{{- end -}}
