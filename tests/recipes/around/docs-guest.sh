#!/usr/bin/env bash
# What surrounds the commands of docs/guest.md: an image with a data hub.
set -euo pipefail
mkdir -p /usr/local/libexec
touch /usr/local/bin/confidential-data-hub
