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

{{- /* The directory on the node that belongs to this release. A namespace has no dot, so that no two
releases mean the same. */ -}}
{{- define "kata-configdev.prefix" -}}
{{- $own := printf "/opt/kata-configdev/%s.%s" .Release.Namespace .Release.Name -}}
{{- .Values.prefix | default $own | trimSuffix "/" -}}
{{- end -}}

{{- /* What is mounted for it: the directory above, from which an uninstallation removes it. */ -}}
{{- define "kata-configdev.prefixMount" -}}
{{- .Values.prefix | default "/opt/kata-configdev" | trimSuffix "/" -}}
{{- end -}}

{{- /* Where documents live on the node, in memory by default; mounted itself. */ -}}
{{- define "kata-configdev.documentDir" -}}
{{- $own := printf "/run/kata-configdev/%s.%s" .Release.Namespace .Release.Name -}}
{{- .Values.documentDir | default $own | trimSuffix "/" -}}
{{- end -}}

{{- /* The settings file of the set .name, .set; .root is the chart's context. */ -}}
{{- define "kata-configdev.settingsFile" -}}
{{- $below := printf "%s/etc/kata-configdev/config.toml" .name -}}
{{- $own := printf "%s/%s" (include "kata-configdev.prefix" .root) $below -}}
{{- .set.settingsFile | default $own -}}
{{- end -}}

{{- /* The node's directories that are read only: .binaries, and with providers theirs. */ -}}
{{- define "kata-configdev.readDirectories" -}}
{{- $paths := .Values.binaries | default list -}}
{{- if .Values.providers.enabled -}}
{{- $paths = concat $paths .Values.providers.directories -}}
{{- end -}}
{{- dict "paths" ($paths | uniq) | toJson -}}
{{- end -}}

{{- /* The node's directories outside the prefix that are written, as a map of path to hostPath
type. */ -}}
{{- define "kata-configdev.directories" -}}
{{- $directories := dict "/etc/kata-configdev" "DirectoryOrCreate" -}}
{{- $_ := set $directories (include "kata-configdev.documentDir" .) "DirectoryOrCreate" -}}
{{- if .Values.sandboxes.enabled -}}
{{- $_ := set $directories "/run/kata-configdev" "DirectoryOrCreate" -}}
{{- $_ := set $directories "/run/kata-containers/shared/initdata" "DirectoryOrCreate" -}}
{{- end -}}
{{- range .Values.formerDirectories -}}
{{- $_ := set $directories (trimSuffix "/" .) "Directory" -}}
{{- end -}}
{{- range .Values.sets -}}
{{- range .handlers -}}
{{- $_ := set $directories (trimSuffix "/" .) "Directory" -}}
{{- end -}}
{{- end -}}
{{- $directories | toJson -}}
{{- end -}}

{{- define "kata-configdev.image" -}}
{{- $needed := "image.repository is needed: build the image with deploy/Containerfile" -}}
{{- $repository := required $needed .Values.image.repository -}}
{{- $tag := .Values.image.tag -}}
{{- if .Values.image.digest -}}
{{- printf "%s%s@%s" $repository (ternary "" (print ":" $tag) (empty $tag)) .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository ($tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{- define "kata-configdev.containerSecurity" -}}
allowPrivilegeEscalation: false
privileged: false
readOnlyRootFilesystem: true
capabilities:
  drop:
    - ALL
{{- end -}}

{{- /* Not empty where Helm talks to a cluster, which alone runs hooks. "helm template" knows groups
but no kinds: its output is applied as it is, and a hook in it would run at once. */ -}}
{{- define "kata-configdev.hooks" -}}
{{- if .Capabilities.APIVersions.Has "batch/v1/Job" -}}true{{- end -}}
{{- end -}}

{{- /* A hook's pod: anywhere, as nobody, fit for the Pod Security level "restricted". */ -}}
{{- define "kata-configdev.hookPod" -}}
{{- with .Values.imagePullSecrets -}}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{ end -}}
{{- with .Values.tolerations -}}
tolerations:
  {{- toYaml . | nindent 2 }}
{{ end -}}
nodeSelector:
  kubernetes.io/os: linux
  kubernetes.io/arch: amd64
securityContext:
  runAsNonRoot: true
  runAsUser: 65534
  runAsGroup: 65534
  seccompProfile:
    type: RuntimeDefault
{{- end -}}

{{- /* The name of the installer's service account; empty for the namespace's default. */ -}}
{{- define "kata-configdev.serviceAccount" -}}
{{- $own := ternary (include "kata-configdev.name" .) "" .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default $own -}}
{{- end -}}

{{- define "kata-configdev.cleanupMetadata" -}}
name: {{ include "kata-configdev.name" . }}-cleanup
labels:
  {{- include "kata-configdev.labels" . | nindent 2 }}
annotations:
  helm.sh/hook: pre-delete
  helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded,hook-failed
{{- end -}}
