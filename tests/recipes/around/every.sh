#!/usr/bin/env bash
# What surrounds the node of every page: a document, and programs to begin with.
set -euo pipefail

cp /mnt/ca.pem /etc/ssl/corp.pem
echo example | kata-configdev new --registry registry.corp --user robot --password-stdin \
    --ca /etc/ssl/corp.pem --output imagepuller.toml
mkdir -p /etc/kata-configdev

# make NAME: a program that does what stands on the input.
make() { cat >"/usr/local/bin/$1" && chmod +x "/usr/local/bin/$1"; }

# The owner's store of passwords.
make pass <<'END'
#!/bin/sh
echo example
END

# A sandbox of a namespace, with a disk that can be rewritten; and its bundle alone.
make start-bundle <<'END'
#!/bin/sh -e
bundle=/run/containerd/io.containerd.runtime.v2.task/k8s.io/$1
mkdir -p "$bundle"
printf '{"annotations": {"io.kubernetes.cri.container-type": "sandbox",
    "io.kubernetes.cri.sandbox-namespace": "%s"}}' "${2:-default}" >"$bundle/config.json"
echo "$bundle"
END
make start-sandbox <<'END'
#!/bin/sh -e
settings=/mnt/settings.toml
printf 'document = "/etc/kata-configdev/{namespace}.toml"\nengine = "containerd"\n' >$settings
install -m 600 imagepuller.toml "/etc/kata-configdev/${2:-default}.toml"
kata-configdev attach --sandbox-id "$1" --transport file --bundle "$(start-bundle "$@")" \
    --settings $settings >/dev/null
rm "/etc/kata-configdev/${2:-default}.toml" $settings
END
