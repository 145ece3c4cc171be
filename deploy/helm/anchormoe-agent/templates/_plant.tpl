{{/* A duration as the plant writes it ("30s"), in seconds. */}}
{{- define "anchormoe.seconds" -}}
{{- $units := dict "ns" 0.000000001 "us" 0.000001 "ms" 0.001 "s" 1.0 "m" 60.0 "h" 3600.0 "d" 86400.0 -}}
{{- $number := regexFind "^[0-9]+([.][0-9]+)?" . -}}
{{- mulf (float64 $number) (get $units (regexFind "[a-z]+$" .)) -}}
{{- end -}}

{{/* A size as the plant (1GiB, 500MB) or Kubernetes (2Gi, 512Mi, 1G) writes it, in bytes. */}}
{{- define "anchormoe.bytes" -}}
{{- $units := dict "" 1.0 "k" 1e3 "K" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024.0 "Mi" 1048576.0 "Gi" 1073741824.0 "Ti" 1099511627776.0 -}}
{{- $text := ternary . (toJson .) (kindIs "string" .) | trimSuffix "B" -}}
{{- mulf (float64 (regexFind "^[0-9]+([.][0-9]+)?" $text)) (get $units (regexFind "[A-Za-z]*$" $text)) -}}
{{- end -}}

{{/* What an HTTP server needs beyond loopback: a token, encryption, the names by which it is called. */}}
{{- define "anchormoe.http" -}}
host: 0.0.0.0
port: {{ .port }}
token: {file: /etc/anchormoe/http/{{ .root.Values.http.tokenKey }}}
{{- with .root.Values.http.usersKey }}
users: /etc/anchormoe/http/{{ . }}
{{- end }}
allowed_hosts: {{ include "anchormoe.hosts" .root }}
{{- if .root.Values.http.tls.existingSecret }}
cert_file: /etc/anchormoe/tls/tls.crt
key_file: /etc/anchormoe/tls/tls.key
{{- else }}
behind_proxy: true
{{- end }}
{{- end -}}

{{/* The plant with its servers, and with time-outs under which static membership is worth something. */}}
{{- define "anchormoe.plant" -}}
{{- $plant := deepCopy .Values.plant -}}
{{- $_ := set $plant "http" (include "anchormoe.http" (dict "root" . "port" 8787) | fromYaml) -}}
{{- if $plant.alarms -}}
{{- $_ := set $plant.alarms "http" (include "anchormoe.http" (dict "root" . "port" 8788) | fromYaml) -}}
{{- end -}}
{{- if and (eq .Values.agent.workload "StatefulSet") (eq $plant.source.kind "kafka") -}}
{{- $timeouts := dict "session" "45s" "rebalance" "60s" -}}
{{- $_ := set $plant.source "timeouts" (merge (default dict $plant.source.timeouts) $timeouts) -}}
{{- end -}}
{{- toYaml $plant -}}
{{- end -}}

{{/* Ports of addresses like host:9092,other:9093 or rediss://:password@host:6380/0, in a list. */}}
{{- define "anchormoe.ports" -}}
{{- $ports := list -}}
{{- range regexFindAll ":[0-9]+(,|/|$)" . -1 -}}
{{- $ports = append $ports (regexFind "[0-9]+" . | int) -}}
{{- end -}}
{{- $ports | uniq | toJson -}}
{{- end -}}

{{/* Ports of a list of addresses like http://host or https://host:9443/path, in a list. Floats, as JSON's numbers are. */}}
{{- define "anchormoe.urlPorts" -}}
{{- $ports := list -}}
{{- range . -}}
{{- $host := regexReplaceAll "^https?://([^/?#]*).*$" . "${1}" -}}
{{- $written := regexFind ":[0-9]+$" $host | trimPrefix ":" -}}
{{- $ports = append $ports (default (ternary "80" "443" (hasPrefix "http://" .)) $written | float64) -}}
{{- end -}}
{{- $ports | uniq | toJson -}}
{{- end -}}
