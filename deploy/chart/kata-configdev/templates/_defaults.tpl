{{- /* Fills in the values that an older chart did not have: `helm upgrade --reuse-values` renders with
the values of the release, and takes no notice of the chart's own. Every template with something to
render begins with it. What is said stays, also what is empty or false. */ -}}
{{- define "kata-configdev.defaults" -}}
{{- $defaults := .Files.Get "defaults.yaml" | fromYaml -}}
{{- include "kata-configdev.fill" (dict "into" .Values "from" $defaults) -}}
{{- end -}}

{{- define "kata-configdev.fill" -}}
{{- range $key, $value := .from -}}
{{- if not (hasKey $.into $key) -}}
{{- $_ := set $.into $key $value -}}
{{- else if and (kindIs "map" $value) (kindIs "map" (get $.into $key)) -}}
{{- include "kata-configdev.fill" (dict "into" (get $.into $key) "from" $value) -}}
{{- end -}}
{{- end -}}
{{- end -}}
