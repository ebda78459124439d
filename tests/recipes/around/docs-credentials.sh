#!/usr/bin/env bash
# What surrounds the node of docs/credentials.md.
set -euo pipefail

# The document of the node, its settings, and a sandbox that runs.
cat >/etc/kata-configdev/imagepuller.toml <<'END'
[registries."harbor.corp"]
username = "robot"
password = "example"

[registries.".corp"]
ca-certs = "none"
END
cp /etc/kata-configdev/imagepuller.toml .
plugins=/etc/kubelet/plugins
bundle=/run/containerd/io.containerd.runtime.v2.task/k8s.io/9d2c7e
mkdir -p $bundle
echo '{"annotations": {}}' >$bundle/config.json
echo 'document = "/etc/kata-configdev/imagepuller.toml"' >/etc/kata-configdev/config.toml
kata-configdev attach --sandbox-id 9d2c7e --transport file --bundle $bundle >/dev/null

# The kubelet's plugins.
cat >/etc/kata-configdev/config.toml <<END
document = "/etc/kata-configdev/imagepuller.toml"
[credential-providers]
config = "/etc/kubelet/providers.yaml"
bin-dir = "$plugins"
registries = "matchImages"
END
mkdir -p $plugins
cat >/etc/kubelet/providers.yaml <<'END'
apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- {name: corp-provider, matchImages: ["ecr.corp", "harbor.corp"], defaultCacheDuration: 6h,
   apiVersion: credentialprovider.kubelet.k8s.io/v1}
- {name: sa-provider, matchImages: ["ecr.corp"], defaultCacheDuration: 6h,
   apiVersion: credentialprovider.kubelet.k8s.io/v1,
   tokenAttributes: {serviceAccountTokenAudience: a, cacheType: Token,
     requireServiceAccount: false}}
END
cat >$plugins/corp-provider <<'END'
#!/bin/sh
cat >/dev/null
echo '{"kind": "CredentialProviderResponse", "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
    "cacheKeyType": "Registry",
    "auth": {"ecr.corp": {"username": "AWS", "password": "example"},
        "*.corp": {"username": "AWS", "password": "other"}}}'
END
cp $plugins/corp-provider $plugins/sa-provider
chmod +x $plugins/*

# The secrets of two teams.
mkdir -p /mnt/cluster/team-a manifests
config=$(printf '{"auths": {"ghcr.io": {"username": "robot", "password": "example"}}}' | base64 -w0)
cat >/mnt/cluster/team-a/pull.json <<END
apiVersion: v1
kind: Secret
metadata: {name: pull, namespace: team-a}
type: kubernetes.io/dockerconfigjson
data: {.dockerconfigjson: $config}
END
cat >/mnt/cluster/secretexports <<'END'
apiVersion: secretgen.carvel.dev/v1alpha1
kind: SecretExport
metadata: {name: pull, namespace: team-a}
spec: {toNamespaces: [team-b]}
END
cp /mnt/cluster/team-a/pull.json /mnt/cluster/secrets
cp /mnt/cluster/team-a/pull.json manifests/pull.yaml
sed s/team-b/kata/ /mnt/cluster/secretexports >manifests/exports.yaml

# Keys as an earlier proposal lists them.
openssl ecparam -name prime256v1 -genkey -noout -out one.pem
openssl genpkey -quiet -algorithm RSA -aes256 -pass pass:example -out two.pem
printf '%s,%s' "$(base64 -w0 one.pem)" "$(base64 -w0 two.pem)" >list.txt

# What the container engine has.
mkdir -p /etc/containerd/certs.d/reg.corp
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key \
    -out /etc/containerd/certs.d/reg.corp/ca.crt -subj /CN=corp -days 30 2>/dev/null

# The pull secret of its registry.
kubectl create secret docker-registry regcred --docker-server=reg.corp --docker-username=robot \
    --docker-password=example
