{{- /* Fails where values contradict each other, which the schema cannot see. */ -}}
{{- define "kata-configdev.checks" -}}
{{- $taken := dict -}}
{{- $prefix := printf "%s/" (include "kata-configdev.prefixMount" .) -}}
{{- range $name, $set := .Values.sets -}}
{{- $given := dict "name" $name "set" $set "root" $ -}}
{{- range append $set.handlers (include "kata-configdev.settingsFile" $given) -}}
{{- $path := trimSuffix "/" . -}}
{{- if hasKey $taken $path -}}
{{- $rule := "give every handler to one set, and every set a settingsFile of its own" -}}
{{- printf "%s is in the sets %s and %s; %s" $path (get $taken $path) $name $rule | fail -}}
{{- end -}}
{{- $_ := set $taken $path $name -}}
{{- end -}}
{{- if not (or $set.existingSecret $set.namespaces $set.namespacesSecret) -}}
{{- printf "sets.%s: give it an existingSecret, namespaces or a namespacesSecret" $name | fail -}}
{{- end -}}
{{- if and (not $set.existingSecret) (eq $set.namespaceFallback "document") -}}
{{- printf "sets.%s: namespaceFallback document needs an existingSecret" $name | fail -}}
{{- end -}}
{{- range $set.handlers -}}
{{- $path := printf "%s/" (trimSuffix "/" .) -}}
{{- if or (hasPrefix $prefix $path) (hasPrefix $path $prefix) -}}
{{- printf "sets.%s.handlers: %s is no directory of Kata's: it holds the prefix %s, or lies in it"
    $name . $prefix | fail -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $metrics := .Values.metrics -}}
{{- if and (or $metrics.podMonitor.enabled $metrics.rules.enabled) (not $metrics.enabled) -}}
{{- fail "metrics.podMonitor and metrics.rules need metrics.enabled" -}}
{{- end -}}
{{- if $metrics.podMonitor.enabled -}}
{{- $own := ternary "127.0.0.1" .Values.health.address .Values.providers.enabled -}}
{{- $address := $metrics.address | default $own -}}
{{- if or (hasPrefix "127." $address) (eq "::1" $address) -}}
{{- $rule := "set metrics.address; with providers.enabled no policy covers it" -}}
{{- printf "metrics.podMonitor: the pods answer on loopback (%s) only, and nobody else can ask; %s"
    $address $rule | fail -}}
{{- end -}}
{{- $policy := .Values.networkPolicy -}}
{{- /* Pods on the node's network are not covered by it. */ -}}
{{- if and $policy.enabled (not $policy.scrapeFrom) (not .Values.providers.enabled) -}}
{{- $rule := "name your Prometheus in networkPolicy.scrapeFrom" -}}
{{- printf "metrics.podMonitor: the release's own policy lets nobody ask; %s" $rule | fail -}}
{{- end -}}
{{- end -}}
{{- if and .Values.providers.enabled (not .Values.sandboxes.enabled) -}}
{{- fail "providers.enabled needs sandboxes.enabled: their answers go to running sandboxes" -}}
{{- end -}}
{{- if and .Values.metrics.enabled (eq (int $metrics.port) (int .Values.health.port)) -}}
{{- fail "metrics.port and health.port are the same" -}}
{{- end -}}
{{- range .Values.runtimeClasses -}}
{{- $live := lookup "node.k8s.io/v1" "RuntimeClass" "" .name -}}
{{- if and $live (ne $live.handler .handler) -}}
{{- $rule := "the handler of a runtime class cannot be changed; take another name, or delete it" -}}
{{- printf "the runtime class %s exists with the handler %s instead of %s: %s"
    .name $live.handler .handler $rule | fail -}}
{{- end -}}
{{- end -}}
{{- end -}}
