{{/* Every problem that a schema cannot see, at once. */}}
{{- define "anchormoe.check" -}}
{{- $wrong := list -}}
{{- $v := .Values -}}
{{- $plant := default dict $v.plant -}}
{{- if and (not $v.plant) (not $v.existingConfigMap) -}}
{{- $wrong = append $wrong "plant: missing; write it here, or name a ConfigMap in existingConfigMap" -}}
{{- end -}}
{{- if and $v.plant $v.existingConfigMap -}}
{{- $wrong = append $wrong "existingConfigMap: there is a plant as well; remove one of them" -}}
{{- end -}}
{{- if hasKey $plant "http" -}}
{{- $wrong = append $wrong "plant.http: the chart writes it; use http" -}}
{{- end -}}
{{- if hasKey (default dict $plant.alarms) "http" -}}
{{- $wrong = append $wrong "plant.alarms.http: the chart writes it; use http" -}}
{{- end -}}
{{- if not $v.http.existingSecret -}}
{{- $wrong = append $wrong "http.existingSecret: missing; servers beyond loopback need a token" -}}
{{- end -}}
{{- if and (not $v.http.tls.existingSecret) (not $v.http.behindProxy) -}}
{{- $wrong = append $wrong "http.tls.existingSecret: missing, so tokens would travel in clear; name a secret, or set http.behindProxy if a service mesh encrypts" -}}
{{- end -}}
{{- if eq (not $v.bundles.image) (not $v.bundles.existingClaim) -}}
{{- $wrong = append $wrong "bundles: set either image or existingClaim" -}}
{{- end -}}
{{- range $image := list (include "anchormoe.image" .) $v.bundles.image $v.topics.image -}}
{{- if and $image (or (hasSuffix ":latest" $image) (not (regexMatch "(:[^/]+|@sha256:[0-9a-f]{64})$" $image))) -}}
{{- $wrong = append $wrong (printf "image %s: has no fixed version; give it a tag or a digest" $image) -}}
{{- end -}}
{{- end -}}
{{- range $at, $group := $plant.groups -}}
{{- if not (regexMatch "^(/etc/anchormoe/)?bundles/" $group.model.bundle) -}}
{{- $wrong = append $wrong (printf "plant.groups[%d].model.bundle: %s is not mounted; bundles are below bundles/" $at $group.model.bundle) -}}
{{- end -}}
{{- end -}}
{{- if $v.plant -}}
{{- $source := $plant.source -}}
{{- $replicas := ternary $v.autoscaling.maxReplicas $v.agent.replicas $v.autoscaling.enabled | int -}}
{{- if and $source.instance_id (gt $replicas 1) -}}
{{- $wrong = append $wrong "plant.source.instance_id: several agents must not share it; the chart gives each its pod's name" -}}
{{- end -}}
{{- if and (eq $source.kind "kafka") (not $source.bootstrap) (not $v.kafka.bootstrap) -}}
{{- $wrong = append $wrong "kafka.bootstrap: missing, and the plant has none" -}}
{{- end -}}
{{- if and $v.agent.enabled (ne $source.kind "kafka") (gt $replicas 1) -}}
{{- $wrong = append $wrong (printf "agent.replicas: a source of kind %s cannot be shared; use 1" $source.kind) -}}
{{- end -}}
{{- if and $v.agent.enabled (gt $replicas 1) (ne (dig "store" "kind" "memory" $plant) "redis") -}}
{{- $wrong = append $wrong "plant.store: several agents hand windows over through Redis; use kind redis, or one replica" -}}
{{- end -}}
{{- $stop := dig "checkpoint" "stop_deadline" "30s" $plant -}}
{{- if le (float64 $v.agent.terminationGracePeriodSeconds) (addf (include "anchormoe.seconds" $stop | float64) 10.0) -}}
{{- $wrong = append $wrong (printf "agent.terminationGracePeriodSeconds: %v is not more than checkpoint.stop_deadline (%s) plus ten seconds" $v.agent.terminationGracePeriodSeconds $stop) -}}
{{- end -}}
{{- $windows := dig "limits" "memory" "1GiB" $plant -}}
{{- if le (include "anchormoe.bytes" $v.agent.resources.limits.memory | float64) (include "anchormoe.bytes" $windows | float64) -}}
{{- $wrong = append $wrong (printf "agent.resources.limits.memory: %v is not more than the plant's limits.memory (%s)" $v.agent.resources.limits.memory $windows) -}}
{{- end -}}
{{- if $v.alarms.enabled -}}
{{- if not $plant.alarms -}}
{{- $wrong = append $wrong "alarms.enabled: the plant has no section alarms" -}}
{{- else if gt (int $v.alarms.replicas) (len $plant.alarms.consoles) -}}
{{- $wrong = append $wrong (printf "alarms.replicas: %d workers for %d consoles; the rest would stand idle" (int $v.alarms.replicas) (len $plant.alarms.consoles)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $name := list "ingress" "httpRoute" -}}
{{- $way := index $v.page $name -}}
{{- if $way.enabled -}}
{{- if not $v.page.enabled -}}
{{- $wrong = append $wrong (printf "page.%s: there is no page; set page.enabled" $name) -}}
{{- end -}}
{{- if not $way.host -}}
{{- $wrong = append $wrong (printf "page.%s.host: missing" $name) -}}
{{- end -}}
{{- if not $v.http.usersKey -}}
{{- $wrong = append $wrong (printf "page.%s: people who come from outside the cluster need names; set http.usersKey" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $v.page.ingress.enabled (not $v.page.ingress.tlsSecret) -}}
{{- $wrong = append $wrong "page.ingress.tlsSecret: missing; the page has data of the plant" -}}
{{- end -}}
{{- if and $v.page.httpRoute.enabled (not $v.page.httpRoute.parentRefs) -}}
{{- $wrong = append $wrong "page.httpRoute.parentRefs: missing" -}}
{{- end -}}
{{- if and $v.topics.enabled (not (or $v.kafka.bootstrap (dig "source" "bootstrap" "" $plant))) -}}
{{- $wrong = append $wrong "topics: kafka.bootstrap is missing" -}}
{{- end -}}
{{- with $v.autoscaling -}}
{{- if .enabled -}}
{{- if not $v.agent.enabled -}}
{{- $wrong = append $wrong "autoscaling: there is no agent; set agent.enabled" -}}
{{- end -}}
{{- if le (int .partitions) 0 -}}
{{- $wrong = append $wrong "autoscaling.partitions: missing; say how many partitions the input has" -}}
{{- else if gt (int .maxReplicas) (int .partitions) -}}
{{- $wrong = append $wrong (printf "autoscaling.maxReplicas: %d replicas for %d partitions; the rest would stand idle" (int .maxReplicas) (int .partitions)) -}}
{{- end -}}
{{- if gt (int .minReplicas) (int .maxReplicas) -}}
{{- $wrong = append $wrong "autoscaling.minReplicas: more than maxReplicas" -}}
{{- end -}}
{{- if le (float64 .recordsPerSecondPerReplica) 0.0 -}}
{{- $wrong = append $wrong "autoscaling.recordsPerSecondPerReplica: missing; `anchormoe-agent plan` measures it" -}}
{{- end -}}
{{- if and (eq .trigger "prometheus") (not .prometheus.serverAddress) -}}
{{- $wrong = append $wrong "autoscaling.prometheus.serverAddress: missing" -}}
{{- end -}}
{{- if and (eq .trigger "kafka") (not $v.plant) -}}
{{- $wrong = append $wrong "autoscaling.trigger: kafka needs to know topic and group; write the plant here" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $wrong -}}
{{- fail (printf "\n\n%s\n" (join "\n" $wrong)) -}}
{{- end -}}
{{- end -}}
