#!/usr/bin/env bash
# What surrounds the node of deploy/README.md.
set -euo pipefail
echo example >password
openssl genpkey -quiet -algorithm RSA -aes256 -pass pass:example -out key.pem
echo example >key.pem.password
cp imagepuller.toml team-a.toml
cp imagepuller.toml team-b.toml

# What an installer of the chart has left.
mkdir secret
cp imagepuller.toml secret
sed -e "s|^secret = .*|secret = \"$PWD/secret\"|" \
    -e 's|^prefix = .*|prefix = "/opt/kata-configdev/NAMESPACE.RELEASE"|' \
    deploy/host/node.toml >node.toml
kata-configdev install --config node.toml
