#!/usr/bin/env bash
# Makes what a real node needs, once, into a cache: kubelet and kube-proxy from their Go modules; containerd,
# runc, CNI plugins, nft, conntrack and busybox unpacked (not installed) from Debian's packages; and image archives
# of a pause, Ray and the operator, made without a registry.
#
#   tools/kubernetes/node/prepare.sh [binaries|packages|images]...    prints the directory on its last line
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
kubernetes=1.35.4
ray=2.60.0
suite=bookworm
cache="${MANTA_KUBERNETES_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/manta/kubernetes}/node-$kubernetes-ray-$ray"
rootfs="$cache/rootfs"
mkdir -p "$cache/bin" "$cache/src"

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

debs=(containerd runc containernetworking-plugins busybox-static conntrack nftables debootstrap
  libedit2 libjansson4 libmnl0 libnetfilter-conntrack3 libnfnetlink0 libnftables1 libnftnl11 libseccomp2 libxtables12)
packages() {
  [ "$(cat "$cache/packages" 2>/dev/null)" = "${debs[*]}" ] && return
  rm -rf "$cache/debs" "$cache/root" && mkdir -p "$cache/debs" "$cache/root"
  (cd "$cache/debs" && apt-get download -o APT::Sandbox::User=root "${debs[@]}") >&2
  for package in "$cache"/debs/*.deb; do dpkg -x "$package" "$cache/root"; done
  echo "${debs[*]}" >"$cache/packages"
}

# ── images ──
# One root file system, cut into layers: Debian with Python; /opt/ray; /opt/manta. The image of Ray imitates
# rayproject/ray (uid 1000, gid 100, /home/ray, bash, wget), it is not it; the operator's is made by the
# Dockerfile's steps on Debian's Python.

inside() { chroot "$rootfs" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 "$@" >&2; }

layer() { # NAME TAR-ARGUMENTS...
  local out="$cache/$1.layer"
  shift
  tar -C "$rootfs" --numeric-owner --exclude='./proc/*' --exclude='./sys/*' --exclude='./dev/*' -cf "$out.new" "$@"
  mv "$out.new" "$out"
}

pack() { "$root/.venv/bin/python" "$here/pack.py" "$@"; }

debian() {
  [ -f "$cache/debian.layer" ] && return
  packages
  rm -rf "$rootfs"
  DEBOOTSTRAP_DIR="$cache/root/usr/share/debootstrap" PATH="$cache/root/usr/bin:$PATH" \
    bash "$cache/root/usr/sbin/debootstrap" --variant=minbase \
    --include=python3,python3-venv,wget,curl,ca-certificates,procps "$suite" "$rootfs" >&2
  inside useradd -m -u 1000 -g 100 -s /bin/bash ray
  rm -rf "$rootfs"/var/cache/apt/* "$rootfs"/var/lib/apt/lists/* "$rootfs"/var/log/*
  layer debian --exclude='./opt/*' .
}

# What reaches the package index from this machine reaches it from inside.
as_this_machine() {
  cp /etc/resolv.conf /etc/hosts "$rootfs/etc/"
  cp /etc/ssl/certs/ca-certificates.crt "$rootfs/etc/ssl/certs/"
  [ ! -f /etc/pip.conf ] || cp /etc/pip.conf "$rootfs/etc/"
}

ray_image() {
  [ -f "$cache/ray.tar" ] && return
  debian
  as_this_machine
  rm -rf "$rootfs/opt/ray"
  inside python3 -m venv /opt/ray
  inside /opt/ray/bin/pip install --no-cache-dir --disable-pip-version-check "ray[default,serve]==$ray"
  inside chown -R 1000:100 /opt/ray
  layer ray ./opt/ray
  pack "$cache/ray.tar.new" "docker.io/rayproject/ray:$ray" '{
    "User": "1000:100", "WorkingDir": "/home/ray",
    "Env": ["PATH=/opt/ray/bin:/usr/local/bin:/usr/bin:/bin", "HOME=/home/ray", "LANG=C.UTF-8"]
  }' "$cache/debian.layer" "$cache/ray.layer"
  rm "$cache/ray.layer"
  mv "$cache/ray.tar.new" "$cache/ray.tar"
}

# The operator of this working tree, as the Dockerfile makes it: libraries by hash, then the wheel; rebuilt when they changed.
operator_image() {
  local sources=(src examples pyproject.toml hatch_build.py README.md LICENSE) locks=(requirements-build.lock requirements-image.lock) stamp
  stamp=$(cd "$root" && find "${sources[@]}" "${locks[@]}" -type f ! -name '*.pyc' -print0 | sort -z | xargs -0 sha256sum | sha256sum)
  [ -f "$cache/operator.tar" ] && [ "$(cat "$cache/operator.stamp" 2>/dev/null)" = "$stamp" ] && return
  debian
  libraries
  local packages=/opt/manta/lib/python3.11/site-packages
  rm -rf "$rootfs/opt/source" "$rootfs/opt/dist" "$rootfs$packages"/manta*
  mkdir "$rootfs/opt/source"
  (cd "$root" && tar -c --exclude=__pycache__ "${sources[@]}") | tar -x -C "$rootfs/opt/source"
  inside /opt/build/bin/pip wheel -q --no-deps --no-build-isolation --wheel-dir /opt/dist /opt/source
  inside bash -c '/opt/build/bin/pip --python /opt/manta/bin/python install -q --no-deps --no-index /opt/dist/*.whl'
  (cd "$rootfs" && layer operator ./opt/manta/bin/manta ."$packages"/manta*)
  pack "$cache/operator.tar.new" docker.io/manta/operator:e2e '{
    "User": "65532:65532", "Entrypoint": ["manta"], "Cmd": ["operator"],
    "Env": ["PATH=/opt/manta/bin:/usr/bin:/bin", "HOME=/tmp", "PYTHONDONTWRITEBYTECODE=1", "PYTHONUNBUFFERED=1"]
  }' "$cache/debian.layer" "$cache/libraries.layer" "$cache/operator.layer"
  mv "$cache/operator.tar.new" "$cache/operator.tar"
  echo "$stamp" >"$cache/operator.stamp"
}

libraries() {
  local stamp
  stamp=$(cat "$root"/requirements-build.lock "$root"/requirements-image.lock | sha256sum)
  [ -f "$cache/libraries.layer" ] && [ "$(cat "$cache/libraries.stamp" 2>/dev/null)" = "$stamp" ] && return
  as_this_machine
  rm -rf "$rootfs/opt/manta" "$rootfs/opt/build"
  cp "$root"/requirements-build.lock "$root"/requirements-image.lock "$rootfs/opt/"
  inside python3 -m venv /opt/build
  inside python3 -m venv --without-pip /opt/manta
  local install=(install -q --no-cache-dir --no-deps --require-hashes --only-binary :all:)
  inside /opt/build/bin/pip "${install[@]}" -r /opt/requirements-build.lock
  inside /opt/build/bin/pip --python /opt/manta/bin/python "${install[@]}" -r /opt/requirements-image.lock
  layer libraries ./opt/manta
  echo "$stamp" >"$cache/libraries.stamp"
}

# The pause image is also the small one for plain Pods: busybox.
pause_image() {
  [ -f "$cache/pause.tar" ] && return
  packages
  mkdir -p "$cache/pause/bin" "$cache/pause/tmp"
  cp "$cache/root/bin/busybox" "$cache/pause/bin/busybox"
  for applet in sh sleep cat echo wget nslookup id; do ln -sf busybox "$cache/pause/bin/$applet"; done
  tar -C "$cache/pause" --numeric-owner --owner=0 --group=0 -cf "$cache/pause.layer" .
  pack "$cache/pause.tar.new" registry.k8s.io/pause:3.10 \
    '{"Entrypoint": ["/bin/sleep", "2147483647"], "Env": ["PATH=/bin"]}' "$cache/pause.layer"
  rm -rf "$cache/pause" "$cache/pause.layer"
  mv "$cache/pause.tar.new" "$cache/pause.tar"
}

redis_image() {
  [ -f "$cache/redis.tar" ] && return
  debian
  local place="$cache/redis"
  rm -rf "$place" && mkdir "$place"
  (cd "$place" && apt-get download -o APT::Sandbox::User=root redis-server redis-tools libatomic1 libjemalloc2 liblzf1) >&2
  for package in "$place"/*.deb; do dpkg -x "$package" "$place/root"; done
  tar -C "$place/root" --numeric-owner -cf "$place/layer" ./usr
  pack "$cache/redis.tar.new" docker.io/library/redis:7 \
    '{"Entrypoint": ["redis-server"], "Env": ["PATH=/usr/bin:/bin"]}' "$cache/debian.layer" "$place/layer"
  rm -rf "$place"
  mv "$cache/redis.tar.new" "$cache/redis.tar"
}

images() {
  pause_image
  redis_image
  ray_image
  operator_image
}

wanted=("$@")
[ ${#wanted[@]} -gt 0 ] || wanted=(binaries packages images)
for step in "${wanted[@]}"; do "$step"; done
echo "$cache"
