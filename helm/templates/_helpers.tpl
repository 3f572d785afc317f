{{/* Every name comes from here: 63 characters are the limit of a label, and "-driver-0" and "-executor" are put behind it. */}}
{{- define "cep.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "cep.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if regexMatch "^[0-9]" .Release.Name -}}
{{- /* a Service's name begins with a letter */ -}}
{{- printf "%s-%s" (include "cep.name" .) .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else if contains (include "cep.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "cep.name" .) | trunc 40 | trimSuffix "-" }}
{{- end -}}
{{- end }}

{{/* The headless service of the driver, and the driver's own stable host name behind it. */}}
{{- define "cep.driverService" -}}{{ include "cep.fullname" . }}-driver{{- end }}
{{- define "cep.driverPod" -}}{{ include "cep.fullname" . }}-0{{- end }}
{{- define "cep.driverHost" -}}
{{ include "cep.driverPod" . }}.{{ include "cep.driverService" . }}.{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}
{{- end }}

{{- define "cep.driverAccount" -}}
{{- if .Values.serviceAccount.driverName }}{{ .Values.serviceAccount.driverName }}
{{- else if .Values.serviceAccount.create }}{{ include "cep.fullname" . }}-driver
{{- else }}default{{ end -}}
{{- end }}
{{- define "cep.executorAccount" -}}
{{- if .Values.serviceAccount.executorName }}{{ .Values.serviceAccount.executorName }}
{{- else if .Values.serviceAccount.create }}{{ include "cep.fullname" . }}-executor
{{- else }}default{{ end -}}
{{- end }}

{{- define "cep.image" -}}
{{- $name := .Values.image.repository }}
{{- if .Values.image.registry }}{{ $name = printf "%s/%s" .Values.image.registry $name }}{{ end }}
{{- if .Values.image.digest }}{{ printf "%s@%s" $name .Values.image.digest }}
{{- else }}{{ printf "%s:%s" $name (default .Chart.AppVersion .Values.image.tag) }}{{ end }}
{{- end }}

{{/* Selectors are immutable: these three labels and no others. In quotes: a release may be named `no` or `2025`. Call with (list $ "component"). */}}
{{- define "cep.selectorLabels" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "cep.name" $root | quote }}
app.kubernetes.io/instance: {{ $root.Release.Name | quote }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/* All labels of an object: ours, its own, those of all objects; who comes first wins. Call with (list $ "component") or (list $ "component" $own). */}}
{{- define "cep.labels" -}}
{{- $root := index . 0 -}}
{{- $labels := include "cep.selectorLabels" . | fromYaml }}
{{- $_ := set $labels "app.kubernetes.io/part-of" "cep" }}
{{- $_ := set $labels "app.kubernetes.io/version" $root.Chart.AppVersion }}
{{- $_ := set $labels "app.kubernetes.io/managed-by" $root.Release.Service }}
{{- $_ := set $labels "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-") }}
{{- $own := dict }}
{{- if gt (len .) 2 }}{{ $own = index . 2 | default dict }}{{ end }}
{{- include "cep.tpl" (list $root (merge $labels $own $root.Values.commonLabels)) }}
{{- end }}

{{/* A value whose texts may be templates. Call with (list $ value); queries never come through here, they hold braces of their own. */}}
{{- define "cep.tpl" -}}
{{- $value := index . 1 -}}
{{- tpl (kindIs "string" $value | ternary $value (toYaml $value)) (index . 0) }}
{{- end }}

{{/* Annotations of an object: those of all and its own. Call with (list $ own). Empty when there are none. */}}
{{- define "cep.annotations" -}}
{{- $all := merge (dict) (index . 1 | default dict) (index . 0).Values.commonAnnotations }}
{{- if $all }}{{ include "cep.tpl" (list (index . 0) $all) }}{{ end }}
{{- end }}

{{- define "cep.claim" -}}
{{- default (include "cep.fullname" .) (tpl .Values.checkpoint.pvc.existingClaim .) }}
{{- end }}

{{/* Secrets: somebody else's, or one that the chart makes of values; empty when there is none. */}}
{{- define "cep.kafkaSecret" -}}
{{- with .Values.kafka.security }}
{{- if .existingSecret }}{{ tpl .existingSecret $ }}
{{- else if compact (values .secret) }}{{ include "cep.fullname" $ }}-kafka
{{- end }}
{{- end }}
{{- end }}
{{- define "cep.registrySecret" -}}
{{- with .Values.schemaRegistry.auth }}
{{- if .existingSecret }}{{ tpl .existingSecret $ }}
{{- else if .password }}{{ include "cep.fullname" $ }}-registry
{{- end }}
{{- end }}
{{- end }}
{{- define "cep.s3Secret" -}}
{{- if eq .Values.checkpoint.type "uri" }}
{{- with .Values.checkpoint.s3 }}
{{- if .existingSecret }}{{ tpl .existingSecret $ }}
{{- else if .secret.accessKeyId }}{{ include "cep.fullname" $ }}-s3
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The Kafka Secret's keys by what they are; in a Secret of the chart's they have fixed names. As YAML; none without a Secret. */}}
{{- define "cep.kafkaKeys" -}}
{{- with .Values.kafka.security }}
{{- if .existingSecret }}{{ toYaml .keys }}
{{- else }}
{{- $names := dict "password" "password" "ca" "ca.crt" "certificate" "user.crt" "privateKey" "user.key" "privateKeyPassword" "user.key.password" "clientSecret" "client-secret" "tokenCa" "token-ca.crt" }}
{{- $used := dict }}
{{- range $what, $content := .secret }}{{ if $content }}{{ $_ := set $used $what (get $names $what) }}{{ end }}{{ end }}
{{- toYaml $used }}
{{- end }}
{{- end }}
{{- end }}

