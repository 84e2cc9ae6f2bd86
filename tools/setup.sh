#!/usr/bin/env bash
# Makes .venv from requirements.lock. uv itself comes from PyPI into a small venv of its own, so that
# nothing is asked of the machine but Python 3.11+.
set -euo pipefail
python="${1:-python3}"
"$python" - <<'PY' || { echo "manta needs Python 3.11 or newer; point PYTHON at one: make PYTHON=/path/to/python3.12 ..." >&2; exit 2; }
import sys
sys.exit(sys.version_info < (3, 11))
PY
uv=.cache/uv/bin/uv
if [ ! -x "$uv" ]; then
  mkdir -p .cache
  "$python" -m venv .cache/uv
  .cache/uv/bin/python -m pip install --quiet --disable-pip-version-check 'uv>=0.5'
fi
export UV_PYTHON_DOWNLOADS="${UV_PYTHON_DOWNLOADS:-never}"
export VIRTUAL_ENV="$PWD/.venv"
interpreter=$("$python" -c 'import sys; print(sys.executable)')
[ -x .venv/bin/python ] || "$uv" venv --quiet --python "$interpreter" .venv
"$uv" pip sync --quiet --require-hashes requirements.lock
"$uv" pip install --quiet --no-deps --editable .
# Compiled here and once, also where Python itself may not write bytecode: otherwise every single
# start of `manta` would compile its libraries again, and take twice as long. Not the large packages
# that only tests use.
.venv/bin/python -m compileall -q -x '/(kubernetes|kubernetes_asyncio|mypy|mypyc)/' .venv/lib src || true
