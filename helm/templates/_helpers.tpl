{{/* Every name comes from here: 63 characters are the limit of a label, and "-driver-0" and "-executor" are put behind it. */}}
{{- define "cep.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "cep.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
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

{{/* Selectors are immutable: these three labels and no others. Call with (list $ "component"). */}}
{{- define "cep.selectorLabels" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "cep.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "cep.labels" -}}
{{- $root := index . 0 -}}
{{ include "cep.selectorLabels" . }}
app.kubernetes.io/part-of: cep
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "cep.claim" -}}
{{- default (include "cep.fullname" .) .Values.checkpoint.pvc.existingClaim }}
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

{{/* Credentials of the bucket, for driver and executors; without a Secret the pods' roles must do. */}}
{{- define "cep.s3Env" -}}
{{- if eq .Values.checkpoint.type "uri" }}
{{- with .Values.checkpoint.s3 }}
{{- if .existingSecret }}
{{- $secret := .existingSecret }}
{{- range $name, $key := dict "AWS_ACCESS_KEY_ID" .keys.accessKeyId "AWS_SECRET_ACCESS_KEY" .keys.secretAccessKey }}
- name: {{ $name }}
  valueFrom: {secretKeyRef: {name: {{ $secret }}, key: {{ $key }}}}
{{- end }}
{{- end }}
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
{{- with .Values.kafka.security.existingSecret }}
- name: kafka-secret
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end }}
{{- with .Values.schemaRegistry.auth.existingSecret }}
- name: registry-secret
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end }}
{{- end }}

{{- define "cep.claimVolume" -}}
- name: checkpoint
  persistentVolumeClaim:
    claimName: {{ include "cep.claim" . }}
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
{{- if .Values.kafka.security.existingSecret }}
- name: kafka-secret
  mountPath: /etc/cep/kafka
  readOnly: true
{{- end }}
{{- if .Values.schemaRegistry.auth.existingSecret }}
- name: registry-secret
  mountPath: /etc/cep/registry
  readOnly: true
{{- end }}
{{- end }}

{{/* The settings file. Secrets are named by path only: this is a ConfigMap. */}}
{{- define "cep.settings" -}}
{{- $conf := dict }}
{{- $spark := dict "buckets" .Values.spark.buckets "stop_timeout" (printf "%d s" (int .Values.driver.stopTimeoutSeconds)) }}
{{- $http := dict "host" "0.0.0.0" "port" (int .Values.service.httpPort) "control" (include "cep.controlSettings" . | fromYaml) }}
{{- if eq .Values.mode "client" }}
{{- $_ := mergeOverwrite $conf (include "cep.clientConf" . | fromYaml) }}
{{- $_ := set $spark "master" "k8s://https://kubernetes.default.svc" }}
{{- $_ := set $spark "ingress_tasks" (mul .Values.executor.instances .Values.executor.cores) }}
{{- $_ := set $http "advertised_host" (include "cep.driverHost" .) }}
{{- $_ := set $http "task_token_file" "/etc/cep/internal/token" }}
{{- else }}
{{- $_ := set $spark "master" (printf "local[%d]" (int .Values.driver.localCores)) }}
{{- $_ := set $spark "ingress_tasks" .Values.driver.localCores }}
{{- end }}
{{- $_ := set $conf "spark.driver.memory" .Values.driver.memory }}
{{- $_ := set $spark "conf" (mergeOverwrite $conf .Values.spark.conf) }}
{{- $kafka := dict "bootstrap_servers" (required "kafka.bootstrapServers is required" .Values.kafka.bootstrapServers) }}
{{- with .Values.kafka.clientOptions }}{{ $_ := set $kafka "client_options" . }}{{ end }}
{{- $security := dict "protocol" .Values.kafka.security.protocol }}
{{- with .Values.kafka.security }}
{{- range $name, $value := dict "mechanism" .mechanism "username" .username }}
{{- if $value }}{{ $_ := set $security $name $value }}{{ end }}
{{- end }}
{{- range $name, $key := dict "password_file" .keys.password "ca_file" .keys.ca "certificate_file" .keys.certificate "key_file" .keys.privateKey "key_password_file" .keys.privateKeyPassword }}
{{- if $key }}{{ $_ := set $security $name (printf "/etc/cep/kafka/%s" $key) }}{{ end }}
{{- end }}
{{- end }}
{{- $_ := set $kafka "security" $security }}
{{- $registry := dict "url" (required "schemaRegistry.url is required" .Values.schemaRegistry.url) }}
{{- with .Values.schemaRegistry.auth }}
{{- if .existingSecret }}
{{- $_ := set $registry "username" .username }}
{{- $_ := set $registry "password_file" (printf "/etc/cep/registry/%s" .passwordKey) }}
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
{{- mergeOverwrite $all (deepCopy .Values.settings) | toYaml }}
{{- end }}

{{/* Spark in client mode; ops/decisions/0013 has the reasons. */}}
{{- define "cep.clientConf" -}}
spark.submit.deployMode: client
spark.app.name: {{ include "cep.fullname" . }}
spark.kubernetes.namespace: {{ .Release.Namespace }}
spark.kubernetes.container.image: {{ include "cep.image" . }}
spark.kubernetes.container.image.pullPolicy: {{ .Values.image.pullPolicy }}
# executors belong to the driver's pod and are collected with it
spark.kubernetes.driver.pod.name: {{ include "cep.driverPod" . }}
spark.kubernetes.executor.podTemplateFile: /etc/cep/executor.yaml
spark.kubernetes.executor.podTemplateContainerName: executor
spark.kubernetes.authenticate.executor.serviceAccountName: {{ include "cep.executorAccount" . }}
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
spark.executor.memory: {{ .Values.executor.memory }}
spark.executor.memoryOverhead: {{ .Values.executor.memoryOverhead }}
spark.executor.pyspark.memory: {{ .Values.executor.pysparkMemory }}
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

{{- define "cep.placement" -}}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .topologySpreadConstraints }}
topologySpreadConstraints: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}