{{/* In the claim, or in a bucket: then there is no claim. */}}
{{- define "cep.checkpoint" -}}
{{- if eq .Values.checkpoint.type "pvc" -}}
path: /var/lib/cep/checkpoint
{{- else -}}
path: {{ .Values.checkpoint.uri }}
{{- with .Values.checkpoint.s3 }}
{{- if or .endpoint .region }}
s3:
  {{- with .endpoint }}
  endpoint: {{ . }}
  {{- end }}
  {{- with .region }}
  region: {{ . }}
  {{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* What is in the Secrets and ConfigMaps that somebody else made. Helm sees them when it talks to a cluster; `helm template` does not. */}}
{{- define "cep.existingData" -}}
{{- $names := list }}
{{- range list (include "cep.kafkaSecret" .) (include "cep.registrySecret" .) (include "cep.s3Secret" .) }}
{{- with trim . }}{{ $names = append $names (list "Secret" .) }}{{ end }}
{{- end }}
{{- if eq .Values.mode "client" }}{{ with .Values.internalToken.existingSecret }}{{ $names = append $names (list "Secret" (tpl . $)) }}{{ end }}{{ end }}
{{- if not (dig "queries" "reload" "enabled" true .Values.settings) }}
{{- range .Values.queries.existingConfigMaps }}{{ $names = append $names (list "ConfigMap" (tpl . $)) }}{{ end }}
{{- with .Values.queries.models.existingConfigMap }}{{ $names = append $names (list "ConfigMap" (tpl . $)) }}{{ end }}
{{- end }}
{{- range $names }}
{{ index . 0 }} {{ index . 1 }} {{ (lookup "v1" (index . 0) $.Release.Namespace (index . 1)).data | toJson }}
{{- end }}
{{- end }}

{{/* Credentials of the bucket, for driver and executors; without a Secret the pods' roles must do. */}}
{{- define "cep.s3Env" -}}
{{- $secret := include "cep.s3Secret" . | trim }}
{{- if $secret }}
{{- range $name, $key := dict "AWS_ACCESS_KEY_ID" .Values.checkpoint.s3.keys.accessKeyId "AWS_SECRET_ACCESS_KEY" .Values.checkpoint.s3.keys.secretAccessKey }}
- name: {{ $name }}
  valueFrom: {secretKeyRef: {name: {{ $secret | quote }}, key: {{ $key }}}}
{{- end }}
{{- end }}
{{- end }}

{{/* Volumes that driver and executors have at the same paths. Spark takes volumes of the name spark-local-dir-* for its own
files and adds none then. */}}
{{- define "cep.sharedVolumes" -}}
- name: tmp
  emptyDir: {}
