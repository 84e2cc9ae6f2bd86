{{/* The spec of a RayJob. */}}
{{- define "rayjob.spec" -}}
{{- $values := .Values -}}
{{- $spec := dict -}}
{{- range $field := list "entrypoint" "metadata" "submissionMode" "jobId" "clusterSelector" "submitterPodTemplate" "submitterConfig" "managedBy" -}}
{{- with get $values $field }}{{ $_ := set $spec $field . }}{{ end -}}
{{- end -}}
{{- range $field := list "entrypointNumCpus" "entrypointNumGpus" "deletionStrategy" -}}
{{- with get $values $field }}{{ $_ := set $spec $field . }}{{ end -}}
{{- end -}}
{{- range $field := list "backoffLimit" "activeDeadlineSeconds" "preRunningDeadlineSeconds" -}}
{{- with get $values $field }}{{ $_ := set $spec $field (int .) }}{{ end -}}
{{- end -}}
{{- with $values.runtimeEnvYAML }}{{ $_ := set $spec "runtimeEnvYAML" (include "ray.document" .) }}{{ end -}}
{{- with $values.entrypointResources -}}
{{- $_ := set $spec "entrypointResources" (kindIs "string" . | ternary . (toJson .)) -}}
{{- end -}}
{{- if and $values.shutdownAfterJobFinishes (not $values.clusterSelector) (not ($values.deletionStrategy).deletionRules) -}}
{{- $_ := set $spec "shutdownAfterJobFinishes" true -}}
{{- with $values.ttlSecondsAfterFinished }}{{ $_ := set $spec "ttlSecondsAfterFinished" (int .) }}{{ end -}}
{{- end -}}
{{- if not $values.clusterSelector -}}
{{- $_ := set $spec "rayClusterSpec" (include "ray.clusterSpec" (dict "root" . "podLabels" (include "ray.stableLabels" .)) | fromYaml) -}}
{{- end -}}
{{- toYaml $spec -}}
{{- end -}}

{{/* Reject values that the operator would refuse, or that contradict each other. */}}
{{- define "rayjob.check" -}}
{{- $cron := not (empty .Values.schedule) -}}
{{- $longest := .Values.rerunOnUpgrade | ternary 40 47 -}}
{{- include "ray.check" (dict "root" . "kind" ($cron | ternary "RayCronJob" "RayJob") "longest" ($cron | ternary 36 $longest)) -}}
{{- if and (not .Values.entrypoint) (ne .Values.submissionMode "InteractiveMode") (not .Values.submitterPodTemplate) -}}
{{- fail "entrypoint: empty. Set the command to run, for example --set entrypoint='python main.py'." -}}
{{- end -}}
{{- range $field := list "timeZone" "successfulJobsHistoryLimit" "failedJobsHistoryLimit" -}}
{{- if and (not $cron) (not (empty (get $.Values $field))) -}}
{{- fail (printf "%s: %v has no effect without schedule. Set schedule, or remove it." $field (get $.Values $field)) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.rerunOnUpgrade $cron -}}
{{- fail "rerunOnUpgrade: true contradicts schedule. Remove one of them." -}}
{{- end -}}
{{- if and .Values.clusterSelector (not (get .Values.clusterSelector "ray.io/cluster")) -}}
{{- fail (printf "clusterSelector: %s has no key ray.io/cluster. Set it to the name of a RayCluster." (toJson .Values.clusterSelector)) -}}
{{- end -}}
{{- end -}}
