#!/usr/bin/env bash
# Azurite (MIT), an Azure Blob Storage server for the tests of az://: once from npm into a cache. Where it cannot be had, those
# tests say why they are skipped. For gs:// there is none: obstore speaks the XML API, which fake-gcs-server answers in part only.
set -euo pipefail
version=3.37.0
directory="${XDG_CACHE_HOME:-$HOME/.cache}/manta/azurite"
[ -e "$directory/node_modules/.bin/azurite-blob" ] && exit 0
mkdir -p "$directory"
npm install --silent --no-audit --no-fund --prefix "$directory" "azurite@$version" >/dev/null ||
  echo "azurite cannot be had: the tests of az:// are skipped" >&2
