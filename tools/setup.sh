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
