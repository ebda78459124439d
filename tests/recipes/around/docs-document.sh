#!/usr/bin/env bash
# What surrounds the node of docs/document.md.
set -euo pipefail
digest=sha256:$(printf %064d 1)
cat >deployment.yaml <<END
apiVersion: v1
kind: Pod
metadata: {name: app}
spec: {containers: [{name: app, image: "registry.corp/team/app@$digest"}]}
END
