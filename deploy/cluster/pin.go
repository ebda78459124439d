//go:build pin

// Package pin names what go.mod pins, so that "go mod tidy -tags pin" keeps it.
package pin

import _ "k8s.io/kubernetes/cmd/kube-apiserver"
