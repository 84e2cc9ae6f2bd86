#!/usr/bin/env bash
# The tests of fault tolerance run a real Redis, as a program of the machine. Installed where apt and root
# are there; elsewhere those tests say why they are skipped. It is not started as a service.
set -euo pipefail
command -v redis-server >/dev/null && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "redis-server is not installed, and this is no root on Debian: its tests will be skipped" >&2
  exit 0
fi
export DEBIAN_FRONTEND=noninteractive
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy"
  trap 'rm -f "$policy"' EXIT
fi
apt-get install -y -q redis-server >/dev/null 2>&1 ||
  { apt-get update -q >/dev/null && apt-get install -y -q redis-server >/dev/null; } ||
  echo "redis-server could not be installed: its tests will be skipped" >&2
