//go:build tools

// Package real pins the Kubernetes components that the parity suite holds the embedded API server against.
// Nothing is compiled from this file; it keeps the requirements of the three programs in go.sum.
package real

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kubectl"
)