- name: spark-local-dir-1
  emptyDir:
    sizeLimit: {{ .Values.executor.localDirs.sizeLimit }}
{{- if eq .Values.mode "client" }}
{{ include "cep.internalVolume" . }}
{{- end }}
{{- with include "cep.kafkaSecret" . | trim }}
- name: kafka-secret
  secret:
    secretName: {{ . | quote }}
    defaultMode: 0440
{{- end }}
{{- with include "cep.registrySecret" . | trim }}
- name: registry-secret
  secret:
    secretName: {{ . | quote }}
    defaultMode: 0440
{{- end }}
{{- end }}

{{- define "cep.claimVolume" -}}
- name: checkpoint
  persistentVolumeClaim:
    claimName: {{ include "cep.claim" . | quote }}
{{- end }}
{{- define "cep.claimMount" -}}
- name: checkpoint
  mountPath: /var/lib/cep
{{- end }}

{{- define "cep.sharedMounts" -}}
- name: tmp
  mountPath: /tmp
- name: spark-local-dir-1
  mountPath: /var/lib/spark
{{- if eq .Values.mode "client" }}
{{ include "cep.internalMount" . }}
{{- end }}
{{- if include "cep.kafkaSecret" . | trim }}
- name: kafka-secret
  mountPath: /etc/cep/kafka
  readOnly: true
{{- end }}
{{- if include "cep.registrySecret" . | trim }}
- name: registry-secret
  mountPath: /etc/cep/registry
  readOnly: true
{{- end }}
{{- end }}

{{/* What the cluster's size decides; every one of them can be said. As YAML. Call with (list $ mode). */}}
{{- define "cep.derived" -}}
{{- $values := (index . 0).Values }}
{{- $cores := int $values.driver.localCores }}
{{- if eq (index . 1) "client" }}{{ $cores = mul $values.executor.instances $values.executor.cores }}{{ end }}
{{- $partitions := 1 }}
{{- range $values.streams }}{{ $partitions = add $partitions (mul (len (.topics | default list)) (.partitions | default 4)) }}{{ end }}
cores: {{ $cores }}
# one per core: fewer leave cores idle, more cost 2 ms of processor time each per batch
buckets: {{ $values.spark.buckets | default (min 4096 $cores) }}
# 200,000 records or 128 MiB per core and batch, as measured with two cores
maxOffsets: {{ max 400000 (mul 200000 $cores) }}
maxBytes: {{ max 268435456 (mul 134217728 $cores) }}
# any executor may read any topic partition, and a consumer that is not kept connects again
consumerCache: {{ max 64 $partitions }}
# heap and overhead serve all cores; every core has a worker and an owner of buckets, whose state is in pysparkMemory
executorMemory: {{ $values.executor.memory | default (printf "%dm" (max 1024 (add 512 (mul 256 $values.executor.cores)))) }}
memoryOverhead: {{ $values.executor.memoryOverhead | default (printf "%dm" (add 384 (mul 128 $values.executor.cores))) }}
pysparkMemory: {{ $values.executor.pysparkMemory | default (printf "%dm" (mul 1024 $values.executor.cores)) }}
{{- end }}

