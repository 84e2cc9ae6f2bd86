#!/usr/bin/env bash
# oidc-provider (MIT), an OpenID-certified issuer: fetched once from the npm registry into a cache, at one version, without
# its scripts. Only tests run it; where it cannot be had, those tests say why they are skipped.
#
#   tools/oidc.sh            prints the directory of node_modules; exit code 2 if it cannot be had
set -euo pipefail
version=9.13.3
integrity=sha512-WmNDX9dLeItBmIqGqspmX5u6Cc7VVMrKUw2InX2T16+bwUJ8m/N5rJ3Ed+YKxE5aZqLp4YqwEi6kMJx4Ui5ffw==
there="${XDG_CACHE_HOME:-$HOME/.cache}/manta/oidc-provider/$version"
if [ ! -e "$there/done" ]; then
  command -v npm >/dev/null && command -v node >/dev/null || exit 2
  mkdir -p "$there"
  npm install --silent --prefix "$there" --ignore-scripts --no-audit --no-fund "oidc-provider@$version" >/dev/null 2>&1 || exit 2
  if ! grep -q "\"integrity\": \"$integrity\"" "$there/package-lock.json"; then
    echo "oidc-provider $version: its hash is not $integrity" >&2
    exit 2
  fi
  touch "$there/done"
fi
echo "$there/node_modules"
