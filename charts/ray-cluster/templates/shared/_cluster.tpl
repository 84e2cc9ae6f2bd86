{{/*
The spec of a RayCluster.
Takes a dict: root (the top context), podLabels (YAML), live (replicas by group, which replace those of the values).
*/}}
{{- define "ray.clusterSpec" -}}
{{- $values := .root.Values -}}
{{- $spec := dict "headGroupSpec" (include "ray.headGroup" . | fromYaml) "workerGroupSpecs" (include "ray.workerGroups" . | fromYamlArray) -}}
{{- range $field := list "rayVersion" "enableInTreeAutoscaling" "autoscalerOptions" -}}
{{- with get $values.head $field }}{{ $_ := set $spec $field . }}{{ end -}}
{{- end -}}
{{- range $field := list "authOptions" "tlsOptions" "networkPolicy" "historyServerOptions" "gcsFaultToleranceOptions" "headServiceAnnotations" -}}
{{- with get $values $field }}{{ $_ := set $spec $field . }}{{ end -}}
{{- end -}}
{{- if ($values.gcsFaultTolerance).enabled -}}
{{- $_ := set $spec "gcsFaultToleranceOptions" (include "ray.gcsFaultTolerance" $values.gcsFaultTolerance | fromYaml) -}}
{{- end -}}
{{- toYaml $spec -}}
{{- end -}}

{{/* KubeRay's older value for Redis. */}}
{{- define "ray.gcsFaultTolerance" -}}
{{- $options := dict -}}
{{- range $field := list "redisAddress" "externalStorageNamespace" "redisUsername" "redisPassword" -}}
{{- with get $ $field }}{{ $_ := set $options $field . }}{{ end -}}
{{- end -}}
{{- toYaml $options -}}
{{- end -}}

{{- define "ray.headGroup" -}}
{{- $head := .root.Values.head -}}
{{- $template := include "ray.podTemplate" (dict "root" .root "group" $head "container" "ray-head" "labels" .podLabels) -}}
{{- $group := dict "template" ($template | fromYaml) -}}
{{- range $field := list "headService" "enableIngress" "ingressOptions" -}}
{{- with get $head $field }}{{ $_ := set $group $field . }}{{ end -}}
{{- end -}}
{{- with (.root.Values.service).type }}{{ $_ := set $group "serviceType" . }}{{ end -}}
{{- mergeOverwrite $group (include "ray.rayFields" $head | fromYaml) | toYaml -}}
{{- end -}}

{{- define "ray.workerGroups" -}}
{{- $context := . -}}
{{- $groups := list -}}
{{- range include "ray.groups" .root | fromYamlArray -}}
{{- $groups = append $groups (include "ray.workerGroup" (merge (dict "name" .name "group" .values) $context) | fromYaml) -}}
{{- end -}}
{{- toYaml $groups -}}
{{- end -}}

{{/* Every group that is not disabled: its name, values, and where the values are. */}}
{{- define "ray.groups" -}}
{{- $groups := list -}}
{{- if not .Values.worker.disabled -}}
{{- $groups = append $groups (dict "name" .Values.worker.groupName "values" .Values.worker "path" "worker") -}}
{{- end -}}
{{- range $name, $values := .Values.additionalWorkerGroups -}}
{{- if not (default dict $values).disabled -}}
{{- $small := dict "cpu" "1" "memory" "1Gi" -}}
{{- $values = deepCopy (default dict $values) -}}
{{- if not $values.resources }}{{ $_ := set $values "resources" (dict "limits" $small "requests" $small) }}{{ end -}}
{{- $groups = append $groups (dict "name" $name "values" $values "path" (printf "additionalWorkerGroups.%s" $name)) -}}
{{- end -}}
{{- end -}}
{{- toYaml $groups -}}
{{- end -}}

{{- define "ray.workerGroup" -}}
{{- $values := .group -}}
{{- $template := include "ray.podTemplate" (dict "root" .root "group" $values "container" "ray-worker" "labels" .podLabels) -}}
{{- $group := dict "groupName" .name "template" ($template | fromYaml) -}}
{{- $_ := set $group "minReplicas" (int (default 0 $values.minReplicas)) -}}
{{- $_ := set $group "maxReplicas" (int (default 2147483647 $values.maxReplicas)) -}}
{{- $_ := set $group "numOfHosts" (int (default 1 $values.numOfHosts)) -}}
{{- if hasKey (default dict .live) .name -}}
{{- $_ := set $group "replicas" (min (max (get .live .name) $group.minReplicas) $group.maxReplicas | int) -}}
{{- else if not (kindIs "invalid" $values.replicas) -}}
{{- $_ := set $group "replicas" (int $values.replicas) -}}
{{- end -}}
{{- if not (kindIs "invalid" $values.idleTimeoutSeconds) }}{{ $_ := set $group "idleTimeoutSeconds" (int $values.idleTimeoutSeconds) }}{{ end -}}
{{- with $values.upscalingPriority }}{{ $_ := set $group "priority" (int .) }}{{ end -}}
{{- with $values.suspend }}{{ $_ := set $group "suspend" . }}{{ end -}}
{{- mergeOverwrite $group (include "ray.rayFields" $values | fromYaml) | toYaml -}}
{{- end -}}

{{/* What Ray itself reads of a head or a worker group; `initArgs` is an old name of `rayStartParams`. */}}
{{- define "ray.rayFields" -}}
{{- $params := dict -}}
{{- range $values := list .rayStartParams .initArgs -}}
{{- range $name, $value := $values }}{{ $_ := set $params $name (include "ray.text" $value) }}{{ end -}}
{{- end -}}
{{- $fields := dict -}}
{{- with $params }}{{ $_ := set $fields "rayStartParams" . }}{{ end -}}
{{- range $field, $map := dict "resources" .rayResources "labels" .rayLabels -}}
{{- range $name, $value := $map -}}
{{- $_ := set $fields $field (set (default dict (get $fields $field)) $name (include "ray.text" $value)) -}}
{{- end -}}
{{- end -}}
{{- toYaml $fields -}}
{{- end -}}

{{/* A value as text. Helm reads numbers as floats and would print 100000000 as 1e+08. */}}
{{- define "ray.text" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) }}{{ printf "%.0f" . }}{{ else }}{{ toString . }}{{ end -}}
{{- end -}}

{{/* YAML inside a string: as it is written, or from a map of values. */}}
{{- define "ray.document" -}}
{{- if kindIs "string" . }}{{ . }}{{ else }}{{ toYaml . }}{{ end -}}
{{- end -}}
