#!/usr/bin/env bash
# axe-core (MPL-2.0), which checks pages for WCAG in a browser: fetched once from the npm registry into a cache, by its
# hash. Only tests load it; where it cannot be had, those tests say why they are skipped.
#
#   tools/axe.sh             prints the path of the script; exit code 2 if it cannot be had
set -euo pipefail
version=4.14.0
integrity=9WTZxEjsZ7b13TH8JPmbV2z8CHbl80/2hm3XPEG4JgNdQLK81IBRXmSxHfMAOkSqQeRxT/0dwNDz2GOm3zzpcQ==
script="${XDG_CACHE_HOME:-$HOME/.cache}/manta/axe/axe-$version.min.js"
if [ ! -e "$script" ]; then
  command -v npm >/dev/null || exit 2
  made=$(mktemp -d)
  trap 'rm -rf "$made"' EXIT
  (cd "$made" && npm pack --silent "axe-core@$version" >/dev/null 2>&1) || exit 2
  found=$(openssl dgst -sha512 -binary "$made/axe-core-$version.tgz" | base64 -w0)
  if [ "$found" != "$integrity" ]; then
    echo "axe-core $version: the hash is $found, not $integrity" >&2
    exit 2
  fi
  tar -xzf "$made/axe-core-$version.tgz" -C "$made" package/axe.min.js
  mkdir -p "$(dirname "$script")"
  mv "$made/package/axe.min.js" "$script"
fi
echo "$script"
