#!/usr/bin/env bash
# Builds the real control plane (kube-apiserver, kube-controller-manager, kube-scheduler, kubectl, etcd)
# from their Go modules, and our own `informer` and `decoder` with client-go, once, into a cache. It is the oracle of the contract suite; the product
# needs none of it.
#
#   tools/kubernetes/build.sh [PROGRAM ...]     prints the directory of the binaries on its last line
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
kubernetes=1.35.4
etcd=3.7.3
cache="${MANTA_KUBERNETES_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/manta/kubernetes/$kubernetes-etcd-$etcd}"
programs=("$@")
[ ${#programs[@]} -gt 0 ] || programs=(etcd kube-apiserver kube-controller-manager kube-scheduler kubectl informer decoder)
client_go=0.36.2

if ! command -v go >/dev/null; then
  echo "make test-kubernetes builds a real kube-apiserver from its Go modules and needs Go 1.25 or newer on PATH." >&2
  echo "Install Go, or run the suite on a cluster that you have: make test-kubernetes KUBECONFIG=... EXTERNAL=1" >&2
  exit 2
fi
mkdir -p "$cache/src/control-plane" "$cache/src/etcd" "$cache/bin"

# k8s.io/kubernetes pins its staging modules by local `replace`, which a dependant does not inherit:
# the go.mod made here replaces each of them by its published version.
control_plane_module() {
  cd "$cache/src/control-plane"
  [ -f .ready ] && return
  local staging="v0.${kubernetes#1.}" version="v$kubernetes"
  cp "$here/control-plane/tools.go" .
  {
    echo "module manta.local/control-plane"
    echo "go 1.25.0"
    echo "require k8s.io/kubernetes $version"
    echo "replace ("
    for module in $(cat "$here/control-plane/staging-modules"); do
      echo "  k8s.io/$module => k8s.io/$module $staging"
    done
    echo ")"
  } >go.mod
  go mod tidy
  touch .ready
}

etcd_module() {
  cd "$cache/src/etcd"
  [ -f .ready ] && return
  cp "$here/etcd/tools.go" .
  printf 'module manta.local/etcd\ngo 1.25.0\nrequire go.etcd.io/etcd/server/v3 v%s\n' "$etcd" >go.mod
  go mod tidy
  touch .ready
}

# Our own programs with client-go, which are rebuilt when their source changes.
client_go_module() {
  mkdir -p "$cache/src/$1" && cd "$cache/src/$1"
  cp "$here/$1/main.go" .
  [ -f .ready ] && return
  printf 'module manta.local/%s\ngo 1.25.0\nrequire k8s.io/client-go v%s\n' "$1" "$client_go" >go.mod
  go mod tidy
  touch .ready
}
for program in informer decoder; do
  [ "$here/$program/main.go" -nt "$cache/bin/$program" ] && rm -f "$cache/bin/$program"
done

stamp="-X k8s.io/component-base/version.gitVersion=v$kubernetes -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=35"
for program in "${programs[@]}"; do
  [ -x "$cache/bin/$program" ] && continue
  echo "building $program (once; minutes on two cores)" >&2
  if [ "$program" = etcd ]; then
    (etcd_module && go build -trimpath -o "$cache/bin/etcd.new" go.etcd.io/etcd/server/v3) >&2
  elif [ -f "$here/$program/main.go" ]; then
    (client_go_module "$program" && go build -trimpath -o "$cache/bin/$program.new" .) >&2
  else
    (control_plane_module && go build -trimpath -ldflags "-s -w $stamp" -o "$cache/bin/$program.new" "k8s.io/kubernetes/cmd/$program") >&2
  fi
  mv "$cache/bin/$program.new" "$cache/bin/$program"
done
echo "$cache/bin"
