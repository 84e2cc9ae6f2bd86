//go:build tools

// Package tools names the program that build.sh builds, so that `go mod tidy` keeps its modules.
package tools

import _ "go.etcd.io/etcd/server/v3"
