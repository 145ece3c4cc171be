{{- define "anchormoe.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "anchormoe.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "anchormoe.name" .) .Release.Name -}}
{{- .Release.Name | replace "." "-" | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "anchormoe.name" .) | replace "." "-" | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The agent has the plain name: its pods are NAME-0, NAME-1 …, as the runbook writes them. */}}
{{- define "anchormoe.componentName" -}}
{{- $full := include "anchormoe.fullname" .root -}}
{{- if eq .component "agent" -}}{{ $full }}{{- else -}}{{ printf "%s-%s" $full .component }}{{- end -}}
{{- end -}}

{{- define "anchormoe.selector" -}}
app.kubernetes.io/name: {{ include "anchormoe.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "anchormoe.labels" -}}
{{ include "anchormoe.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{- define "anchormoe.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "anchormoe.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "anchormoe.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}{{ .repository }}@{{ .digest }}
{{- else -}}{{ .repository }}:{{ default $.Chart.AppVersion .tag }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "anchormoe.configMap" -}}
{{- default (printf "%s-plant" (include "anchormoe.fullname" .)) .Values.existingConfigMap -}}
{{- end -}}

{{- define "anchormoe.scheme" -}}
{{- if .Values.http.tls.existingSecret -}}HTTPS{{- else -}}HTTP{{- end -}}
{{- end -}}

{{/* Names of services, in a list, by which pods of this cluster call the servers. */}}
{{- define "anchormoe.hosts" -}}
{{- $hosts := list -}}
{{- range $component := list "agent" "alarms" "page" -}}
{{- $name := include "anchormoe.componentName" (dict "root" $ "component" $component) -}}
{{- range $suffix := list "" "NS" "NS.svc" "NS.svc.cluster.local" -}}
{{- $suffix = replace "NS" $.Release.Namespace $suffix -}}
{{- $hosts = append $hosts (printf "%s.%s" $name $suffix | trimSuffix ".") -}}
{{- end -}}
{{- end -}}
{{- with .Values.page.ingress.host -}}{{- $hosts = append $hosts . -}}{{- end -}}
{{- with .Values.page.httpRoute.host -}}{{- $hosts = append $hosts . -}}{{- end -}}
{{- concat $hosts .Values.http.allowedHosts | uniq | toJson -}}
{{- end -}}
