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
{{- if and $c.nrtOwn (not $c.nrt) -}}
{{- fail "components.nrtOwn: it adds to nrt and does nothing without it: set components.nrt to true, too" -}}
{{- end -}}
{{- $settings := .Values.settings | default dict -}}
{{- $kubelet := get $settings "kubelet" | default dict -}}
{{- $ca := or (get $kubelet "ca_file") (get $settings "kubelet.ca_file") -}}
{{- range .Values.env -}}
{{- if eq .name "NUMAUDIT_KUBELET_CA_FILE" -}}{{- $ca = true -}}{{- end -}}
{{- end -}}
{{- if and $c.hideKeys $c.apiServer (not $ca) -}}
{{- fail "components: hideKeys hides the certificate by which apiServer knows the kubelet: leave one out, or set settings.kubelet.ca_file to the authority that signed the kubelet's certificate" -}}
{{- end -}}
{{- end -}}
