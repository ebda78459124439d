{{- define "kata-configdev.name" -}}
{{- printf "%s-installer" .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "kata-configdev.selector" -}}
app.kubernetes.io/name: kata-configdev
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "kata-configdev.labels" -}}
{{ include "kata-configdev.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- /* The docker-config secrets of .set, the last of which counts most, as a list in an object;
.placeholder is placeholderSecret. */ -}}
{{- define "kata-configdev.dockerConfigs" -}}
{{- $names := .set.dockerConfigSecrets | default list -}}
{{- if and .placeholder.create (not (has .placeholder.name $names)) -}}
{{- $names = prepend $names .placeholder.name -}}
{{- end -}}
{{- dict "names" $names | toJson -}}
{{- end -}}

{{- /* The node's directories outside the prefix that are written, as a map of path to hostPath
type. */ -}}
{{- define "kata-configdev.directories" -}}
{{- $directories := dict -}}
{{- range .Values.formerDirectories -}}
{{- $_ := set $directories (trimSuffix "/" .) "Directory" -}}
{{- end -}}
{{- $prefix := printf "%s/" (.Values.prefix | trimSuffix "/") -}}
{{- range .Values.sets -}}
{{- range .handlers -}}
{{- $_ := set $directories (trimSuffix "/" .) "Directory" -}}
{{- end -}}
{{- if not (hasPrefix $prefix .settingsFile) -}}
{{- $_ := set $directories (dir .settingsFile) "DirectoryOrCreate" -}}
{{- end -}}
{{- end -}}
{{- $directories | toJson -}}
{{- end -}}
