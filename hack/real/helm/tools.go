//go:build tools

// Package real pins the Helm that the charts are rendered and installed with in tests.
// Nothing is compiled from this file; it keeps Helm's requirements in go.sum.
package real

import _ "helm.sh/helm/v3/cmd/helm"
