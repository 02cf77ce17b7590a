{{- define "vedette-agent.name" -}}
{{ .Values.nameOverride | default .Release.Name }}
{{- end }}
