#!/usr/bin/env bash
# Makes what a real node needs, once, into a cache: kubelet and kube-proxy from their Go modules; containerd,
# runc, CNI plugins, nft, conntrack and busybox unpacked (not installed) from Debian's packages; and an image
# archive with Python, Ray and Manta, made without a registry.
#
#   tools/kubernetes/node/prepare.sh [binaries|packages|image]...    prints the directory on its last line
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
kubernetes=1.35.4
ray=2.60.0
suite=bookworm
cache="${MANTA_KUBERNETES_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/manta/kubernetes}/node-$kubernetes-ray-$ray"
mkdir -p "$cache/bin" "$cache/src" "$cache/debs" "$cache/root"

binaries() {
  [ -x "$cache/bin/kubelet" ] && [ -x "$cache/bin/kube-proxy" ] && return
  echo "building kubelet and kube-proxy (once; minutes on two cores)" >&2
  cd "$cache/src"
  cp "$here/tools.go" .
  {
    echo "module manta.local/node"
    echo "go 1.25.0"
    echo "require k8s.io/kubernetes v$kubernetes"
    echo "replace ("
    for module in $(cat "$here/../control-plane/staging-modules"); do
      echo "  k8s.io/$module => k8s.io/$module v0.${kubernetes#1.}"
    done
    echo ")"
  } >go.mod
  go mod tidy
  local stamp="-X k8s.io/component-base/version.gitVersion=v$kubernetes -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=35"
  for program in kubelet kube-proxy; do
    go build -trimpath -ldflags "-s -w $stamp" -o "$cache/bin/$program.new" "k8s.io/kubernetes/cmd/$program"
    mv "$cache/bin/$program.new" "$cache/bin/$program"
  done
}

packages() {
  [ -x "$cache/root/usr/bin/containerd" ] && [ -e "$cache/root/usr/sbin/debootstrap" ] && return
  cd "$cache/debs"
  apt-get download -o APT::Sandbox::User=root containerd runc containernetworking-plugins busybox-static \
    conntrack libnetfilter-conntrack3 libnfnetlink0 nftables libnftables1 debootstrap >&2
  for package in *.deb; do dpkg -x "$package" "$cache/root"; done
}

# The image: Debian with Python, Ray and Manta. It imitates rayproject/ray (uid 1000, gid 100, /home/ray), it is not it.
image() {
  [ -f "$cache/ray.tar" ] && return
  packages
  local rootfs="$cache/rootfs"
  if [ ! -f "$rootfs/.based" ]; then
    rm -rf "$rootfs"
    DEBOOTSTRAP_DIR="$cache/root/usr/share/debootstrap" bash "$cache/root/usr/sbin/debootstrap" --variant=minbase \
      --include=python3,python3-pip,wget,curl,ca-certificates,procps "$suite" "$rootfs" >&2
    chroot "$rootfs" useradd -m -u 1000 -g 100 -s /bin/bash ray
    touch "$rootfs/.based"
  fi
  cp /etc/resolv.conf "$rootfs/etc/resolv.conf"
  cp -r /usr/local/share/ca-certificates/. "$rootfs/usr/local/share/ca-certificates/" 2>/dev/null || true
  cp /etc/ssl/certs/ca-certificates.crt "$rootfs/etc/ssl/certs/ca-certificates.crt"
  [ -f /etc/pip.conf ] && cp /etc/pip.conf "$rootfs/etc/pip.conf"
  (cd "$root" && "$root/.venv/bin/python" -c 'import shutil, sys; shutil.copytree("src/manta", sys.argv[1], dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))' "$rootfs/opt/manta/manta")
  chroot "$rootfs" env -i PATH=/usr/bin:/bin:/usr/sbin:/sbin HOME=/root PIP_CERT=/etc/ssl/certs/ca-certificates.crt \
    pip install --break-system-packages --no-cache-dir --no-compile --root-user-action=ignore \
    "ray[default,serve]==$ray" aiohttp msgspec pyyaml cryptography >&2
  printf '#!/bin/sh\nPYTHONPATH=/opt/manta exec python3 -m manta.cli.main "$@"\n' >"$rootfs/usr/local/bin/manta"
  chmod 755 "$rootfs/usr/local/bin/manta"
  rm -rf "$rootfs"/var/cache/apt/* "$rootfs"/var/lib/apt/lists/*
  "$root/.venv/bin/python" "$here/pack.py" "$rootfs" "$cache/ray.tar.new" "docker.io/rayproject/ray:$ray"
  mkdir -p "$cache/pause/bin"
  cp "$cache/root/bin/busybox" "$cache/pause/bin/busybox"
  "$root/.venv/bin/python" "$here/pack.py" "$cache/pause" "$cache/pause.tar" registry.k8s.io/pause:3.10 -- /bin/busybox sleep 2147483647
  mv "$cache/ray.tar.new" "$cache/ray.tar"
}

wanted=("$@")
[ ${#wanted[@]} -gt 0 ] || wanted=(binaries packages image)
for step in "${wanted[@]}"; do "$step"; done
echo "$cache"
