#!/usr/bin/env bash
# What surrounds the node of docs/runtime-integration.md.
set -euo pipefail
start-bundle ID
install -m 600 imagepuller.toml /etc/kata-configdev/imagepuller.toml
echo 'document = "/etc/kata-configdev/imagepuller.toml"' >/etc/kata-configdev/config.toml
