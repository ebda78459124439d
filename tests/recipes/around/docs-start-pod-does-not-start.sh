#!/usr/bin/env bash
# What surrounds the node of docs/start/pod-does-not-start.md.
set -euo pipefail
install -m 600 imagepuller.toml /etc/kata-configdev/imagepuller.toml
echo 'document = "/etc/kata-configdev/imagepuller.toml"' >/etc/kata-configdev/config.toml
start-sandbox ID
