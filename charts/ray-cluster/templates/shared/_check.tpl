{{/* Reject values that the operator would refuse. Takes a dict: root (the top context), kind, longest (name). */}}
{{- define "ray.check" -}}
{{- $values := .root.Values -}}
{{- $name := include "ray.fullname" .root -}}
{{- if gt (len $name) .longest -}}
{{- fail (printf "fullnameOverride: the name %q has %d characters, and a %s at most %d. Set a shorter one, or shorten the release's name." $name (len $name) .kind .longest) -}}
{{- end -}}
{{- if ($values.gcsFaultTolerance).enabled -}}
{{- if not $values.gcsFaultTolerance.redisAddress -}}
{{- fail "gcsFaultTolerance.redisAddress: empty, but gcsFaultTolerance.enabled is true. Set the address of Redis, such as redis:6379." -}}
{{- end -}}
{{- if $values.gcsFaultToleranceOptions -}}
{{- fail "gcsFaultToleranceOptions: set together with gcsFaultTolerance.enabled. Keep one of them." -}}
{{- end -}}
{{- end -}}
{{- if and $values.authOptions (not $values.authOptions.mode) -}}
{{- fail "authOptions.mode: missing, so authOptions has no effect. Set it to token or disabled." -}}
{{- end -}}
{{- include "ray.checkGroups" .root -}}
{{- end -}}

{{- define "ray.checkGroups" -}}
{{- $seen := dict -}}
{{- range include "ray.groups" . | fromYamlArray -}}
{{- $least := int (default 0 .values.minReplicas) -}}
{{- $most := int (default 2147483647 .values.maxReplicas) -}}
{{- if gt $least $most -}}
{{- fail (printf "%s.minReplicas: %d is above maxReplicas, %d. Lower it, or raise maxReplicas." .path $least $most) -}}
{{- end -}}
{{- if not .name -}}
{{- fail (printf "%s.groupName: empty. Set a name, or %s.disabled: true." .path .path) -}}
{{- end -}}
{{- with get $seen .name -}}
{{- fail (printf "worker.groupName: %q is also a key of additionalWorkerGroups. Rename one of the groups." $.Values.worker.groupName) -}}
{{- end -}}
{{- $_ := set $seen .name .path -}}
{{- end -}}
{{- end -}}
