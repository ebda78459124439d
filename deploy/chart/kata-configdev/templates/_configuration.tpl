{{- /* installer.toml: what the installer reads. */ -}}
{{- define "kata-configdev.configuration" -}}
{{- $sets := dict -}}
{{- if not .Values.uninstall -}}
{{- range $name, $set := .Values.sets -}}
{{- $one := dict "secret" (printf "/secrets/%s" $name) "handlers" $set.handlers -}}
{{- $_ := set $one "key" ($set.key | default "imagepuller.toml") -}}
{{- $given := dict "name" $name "set" $set "root" $ -}}
{{- $_ := set $one "settings-file" (include "kata-configdev.settingsFile" $given) -}}
{{- $_ := set $one "enabled" (ne $set.enabled false) -}}
{{- $_ := set $one "required" (ne $set.required false) -}}
{{- $names := dict -}}
{{- with $set.existingSecret -}}
{{- $_ := set $names $one.secret (printf "%s/%s" $.Release.Namespace .) -}}
{{- end -}}
{{- $_ := set $one "settings" ($set.settings | default dict) -}}
{{- $configs := list -}}
{{- $given := dict "name" $name "set" $set "placeholder" $.Values.placeholderSecret -}}
{{- range $index, $secret := (include "kata-configdev.dockerConfigs" $given | fromJson).names -}}
{{- $path := printf "/docker-configs/%s/%d" $name $index -}}
{{- $configs = append $configs $path -}}
{{- $_ := set $names $path (printf "%s/%s" $.Release.Namespace $secret) -}}
{{- end -}}
{{- if $configs -}}
{{- $_ := set $one "docker-configs" $configs -}}
{{- $_ := set $one "allow-widening" ($set.allowWidening | default false) -}}
{{- end -}}
{{- $keys := list -}}
{{- range $index, $secret := $set.decryptionKeySecrets -}}
{{- $path := printf "/decryption-keys/%s/%d" $name $index -}}
{{- $keys = append $keys $path -}}
{{- $_ := set $names $path (printf "%s/%s" $.Release.Namespace $secret) -}}
{{- end -}}
{{- if $keys -}}
{{- $_ := set $one "decryption-keys" $keys -}}
{{- end -}}
{{- range $group := (include "kata-configdev.groups" $given | fromJson).groups -}}
{{- if $group.options -}}
{{- $_ := set $one $group.directory $group.options -}}
{{- end -}}
{{- if $group.whole -}}
{{- $path := printf "/%s-secret/%s" $group.directory $name -}}
{{- $_ := set $one (printf "%s-secret" $group.directory) $path -}}
{{- end -}}
{{- range $path, $secret := $group.names -}}
{{- $_ := set $names $path (printf "%s/%s" $.Release.Namespace $secret) -}}
{{- end -}}
{{- end -}}
{{- if or $set.namespaces $set.namespacesSecret -}}
{{- $_ := set $one "namespace-fallback" ($set.namespaceFallback | default "refuse") -}}
{{- end -}}
{{- $_ := set $one "secret-names" $names -}}
{{- $_ := set $sets $name $one -}}
{{- end -}}
{{- end -}}
{{- $address := .Values.health.address -}}
{{- if contains ":" $address -}}
{{- $address = printf "[%s]" $address -}}
{{- end -}}
{{- $prefix := include "kata-configdev.prefix" . -}}
{{- $installer := dict "host" "/host" "prefix" $prefix "sets" $sets -}}
{{- $_ := set $installer "program" "/usr/local/bin/kata-configdev" -}}
{{- $_ := set $installer "sandboxes" .Values.sandboxes.enabled -}}
{{- $_ := set $installer "providers" .Values.providers.enabled -}}
{{- $_ := set $installer "host-network" .Values.providers.enabled -}}
{{- if .Values.metrics.enabled -}}
{{- $_ := set $installer "metrics-port" (int .Values.metrics.port) -}}
{{- if .Values.metrics.address -}}
{{- $_ := set $installer "metrics-address" .Values.metrics.address -}}
{{- end -}}
{{- end -}}
{{- $_ := set $installer "document-dir" (include "kata-configdev.documentDir" .) -}}
{{- if .Values.engine -}}
{{- $_ := set $installer "engine" .Values.engine -}}
{{- end -}}
{{- $_ := set $installer "binaries" (.Values.binaries | default list) -}}
{{- $_ := set $installer "owner" (printf "%s/%s" .Release.Namespace .Release.Name) -}}
{{- $_ := set $installer "wrapper" "/usr/local/bin/kata-configdev-qemu" -}}
{{- $_ := set $installer "listen" (printf "%s:%d" $address (int .Values.health.port)) -}}
{{- $installer | toToml -}}
{{- end -}}
