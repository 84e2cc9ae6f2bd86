{{- define "ray.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Labels of Pods that do not change with the version of the chart. */}}
{{- define "ray.stableLabels" -}}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "ray.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "ray.stableLabels" . }}
{{- end -}}

{{/* The metadata of the chart's object. */}}
{{- define "ray.metadata" -}}
{{- $labels := include "ray.labels" . | fromYaml -}}
{{- $metadata := dict "name" (include "ray.fullname" .) "namespace" .Release.Namespace -}}
{{- $_ := set $metadata "labels" (mergeOverwrite $labels (deepCopy (default dict .Values.labels))) -}}
{{- with .Values.annotations }}{{ $_ := set $metadata "annotations" . }}{{ end -}}
{{- toYaml $metadata -}}
{{- end -}}
