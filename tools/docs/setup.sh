#!/usr/bin/env bash
# Makes .cache/docs, the virtual environment that builds the documentation site, from requirements-docs.lock.
set -euo pipefail
ready=.cache/docs/.ready
[ "$ready" -nt requirements-docs.lock ] && exit 0
export UV_PYTHON_DOWNLOADS=never VIRTUAL_ENV="$PWD/.cache/docs"
[ -x .cache/docs/bin/python ] || .cache/uv/bin/uv venv --quiet --python .venv/bin/python .cache/docs
.cache/uv/bin/uv pip sync --quiet --require-hashes requirements-docs.lock
touch "$ready"
