"""Small scripts in place of programs that images have and a machine may lack; last in PATH.

All installations of Manta of a user share the environments of images, but not these scripts: each names
the Python of its own installation.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

_WGET = """#!{python} -IS
# A stand-in for wget on machines without it: enough for health checks.
import sys, urllib.error, urllib.request
arguments, timeout, target, quiet, output = sys.argv[1:], 900.0, None, False, None
while arguments:
    word = arguments.pop(0)
    if word in ("-T", "--timeout", "-t", "--tries", "-O", "--output-document"):
        word, value = word, arguments.pop(0)
    elif word.startswith("--") and "=" in word:
        word, _, value = word.partition("=")
    elif word[:2] in ("-T", "-t", "-O") and len(word) > 2:
        word, value = word[:2], word[2:]
    else:
        value = ""
    if word in ("-T", "--timeout"):
        timeout = float(value)
    elif word in ("-O", "--output-document"):
        output = value
    elif not word.startswith("-"):
        target = word
if target is None:
    sys.exit("wget: missing URL")
try:
    answer = urllib.request.urlopen(target if "://" in target else "http://" + target, timeout=timeout)
    content = answer.read()
except urllib.error.HTTPError as error:
    sys.exit(f"wget: server returned error: HTTP/1.1 {{error.code}} {{error.reason}}")
except OSError as error:
    print(f"wget: {{error}}", file=sys.stderr)
    sys.exit(4)
if output == "-":
    sys.stdout.buffer.write(content)
else:
    open(output or target.rstrip("/").rpartition("/")[2] or "index.html", "wb").write(content)
"""


def write_shims(shared: Path) -> Path:
    """Write the scripts of this installation below `shared`. Returns their directory."""
    directory = shared / hashlib.sha256(sys.executable.encode()).hexdigest()[:12]
    shim = directory / "wget"
    text = _WGET.format(python=sys.executable)
    if not shim.exists() or shim.read_text() != text:
        directory.mkdir(parents=True, exist_ok=True)
        partial = directory / f".wget.{os.getpid()}"
        partial.write_text(text)
        partial.chmod(0o755)
        partial.rename(shim)
    return directory