{{/* The settings file. Secrets are named by path only: this is a ConfigMap. Call with (list $ mode), or (list $ "job"): jobs run Spark in their own pod, and have no control port. */}}
{{- define "cep.settings" -}}
{{- $mode := index . 1 }}
{{- $root := index . 0 }}
{{- with $root }}
{{- $derived := include "cep.derived" (list . $mode) | fromYaml }}
{{- $conf := dict }}
{{- $spark := dict "buckets" (int $derived.buckets) "stop_timeout" (printf "%d s" (int .Values.driver.stopTimeoutSeconds)) "ingress_tasks" (int $derived.cores) }}
{{- if not .Values.spark.buckets }}{{ $_ := set $spark "keep_buckets" true }}{{ end }}
{{- $http := dict "host" .Values.service.listenAddress "port" (int .Values.service.httpPort) }}
{{- if ne $mode "job" }}{{ $_ := set $http "control" (include "cep.controlSettings" . | fromYaml) }}{{ end }}
{{- if eq $mode "client" }}
{{- $_ := mergeOverwrite $conf (include "cep.clientConf" . | fromYaml) }}
{{- $_ := set $spark "master" "k8s://https://kubernetes.default.svc" }}
{{- $_ := set $http "advertised_host" (include "cep.driverHost" .) }}
{{- $_ := set $http "task_token_file" "/etc/cep/internal/token" }}
{{- else }}
{{- $_ := set $spark "master" (printf "local[%d]" (int .Values.driver.localCores)) }}
{{- end }}
{{- $_ := set $conf "spark.driver.memory" .Values.driver.memory }}
{{- $_ := set $conf "spark.kafka.consumer.cache.capacity" (toString $derived.consumerCache) }}
{{- $_ := set $spark "conf" (mergeOverwrite $conf .Values.spark.conf) }}
{{- $kafka := dict "bootstrap_servers" (required "kafka.bootstrapServers is required" (tpl .Values.kafka.bootstrapServers .)) }}
{{- $_ := set $kafka "max_offsets_per_trigger" (int $derived.maxOffsets) }}
{{- $_ := set $kafka "max_bytes_per_trigger" (int $derived.maxBytes) }}
{{- with .Values.kafka.clientOptions }}{{ $_ := set $kafka "client_options" . }}{{ end }}
{{- $security := dict "protocol" .Values.kafka.security.protocol }}
{{- $keys := include "cep.kafkaKeys" . | fromYaml }}
{{- with .Values.kafka.security }}
{{- range $name, $value := dict "mechanism" .mechanism "username" .username }}
{{- if $value }}{{ $_ := set $security $name $value }}{{ end }}
{{- end }}
{{- range $name, $key := dict "password_file" $keys.password "ca_file" $keys.ca "certificate_file" $keys.certificate "key_file" $keys.privateKey "key_password_file" $keys.privateKeyPassword }}
{{- if $key }}{{ $_ := set $security $name (printf "/etc/cep/kafka/%s" $key) }}{{ end }}
{{- end }}
{{- if not .verifyHostname }}{{ $_ := set $security "verify_hostname" false }}{{ end }}
{{- with .oauth }}
{{- if .tokenEndpointUrl }}
{{- $oauth := dict "token_endpoint_url" (tpl .tokenEndpointUrl $root) "client_id" .clientId }}
{{- if .scope }}{{ $_ := set $oauth "scope" .scope }}{{ end }}
{{- if $keys.clientSecret }}{{ $_ := set $oauth "client_secret_file" (printf "/etc/cep/kafka/%s" $keys.clientSecret) }}{{ end }}
{{- if $keys.tokenCa }}{{ $_ := set $oauth "ca_file" (printf "/etc/cep/kafka/%s" $keys.tokenCa) }}{{ end }}
{{- $_ := set $security "oauth" $oauth }}
{{- end }}
{{- end }}
{{- end }}
{{- $_ := set $kafka "security" $security }}
{{- $registry := dict "url" (required "schemaRegistry.url is required" (tpl .Values.schemaRegistry.url .)) }}
{{- if include "cep.registrySecret" . | trim }}
{{- with .Values.schemaRegistry.auth }}
{{- if or .username (not .caKey) }}
{{- $_ := set $registry "username" .username }}
{{- $_ := set $registry "password_file" (printf "/etc/cep/registry/%s" (ternary .passwordKey "password" (ne .existingSecret ""))) }}
{{- end }}
{{- if and .existingSecret .caKey }}{{ $_ := set $registry "ca_file" (printf "/etc/cep/registry/%s" .caKey) }}{{ end }}
{{- end }}
{{- end }}
{{- $queries := dict "paths" (list "queries") }}
{{- with .Values.queries.models }}
{{- if or .existingConfigMap .existingClaim }}{{ $_ := set $queries "models" "models" }}{{ end }}
{{- end }}
{{- $all := dict
    "application" (include "cep.fullname" .)
    "kafka" $kafka
    "schema_registry" $registry
    "streams" .Values.streams
    "queries" $queries
    "checkpoint" (include "cep.checkpoint" . | fromYaml)
    "spark" $spark
    "http" $http }}
{{- /* who may let a job make all topics may let the driver make those of queries that come while it runs */}}
{{- if eq .Values.topics.provision "job" }}{{ $_ := set $all "topics" (dict "create_outputs" true) }}{{ end }}
{{- mergeOverwrite $all (deepCopy .Values.settings) | toYaml }}
{{- end }}
{{- end }}

