"""An Azure Blob Storage server on this machine: Azurite, as `tools/azurite.sh` fetches it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path

import pytest

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "manta"
AZURITE = CACHE / "azurite" / "node_modules" / ".bin" / "azurite-blob"
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Azurite's account and its key are the same on every machine; they open nothing else."""


@contextmanager
def azure_server(container: str, directory: Path) -> Iterator[dict[str, str]]:
    """The environment that reaches the server, in which the container exists. Skips without Azurite."""
    if not AZURITE.exists():
        pytest.skip("Azurite is not here; tools/azurite.sh fetches it")
    port = _free_port()
    where = ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(directory)]
    with _running([str(AZURITE), "--silent", "--skipApiVersionCheck", *where], port):
        _create_container(port, container)
        yield {
            "AZURE_STORAGE_USE_EMULATOR": "true",
            "AZURITE_BLOB_STORAGE_URL": f"http://127.0.0.1:{port}",
        }


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def _running(command: list[str], port: int) -> Iterator[None]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while not _listens(port):
            assert process.poll() is None, f"{command[0]} ended with {process.returncode}"
            assert time.monotonic() < deadline, f"{command[0]} does not listen"
            time.sleep(0.1)
        yield
    finally:
        process.kill()  # Azurite waits for its open connections when it is asked to stop
        process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _create_container(port: int, container: str) -> None:
    """obstore creates no containers, so this signs the request itself (Shared Key)."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-12-02"}
    named = "".join(f"{name}:{value}\n" for name, value in sorted(headers.items()))
    path = f"/{ACCOUNT}/{container}"
    text = "PUT" + "\n" * 12 + named + f"/{ACCOUNT}{path}\nrestype:container"
    digest = hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}?restype=container", method="PUT", headers=headers
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.status == 201, answer.status
