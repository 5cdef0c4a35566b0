//go:build tools

// Package real pins the etcd that stands behind the real kube-apiserver.
// Nothing is compiled from this file; it keeps etcd's requirements in go.sum.
package real

import _ "go.etcd.io/etcd/server/v3"