{{/* Spark in client mode; ops/decisions/0013 has the reasons. */}}
{{- define "cep.clientConf" -}}
{{- $derived := include "cep.derived" (list . "client") | fromYaml }}
spark.submit.deployMode: client
spark.app.name: {{ include "cep.fullname" . | quote }}
spark.kubernetes.namespace: {{ .Release.Namespace | quote }}
spark.kubernetes.container.image: {{ include "cep.image" . }}
spark.kubernetes.container.image.pullPolicy: {{ .Values.image.pullPolicy }}
# executors belong to the driver's pod and are collected with it
spark.kubernetes.driver.pod.name: {{ include "cep.driverPod" . }}
spark.kubernetes.executor.podTemplateFile: /etc/cep/executor.yaml
spark.kubernetes.executor.podTemplateContainerName: executor
spark.kubernetes.authenticate.executor.serviceAccountName: {{ include "cep.executorAccount" . | quote }}
# executors get the driver's host name, not the address it binds
spark.kubernetes.executor.useDriverPodIP: "false"
spark.driver.host: {{ include "cep.driverHost" . }}
spark.driver.bindAddress: 0.0.0.0
spark.driver.port: "7078"
spark.driver.blockManager.port: "7079"
spark.blockManager.port: "7079"
# python: else spark.executor.pyspark.memory is not part of the pod's limit
spark.kubernetes.resource.type: python
spark.executor.instances: {{ .Values.executor.instances | quote }}
spark.executor.cores: {{ .Values.executor.cores | quote }}
spark.kubernetes.executor.request.cores: {{ .Values.executor.requestCores | default .Values.executor.cores | quote }}
spark.executor.memory: {{ $derived.executorMemory }}
spark.executor.memoryOverhead: {{ $derived.memoryOverhead }}
spark.executor.pyspark.memory: {{ $derived.pysparkMemory }}
spark.kubernetes.executor.terminationGracePeriodSeconds: {{ printf "%ds" (int .Values.executor.terminationGracePeriodSeconds) }}
{{- if .Values.executor.decommission.enabled }}
# a node that is taken away says so: no new tasks, and the driver does not count the executor as failed
spark.decommission.enabled: "true"
spark.executor.decommission.forceKillTimeout: {{ printf "%ds" (int .Values.executor.terminationGracePeriodSeconds) }}
spark.kubernetes.decommission.script: /opt/cep/ops/image/decommission.sh
{{- end }}
# Spark counts lost executors for as long as it lives and gives up at twice their number: a year of drained nodes would do
spark.executor.maxNumFailures: {{ max 10 (mul 2 .Values.executor.instances) | quote }}
spark.executor.failuresValidityInterval: 10m
# two verbs less in the Role each
spark.kubernetes.executor.disableConfigMap: "true"
spark.kubernetes.driver.service.deleteOnTermination: "false"
{{- if .Values.imagePullSecrets }}
spark.kubernetes.container.image.pullSecrets: {{ range $i, $s := .Values.imagePullSecrets }}{{ if $i }},{{ end }}{{ $s.name }}{{ end }}
{{- end }}
{{- end }}

