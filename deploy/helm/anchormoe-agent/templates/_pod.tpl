{{/* A pod of the image. Takes root, component, settings (of the component), args, port, probes, member. */}}
{{- define "anchormoe.pod" -}}
{{- $root := .root -}}
{{- $v := .root.Values -}}
metadata:
  labels:
    {{- include "anchormoe.labels" . | nindent 4 }}
    {{- with .settings.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    checksum/plant: {{ if $v.plant }}{{ include "anchormoe.plant" $root | sha256sum }}{{ else }}{{ $v.existingConfigMap }}{{ end }}
    {{- with .settings.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "anchormoe.serviceAccount" $root }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .settings.terminationGracePeriodSeconds }}
  securityContext:
    {{- toYaml $v.podSecurityContext | nindent 4 }}
  {{- with $v.image.pullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .settings.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with .settings.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .settings.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .settings.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if $v.topologySpread.enabled }}
  topologySpreadConstraints:
    {{- range $key := list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
    - maxSkew: 1
      topologyKey: {{ $key }}
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "anchormoe.selector" $ | nindent 10 }}
    {{- end }}
  {{- end }}
  {{- if $v.bundles.image }}
  initContainers:
    - name: bundles
      image: {{ $v.bundles.image }}
      imagePullPolicy: {{ $v.image.pullPolicy }}
      command: [cp, -R, /bundles/., /copied/]
      securityContext:
        {{- toYaml $v.securityContext | nindent 8 }}
      resources:
        requests: {cpu: 50m, memory: 32Mi}
        limits: {memory: 128Mi}
      volumeMounts:
        - {name: bundles, mountPath: /copied}
  {{- end }}
  containers:
    - name: {{ .component }}
      image: {{ include "anchormoe.image" $root }}
      imagePullPolicy: {{ $v.image.pullPolicy }}
      args: {{ toJson .args }}
      ports:
        - {name: http, containerPort: {{ .port }}, protocol: TCP}
      env:
        {{- if .member }}
        # Static membership: a pod that is back in time gets its partitions again, without a rebalance.
        - name: ANCHORMOE_KAFKA_INSTANCE_ID
          valueFrom: {fieldRef: {fieldPath: metadata.name}}
        {{- end }}
        - name: OMP_NUM_THREADS
          valueFrom: {resourceFieldRef: {containerName: {{ .component }}, resource: requests.cpu, divisor: "1"}}
        - {name: NUMBA_CACHE_DIR, value: /var/lib/anchormoe/.cache}
        {{- with $v.kafka.bootstrap }}
        - {name: ANCHORMOE_KAFKA_BOOTSTRAP, value: {{ . | quote }}}
        {{- end }}
        {{- with $v.redis.existingSecret }}
        - name: ANCHORMOE_REDIS_URL
          valueFrom: {secretKeyRef: {name: {{ . }}, key: {{ $v.redis.urlKey }}}}
        {{- end }}
        {{- range $v.secretEnv }}
        - name: {{ .name }}
          valueFrom: {secretKeyRef: {name: {{ .secret }}, key: {{ .key }}}}
        {{- end }}
        {{- with $v.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      securityContext:
        {{- toYaml $v.securityContext | nindent 8 }}
      resources:
        {{- toYaml .settings.resources | nindent 8 }}
      {{- toYaml .probes | nindent 6 }}
      volumeMounts:
        - {name: plant, mountPath: /etc/anchormoe/plant.yaml, subPath: plant.yaml, readOnly: true}
        - {name: bundles, mountPath: /etc/anchormoe/bundles, readOnly: true}
        - {name: http, mountPath: /etc/anchormoe/http, readOnly: true}
        {{- if $v.http.tls.existingSecret }}
        - {name: tls, mountPath: /etc/anchormoe/tls, readOnly: true}
        {{- end }}
        {{- range $at, $file := $v.secretFiles }}
        - {name: secret-{{ $at }}, mountPath: {{ $file.mountPath }}, readOnly: true}
        {{- end }}
        - {name: tmp, mountPath: /tmp}
        - {name: home, mountPath: /var/lib/anchormoe}
        {{- with $v.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: plant
      configMap: {name: {{ include "anchormoe.configMap" $root }}}
    - name: bundles
      {{- if $v.bundles.image }}
      emptyDir: {}
      {{- else }}
      persistentVolumeClaim: {claimName: {{ $v.bundles.existingClaim }}, readOnly: true}
      {{- end }}
    - name: http
      secret: {secretName: {{ $v.http.existingSecret }}, defaultMode: 0440}
    {{- with $v.http.tls.existingSecret }}
    - name: tls
      secret: {secretName: {{ . }}, defaultMode: 0440}
    {{- end }}
    {{- range $at, $file := $v.secretFiles }}
    - name: secret-{{ $at }}
      secret: {secretName: {{ $file.secret }}, defaultMode: 0440}
    {{- end }}
    - name: tmp
      emptyDir: {sizeLimit: 256Mi}
    # Compiled models: kept over a restart of the container, not of the pod.
    - name: home
      emptyDir: {sizeLimit: 2Gi}
    {{- with $v.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}

{{/* Loading models takes long the first time: up to five minutes; after that, a minute without an answer is too long. */}}
{{- define "anchormoe.probes" -}}
startupProbe:
  httpGet: {path: /livez, port: http, scheme: {{ include "anchormoe.scheme" . }}}
  periodSeconds: 5
  failureThreshold: 60
  timeoutSeconds: 4
livenessProbe:
  httpGet: {path: /livez, port: http, scheme: {{ include "anchormoe.scheme" . }}}
  periodSeconds: 10
  failureThreshold: 6
  timeoutSeconds: 5
readinessProbe:
  httpGet: {path: /readyz, port: http, scheme: {{ include "anchormoe.scheme" . }}}
  periodSeconds: 5
  failureThreshold: 3
  timeoutSeconds: 4
{{- end -}}
