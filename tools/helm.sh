#!/usr/bin/env bash
# Helm, built once from its Go module into a cache; the chart's tests render and install with it.
#
#   tools/helm.sh            prints the path of the binary; exit code 2 where it cannot be had
set -euo pipefail
version=v3.21.4
binary="${MANTA_HELM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/manta/helm}/helm"
if [ ! -x "$binary" ]; then
  if ! command -v go >/dev/null; then
    echo "helm is built from its Go module, and Go is not on PATH" >&2
    exit 2
  fi
  echo "building helm $version (once; minutes on two cores)" >&2
  made=$(mktemp -d)
  trap 'rm -rf "$made"' EXIT
  # A plain build takes itself for a client of Kubernetes 1.20, which the chart refuses.
  stamp="-s -w"
  for package in chartutil lint/rules; do
    stamp="$stamp -X helm.sh/helm/v3/pkg/$package.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/$package.k8sVersionMinor=35"
  done
  GOBIN="$made" go install -trimpath -ldflags "$stamp" "helm.sh/helm/v3/cmd/helm@$version" >&2 || exit 2
  mkdir -p "$(dirname "$binary")"
  mv "$made/helm" "$binary"
fi
echo "$binary"