{{/* Call with (list $ section). */}}
{{- define "cep.placement" -}}
{{- $root := index . 0 }}
{{- with index . 1 }}
{{- with .nodeSelector }}
nodeSelector: {{- include "cep.tpl" (list $root .) | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- include "cep.tpl" (list $root .) | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity: {{- include "cep.tpl" (list $root .) | nindent 2 }}
{{- end }}
{{- with .topologySpreadConstraints }}
topologySpreadConstraints: {{- include "cep.tpl" (list $root .) | nindent 2 }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .runtimeClassName }}
runtimeClassName: {{ . | quote }}
{{- end }}
{{- with .hostAliases }}
hostAliases: {{- include "cep.tpl" (list $root .) | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{/* Containers that run before or beside. A sidecar is an init container that goes on: it is there first and ends last, and it does not
keep an executor's pod alive. What a container says of its security context wins, `false` as well (`merge` takes that for nothing said). Call with (list $ section). */}}
{{- define "cep.initContainers" -}}
{{- $root := index . 0 }}
{{- with index . 1 }}
{{- $all := list }}
{{- range .sidecars }}{{ $all = append $all (merge (dict "restartPolicy" "Always") .) }}{{ end }}
{{- $all = concat $all .initContainers }}
{{- $safe := list }}
{{- range $all }}{{ $safe = append $safe (mergeOverwrite (dict "securityContext" (deepCopy $root.Values.securityContext)) (deepCopy .)) }}{{ end }}
{{- if $safe }}
initContainers: {{- include "cep.tpl" (list $root $safe) | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{/* Contents of the Secrets that the chart makes of values, by name, as YAML. */}}
{{- define "cep.ownSecrets" -}}
{{- $all := dict }}
{{- $keys := include "cep.kafkaKeys" . | fromYaml }}
{{- $kafka := dict }}
{{- if not .Values.kafka.security.existingSecret }}
{{- range $what, $key := $keys }}{{ $_ := set $kafka $key (get $.Values.kafka.security.secret $what) }}{{ end }}
{{- end }}
{{- if $kafka }}{{ $_ := set $all (include "cep.kafkaSecret" . | trim) $kafka }}{{ end }}
{{- with .Values.schemaRegistry.auth }}
{{- if and .password (not .existingSecret) }}{{ $_ := set $all (include "cep.registrySecret" $ | trim) (dict "password" .password) }}{{ end }}
{{- end }}
{{- with .Values.checkpoint.s3 }}
{{- if and (include "cep.s3Secret" $ | trim) (not .existingSecret) }}
{{- $_ := set $all (include "cep.s3Secret" $ | trim) (dict .keys.accessKeyId .secret.accessKeyId .keys.secretAccessKey .secret.secretAccessKey) }}
{{- end }}
{{- end }}
{{- toYaml $all }}
{{- end }}

{{/* Annotations of a hook before install and upgrade. Call with the weight. */}}
{{- define "cep.hook" -}}
helm.sh/hook: pre-install,pre-upgrade
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{/* Name of a volume's Secret where hooks have copies of those that are ours. Call with (list $ name). */}}
{{- define "cep.hookSecret" -}}
{{- $name := index . 1 }}
{{- $name }}{{ if hasKey (include "cep.ownSecrets" (index . 0) | fromYaml) $name }}-hook{{ end }}
{{- end }}

{{/* What pods of jobs and tests have in common. They run before or beside the release, without any right in the cluster. Call with (list $ account): hooks run before the
release's accounts are there. */}}
{{- define "cep.jobPod" -}}
restartPolicy: Never
automountServiceAccountToken: false
enableServiceLinks: false
{{- with index . 1 }}
serviceAccountName: {{ . | quote }}
{{- end }}
{{- with index . 0 }}
securityContext: {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with include "cep.placement" (list . (omit .Values.driver "topologySpreadConstraints")) | trim }}
{{ . }}
{{- end }}
{{- end }}
{{- end }}

{{/* Queries and models, where they are read. */}}
{{- define "cep.queryVolumes" -}}
- name: queries
  projected:
    {{- if not (or .Values.queries.inline .Values.queries.existingConfigMaps) }}
    sources: []
    {{- else }}
    sources:
      {{- if .Values.queries.inline }}
      - configMap:
          name: {{ include "cep.fullname" . }}-queries
      {{- end }}
      {{- range .Values.queries.existingConfigMaps }}
      - configMap:
          name: {{ tpl . $ | quote }}
      {{- end }}
    {{- end }}
{{- with .Values.queries.models }}
{{- if .existingClaim }}
- name: models
  persistentVolumeClaim:
    claimName: {{ tpl .existingClaim $ | quote }}
    readOnly: true
{{- else if .existingConfigMap }}
- name: models
  configMap:
    name: {{ tpl .existingConfigMap $ | quote }}
{{- end }}
{{- end }}
{{- end }}

{{- define "cep.queryMounts" -}}
- name: queries
  mountPath: /etc/cep/queries
  readOnly: true
{{- if or .Values.queries.models.existingConfigMap .Values.queries.models.existingClaim }}
- name: models
  mountPath: /etc/cep/models
  readOnly: true
{{- end }}
{{- end }}

{{/* Driver and executors, as peers of network policies. */}}
{{- define "cep.ownPods" -}}
{{- range list "driver" "executor" }}
- podSelector:
    matchLabels: {{- include "cep.selectorLabels" (list $ .) | nindent 6 }}
{{- end }}
{{- end }}

{{/* What NOTES.txt warns of: values that work and that one should know about. As a YAML list. */}}
{{- define "cep.warnings" -}}
{{- $derived := include "cep.derived" (list . .Values.mode) | fromYaml }}
{{- $all := list }}
{{- if not (or .Values.queries.inline .Values.queries.existingConfigMaps) }}
{{- $all = append $all "no queries: set queries.inline or queries.existingConfigMaps." }}
{{- end }}
{{- if not .Values.streams }}
{{- $all = append $all "no streams: nothing is read. Set streams." }}
{{- end }}
{{- with .Values.kafka.security }}
{{- if has .protocol (list "PLAINTEXT" "SASL_PLAINTEXT") }}
{{- $all = append $all (printf "kafka.security.protocol is %s: events%s cross the network in clear text." .protocol (ternary " and passwords" "" (eq .protocol "SASL_PLAINTEXT"))) }}
{{- end }}
{{- if not .verifyHostname }}
{{- $all = append $all "kafka.security.verifyHostname is false: whoever holds any certificate of your authority can be a broker." }}
{{- end }}
{{- end }}
{{- if include "cep.ownSecrets" . | fromYaml }}
{{- $all = append $all "secrets of the values lie in the release's own Secret as well, and in your shell's history: name existing ones for more than a trial." }}
{{- end }}
{{- if and .Values.rbac.create (eq .Values.mode "client") (eq (include "cep.driverAccount" . | trim) "default") }}
{{- $all = append $all "serviceAccount names no account for the driver: the namespace's default one, and so every pod without an account of its own, may create and delete pods. Set serviceAccount.driverName." }}
{{- end }}
{{- if and (eq .Values.checkpoint.type "pvc") (not .Values.checkpoint.pvc.keep) (not .Values.checkpoint.pvc.existingClaim) }}
{{- $all = append $all "checkpoint.pvc.keep is false: helm uninstall deletes offsets and state." }}
{{- end }}
{{- if and (gt (int .Values.spark.buckets) 0) (lt (int .Values.spark.buckets) (int $derived.cores)) }}
{{- $all = append $all (printf "spark.buckets is %d, of %d cores: the others match nothing." (int .Values.spark.buckets) (int $derived.cores)) }}
{{- end }}
{{- if not (dig "watchdog" "enabled" true .Values.settings) }}
{{- $all = append $all "settings.watchdog.enabled is false: under overload latencies grow without bound, nothing is shed." }}
{{- end }}
{{- if eq "warn" (dig "delivery" "on_accounting_breach" "fail" .Values.settings) }}
{{- $all = append $all "settings.delivery.on_accounting_breach is warn: a batch that lost events is committed." }}
{{- end }}
{{- if eq false (dig "kafka" "fail_on_data_loss" true .Values.settings) }}
{{- $all = append $all "settings.kafka.fail_on_data_loss is false: records that retention deleted unread are passed over." }}
{{- end }}
{{- if lt (int (dig "topics" "replication_factor" 1 .Values.settings)) 3 }}
{{- if ne .Values.topics.provision "none" }}
{{- $all = append $all "settings.topics.replication_factor is below 3: the topics that are made do not outlive a broker." }}
{{- end }}
{{- end }}
{{- if and (eq .Values.topics.provision "strimzi") .Values.topics.strimzi.streams }}
{{- $all = append $all "topics.strimzi.streams is true: topics of streams that exist already get the partitions that are said here, and lose settings of their own." }}
{{- end }}
{{- if .Values.driver.maintenance }}
{{- $all = append $all "driver.maintenance is true: nothing is matched until it is false again." }}
{{- end }}
{{- if .Values.networkPolicy.enabled }}
{{- if and (eq .Values.checkpoint.type "uri") (not .Values.networkPolicy.objectStore.ports) }}
{{- $all = append $all "networkPolicy.objectStore.ports is empty: the checkpoint's bucket cannot be reached, unless networkPolicy.extraEgress allows it." }}
{{- end }}
{{- if and .Values.kafka.security.oauth.tokenEndpointUrl (not .Values.networkPolicy.tokenEndpoint.ports) }}
{{- $all = append $all "networkPolicy.tokenEndpoint.ports is empty: the token endpoint cannot be reached, unless networkPolicy.extraEgress allows it." }}
{{- end }}
{{- end }}
{{- if and .Values.prometheusRule.enabled (not (contains "://" .Values.prometheusRule.runbookUrl)) }}
{{- $all = append $all "prometheusRule.runbookUrl is no URL: alerts link to nowhere. Set it to where ops/runbooks/ of this version can be read, with a slash at its end." }}
{{- end }}
{{- if .Values.podDisruptionBudget.driver.enabled }}
{{- $all = append $all "podDisruptionBudget.driver is enabled: the drain of its node waits until somebody deletes the driver." }}
{{- end }}
{{- toYaml $all }}
{{- end }}
