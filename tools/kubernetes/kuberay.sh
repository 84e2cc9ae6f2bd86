#!/usr/bin/env bash
# Builds KubeRay's own operator from a clone of its repository, for tests/kubernetes/test_takeover_from_kuberay.py.
# Nothing of it is kept here; its libraries come as Go modules.
#
#   tools/kubernetes/kuberay.sh CLONE [RELEASE]...     prints the directory on its last line
set -euo pipefail
clone=${1:?"the directory of a clone of KubeRay, with its tags"}
shift
[ $# -gt 0 ] || set -- 1.5.2 1.6.2 1.7.0
cache="${MANTA_KUBERNETES_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/manta/kubernetes}/kuberay"
mkdir -p "$cache"
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
for release in "$@"; do
  [ -x "$cache/operator-$release" ] && continue
  echo "building KubeRay $release (once; minutes on two cores)" >&2
  mkdir "$made/$release"
  git -C "$clone" archive "v$release:ray-operator" | tar -x -C "$made/$release"
  (cd "$made/$release" && go build -trimpath -ldflags '-s -w' -o "$made/operator" .) >&2
  mv "$made/operator" "$cache/operator-$release"
done
echo "$cache"
