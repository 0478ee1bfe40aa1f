{{- define "numaudit.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest | quote -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote -}}
{{- end -}}
{{- end -}}

{{- define "numaudit.check" -}}
{{- $c := .Values.components -}}
{{- if or (and $c.pages $c.passive) (and $c.pages $c.privileged) (and $c.passive $c.privileged) -}}
{{- fail "components: use at most one of pages, passive and privileged: each says which rights the agent has" -}}
{{- end -}}
{{- if and $c.otlp (not (get .Values.otlp.settings "NUMAUDIT_OTLP_ENDPOINT")) -}}
{{- fail "components.otlp: otlp.settings.NUMAUDIT_OTLP_ENDPOINT must name the receiver, such as https://otel.example.net:4318/v1/metrics" -}}
{{- end -}}
{{- end -}}
