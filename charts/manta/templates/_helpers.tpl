{{- define "manta.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "manta.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains (include "manta.name" .) .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "manta.name" .) | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "manta.selector" -}}
app.kubernetes.io/name: {{ include "manta.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Labels of Pods: they do not change with the version. */}}
{{- define "manta.podLabels" -}}
{{ include "manta.selector" . }}
app.kubernetes.io/component: {{ .Values.componentOverride }}
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "manta.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{ include "manta.podLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/* The operator's Pods have KubeRay's labels, except for the selector of the Deployment. */}}
{{- define "manta.operatorPodLabels" -}}
{{- $labels := include "manta.podLabels" . | fromYaml -}}
{{- if .Values.compatibility.kuberayNames }}{{ $_ := set $labels "app.kubernetes.io/component" "kuberay-operator" }}{{ end -}}
{{- toYaml $labels -}}
{{- end -}}

{{/* The labels of KubeRay's Deployment, for tools that search for it. They are not in the selector. */}}
{{- define "manta.deploymentLabels" -}}
{{- $labels := include "manta.labels" . | fromYaml -}}
{{- if .Values.compatibility.kuberayNames -}}
{{- $_ := set $labels "app.kubernetes.io/name" "kuberay-operator" -}}
{{- $_ := set $labels "app.kubernetes.io/component" "kuberay-operator" -}}
{{- end -}}
{{- toYaml $labels -}}
{{- end -}}

{{- define "manta.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "manta.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "manta.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* The namespaces to watch as a JSON list; empty: all. */}}
{{- define "manta.namespaces" -}}
{{- $named := concat .Values.watchNamespaces .Values.watchNamespace | uniq -}}
{{- if and .Values.singleNamespaceInstall (not $named) -}}
{{- $named = list .Release.Namespace -}}
{{- end -}}
{{- $named | toJson -}}
{{- end -}}

{{- define "manta.batchScheduler" -}}
{{- if .Values.batchScheduler.enabled }}volcano{{ else if ne .Values.batchScheduler.name "default" }}{{ .Values.batchScheduler.name }}{{ end -}}
{{- end -}}

{{/* The value of `--feature-gates`. */}}
{{- define "manta.gates" -}}
{{- $gates := list -}}
{{- range .Values.featureGates }}{{ $gates = append $gates (printf "%s=%t" .name .enabled) }}{{ end -}}
{{- join "," $gates -}}
{{- end -}}

{{/* The rules of the operator with the settings and gates that are on. */}}
{{- define "manta.rules" -}}
{{- $table := .Files.Get "rbac/rules.yaml" | fromYaml -}}
{{- $on := dict -}}
{{- range $table.onByDefault }}{{ $_ := set $on . true }}{{ end -}}
{{- range .Values.featureGates }}{{ $_ := set $on .name .enabled }}{{ end -}}
{{- $_ := set $on "useKubernetesProxy" .Values.useKubernetesProxy -}}
{{- $_ := set $on "openshift" (.Capabilities.APIVersions.Has "route.openshift.io/v1") -}}
{{- with include "manta.batchScheduler" . }}{{ $_ := set $on . true }}{{ end -}}
{{- $rules := $table.always -}}
{{- range $feature, $more := $table.when -}}
{{- if get $on $feature }}{{ $rules = concat $rules $more }}{{ end -}}
{{- end -}}
{{- toYaml $rules -}}
{{- end -}}

{{- define "manta.logFile" -}}
{{- if .Values.logging.fileName -}}
{{- printf "%s/%s" (.Values.logging.baseDir | default "/tmp") .Values.logging.fileName -}}
{{- end -}}
{{- end -}}

{{/* The flags of the history sidecars. */}}
{{- define "manta.historyFlags" -}}
{{- if .Values.history.store -}}
- {{ printf "--history-store=%s" .Values.history.store | quote }}
- {{ printf "--history-image=%s" (include "manta.historyImage" .) | quote }}
{{- end -}}
{{- end -}}

{{- define "manta.historyImage" -}}
{{- .Values.history.image | default (include "manta.image" .) -}}
{{- end -}}

{{- define "manta.consoleUrl" -}}
{{- .Values.console.url | default "http://manta-console.localhost:8267" -}}
{{- end -}}

{{/* The Secret that the login of the console needs. */}}
{{- define "manta.consoleLoginSecret" -}}
{{- if eq .Values.console.login "oidc" -}}
{{- .Values.console.oidc.clientSecret -}}
{{- else if eq .Values.console.login "proxy" -}}
{{- .Values.console.proxy.secret -}}
{{- end -}}
{{- end -}}

{{/* Reject invalid combinations of values. */}}
{{- define "manta.check" -}}
{{- if contains "kuberay/operator" .Values.image.repository -}}
{{- fail "image.repository: this is the operator of KubeRay. Remove `image` from its values, or set an image of Manta." -}}
{{- end -}}
{{- if and .Values.batchScheduler.enabled (not (has .Values.batchScheduler.name (list "" "volcano"))) -}}
{{- fail "batchScheduler: `enabled` means volcano, but `name` is another one. Remove `enabled`." -}}
{{- end -}}
{{- if and (not .Values.leaderElectionEnabled) (gt (int .Values.replicas) 1) -}}
{{- fail "replicas: more than one operator needs leaderElectionEnabled." -}}
{{- end -}}
{{- if and .Values.history.server.enabled (not .Values.history.store) -}}
{{- fail "history.server.enabled: history.store is missing." -}}
{{- end -}}
{{- if and .Values.history.server.existingClaim (not (hasPrefix "file:///" .Values.history.store)) -}}
{{- fail "history.server.existingClaim: history.store must be file:///PATH, where the claim is mounted." -}}
{{- end -}}
{{- with .Values.history.retention -}}
{{- if and (or .olderThan .largerThan) (not $.Values.history.store) -}}
{{- fail "history.retention: history.store is missing." -}}
{{- end -}}
{{- if and .existingClaim (not (hasPrefix "file:///" $.Values.history.store)) -}}
{{- fail "history.retention.existingClaim: history.store must be file:///PATH, where the claim is mounted." -}}
{{- end -}}
{{- end -}}
{{- if .Values.console.enabled -}}
{{- with .Values.console -}}
{{- if and .ingress.enabled (not (hasPrefix "https://" .url)) -}}
{{- fail "console.ingress.enabled: console.url must be https://NAME." -}}
{{- end -}}
{{- if and (eq .login "oidc") (not (and .oidc.issuer .oidc.clientId .url)) -}}
{{- fail "console.login oidc: console.url, console.oidc.issuer and console.oidc.clientId are needed." -}}
{{- end -}}
{{- if and (eq .login "proxy") (not (and .proxy.secret .url)) -}}
{{- fail "console.login proxy: console.url and console.proxy.secret are needed." -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.logging.baseDir (not .Values.logging.fileName) -}}
{{- fail "logging.baseDir: logging.fileName is missing." -}}
{{- end -}}
{{- end -}}
