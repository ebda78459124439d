{{- /* The documents .documents of the set .name, in the directory .directory ("namespaces" or
"documents"), as an object: what the installer reads ("options"), what messages call the secrets
("names"), the sources of their one projected volume ("sources"), and the volumes of secrets whose
keys nobody knows ("volumes"). Everything is optional: a secret can come at any time. */ -}}
{{- define "kata-configdev.documents" -}}
{{- $options := dict -}}
{{- $names := dict -}}
{{- $sources := list -}}
{{- $volumes := list -}}
{{- $directory := .directory -}}
{{- $set := .name -}}
{{- range $one, $given := .documents | default dict -}}
{{- $given = $given | default dict -}}
{{- $at := printf "/%s/%s/%s" $directory $set $one -}}
{{- $said := dict "required" (ne $given.required false) -}}
{{- with $given.existingSecret -}}
{{- $key := $given.key | default "imagepuller.toml" -}}
{{- $path := printf "%s/document" $at -}}
{{- $_ := set $said "secret" $path -}}
{{- $_ := set $said "key" $key -}}
{{- $_ := set $names $path . -}}
{{- $item := dict "key" $key "path" (printf "%s/document/%s" $one $key) -}}
{{- $source := dict "name" . "optional" true "items" (list $item) -}}
{{- $sources = append $sources (dict "secret" $source) -}}
{{- end -}}
{{- $configs := list -}}
{{- range $index, $secret := $given.dockerConfigSecrets -}}
{{- $path := printf "%s/docker-%d" $at $index -}}
{{- $configs = append $configs $path -}}
{{- $_ := set $names $path $secret -}}
{{- $items := list -}}
{{- range $key := list ".dockerconfigjson" ".dockercfg" -}}
{{- $items = append $items (dict "key" $key "path" (printf "%s/docker-%d/%s" $one $index $key)) -}}
{{- end -}}
{{- $source := dict "name" $secret "optional" true "items" $items -}}
{{- $sources = append $sources (dict "secret" $source) -}}
{{- end -}}
{{- if $configs -}}
{{- $_ := set $said "docker-configs" $configs -}}
{{- $_ := set $said "allow-widening" ($given.allowWidening | default false) -}}
{{- end -}}
{{- $keys := list -}}
{{- range $index, $secret := $given.decryptionKeySecrets -}}
{{- $path := printf "/%s-keys/%s/%s/%d" $directory $set $one $index -}}
{{- $keys = append $keys $path -}}
{{- $_ := set $names $path $secret -}}
{{- $volume := printf "keys-%s" (sha256sum $path | trunc 24) -}}
{{- $volumes = append $volumes (dict "name" $volume "secret" $secret "path" $path) -}}
{{- end -}}
{{- if $keys -}}
{{- $_ := set $said "decryption-keys" $keys -}}
{{- end -}}
{{- $_ := set $options $one $said -}}
{{- end -}}
{{- if .whole -}}
{{- $path := printf "/%s-secret/%s" $directory $set -}}
{{- $_ := set $names $path .whole -}}
{{- $volume := printf "all-%s-%s" $directory $set -}}
{{- $volumes = append $volumes (dict "name" $volume "secret" .whole "path" $path) -}}
{{- end -}}
{{- dict "options" $options "names" $names "sources" $sources "volumes" $volumes | toJson -}}
{{- end -}}

{{- /* Both kinds of documents of the set .name, .set, each as "kata-configdev.documents" has it, in
a list in an object. */ -}}
{{- define "kata-configdev.groups" -}}
{{- $groups := list -}}
{{- range $directory := list "namespaces" "documents" -}}
{{- $documents := get $.set $directory -}}
{{- $whole := get $.set (printf "%sSecret" $directory) -}}
{{- $given := dict "name" $.name "directory" $directory "documents" $documents "whole" $whole -}}
{{- $group := include "kata-configdev.documents" $given | fromJson -}}
{{- $groups = append $groups (merge $group (dict "directory" $directory "whole" $whole)) -}}
{{- end -}}
{{- dict "groups" $groups | toJson -}}
{{- end -}}

{{- /* The directories on the node that pods may name documents in, in a list in an object. */ -}}
{{- define "kata-configdev.allowed" -}}
{{- $directories := list -}}
{{- range $name, $set := .Values.sets -}}
{{- range index ($set.settings | default dict) "annotation-allow" -}}
{{- $directories = append $directories (trimSuffix "/" .) -}}
{{- end -}}
{{- if or $set.documents $set.documentsSecret -}}
{{- $above := include "kata-configdev.documentDir" $ -}}
{{- $directories = append $directories (printf "%s/%s/documents" $above $name) -}}
{{- end -}}
{{- end -}}
{{- dict "directories" ($directories | uniq) | toJson -}}
{{- end -}}
