#!/usr/bin/env bash
# What surrounds the node of docs/operations.md.
set -euo pipefail
kata-configdev pack --config imagepuller.toml --output imagepuller.img
cp /usr/local/bin/kata-configdev{,-qemu} .
for document in team-a team-b new; do cp imagepuller.toml $document.toml; done
start-sandbox ID team-a
