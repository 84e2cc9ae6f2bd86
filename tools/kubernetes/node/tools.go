//go:build tools

// Package tools names what is built for a node: so that `go mod tidy` keeps its modules.
package tools

import (
	_ "k8s.io/kubernetes/cmd/kube-proxy"
	_ "k8s.io/kubernetes/cmd/kubelet"
)
