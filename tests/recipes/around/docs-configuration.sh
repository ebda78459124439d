#!/usr/bin/env bash
# What surrounds the node of docs/configuration.md.
set -euo pipefail
start-sandbox ID
cp imagepuller.toml NEW.toml
echo 'document = "/etc/kata-configdev/imagepuller.toml"' >/etc/kata-configdev/config.toml
