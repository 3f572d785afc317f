{{/* The token by which all parts of a release know each other (driver, executors, owners of buckets, Spark itself): a file in both pods, in no environment. */}}
{{- define "cep.internalSecret" -}}
{{- tpl .Values.internalToken.existingSecret . | default (printf "%s-internal" (include "cep.fullname" .)) }}
{{- end }}

{{- define "cep.internalVolume" -}}
- name: internal-secret
  secret:
    secretName: {{ include "cep.internalSecret" . | quote }}
    defaultMode: 0440
    items: [{key: {{ .Values.internalToken.key }}, path: token}]
{{- end }}
{{- define "cep.internalMount" -}}
- name: internal-secret
  mountPath: /etc/cep/internal
  readOnly: true
{{- end }}

{{/* The control port's token and certificate: for the driver alone. */}}
{{- define "cep.controlVolumes" -}}
{{- with .Values.control.existingSecret }}
- name: control-secret
  secret:
    secretName: {{ tpl . $ | quote }}
    defaultMode: 0440
{{- end }}
{{- with .Values.control.tlsSecret }}
- name: control-tls
  secret:
    secretName: {{ tpl . $ | quote }}
    defaultMode: 0440
{{- end }}
{{- end }}
{{- define "cep.controlMounts" -}}
{{- if .Values.control.existingSecret }}
- name: control-secret
  mountPath: /etc/cep/control
  readOnly: true
{{- end }}
{{- if .Values.control.tlsSecret }}
- name: control-tls
  mountPath: /etc/cep/control-tls
  readOnly: true
{{- end }}
{{- end }}

{{/* What the settings say of the two ports. As YAML. */}}
{{- define "cep.controlSettings" -}}
port: {{ .Values.service.controlPort }}
{{- if .Values.control.existingSecret }}
token_file: /etc/cep/control/{{ .Values.control.tokenKey }}
{{- end }}
{{- if .Values.control.readWithToken }}
read_with_token: true
{{- end }}
{{- if .Values.control.tlsSecret }}
certificate_file: /etc/cep/control-tls/tls.crt
key_file: /etc/cep/control-tls/tls.key
{{- end }}
{{- end }}
