#!/usr/bin/env bash
# Helm, built once from its Go module into a cache; the chart's tests render and install with it.
#
#   tools/helm.sh            prints the path of the binary; exit code 2 if it cannot be built
set -euo pipefail
cd "$(dirname "$0")/.."
version=v3.21.4
binary="${MANTA_HELM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/manta/helm}/helm"
if [ ! -x "$binary" ]; then
  go=$(bash tools/go.sh) || exit 2
  echo "building helm $version (once; minutes on two cores)" >&2
  made=$(mktemp -d)
  trap 'rm -rf "$made"' EXIT
  # A plain build reports Kubernetes 1.20, which the chart rejects.
  stamp="-s -w"
  for package in chartutil lint/rules; do
    stamp="$stamp -X helm.sh/helm/v3/pkg/$package.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/$package.k8sVersionMinor=35"
  done
  GOBIN="$made" "$go" install -trimpath -ldflags "$stamp" "helm.sh/helm/v3/cmd/helm@$version" >&2 || exit 2
  mkdir -p "$(dirname "$binary")"
  mv "$made/helm" "$binary"
fi
echo "$binary"
