#!/usr/bin/env bash
# What surrounds the commands of docs/guest/agent.md: an image with the agent's unit.
set -euo pipefail
mkdir -p /etc/systemd/system/kata-agent.service.d
