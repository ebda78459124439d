#!/usr/bin/env bash
# What surrounds the node of docs/start/node.md: what its first step puts there.
set -euo pipefail
install -D -m 0644 deploy/host/node.toml /etc/kata-configdev/node.toml
