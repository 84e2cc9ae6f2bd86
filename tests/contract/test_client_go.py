"""An informer of client-go, unmodified: it synchronises, follows, survives, and never hangs.

Part of `make test-kubernetes`, which builds the small program (tools/kubernetes/informer); there it
runs on the real server and on the embedded one.
"""

from __future__ import annotations

import asyncio
import os
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from unittest import mock

import pytest

from support.cluster_api import api_over_tls, running_plane
from support.contract import EXTERNAL, Api, config_map

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "manta" / "kubernetes"
PROGRAMS = sorted(CACHE.glob("*/bin/informer"))

pytestmark = pytest.mark.skipif(
    not PROGRAMS or not os.environ.get(EXTERNAL), reason="part of make test-kubernetes"
)


class Informer:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.said: list[str] = []

    async def until(self, *wanted: str) -> None:
        """Every wanted beginning of a line has come, in whatever order."""
        assert self._process.stdout is not None
        missing = {text for text in wanted if not any(one.startswith(text) for one in self.said)}
        async with asyncio.timeout(60):
            while missing:
                line = (await self._process.stdout.readline()).decode().strip()
                assert line, "the informer ended"
                self.said.append(line)
                missing = {text for text in missing if not line.startswith(text)}


@asynccontextmanager
async def informer(kubeconfig: Path, namespace: str) -> AsyncIterator[Informer]:
    process = await asyncio.create_subprocess_exec(
        str(PROGRAMS[-1]), str(kubeconfig), namespace, stdin=PIPE, stdout=PIPE
    )
    try:
        yield Informer(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        async with asyncio.timeout(20):
            assert await process.wait() == 0


@asynccontextmanager
async def server(which: str, directory: Path) -> AsyncIterator[tuple[Path, Api]]:
    hidden = {EXTERNAL: ""} if which == "embedded" else {}
    with mock.patch.dict(os.environ, hidden), running_plane(directory) as kubeconfig:
        async with api_over_tls(kubeconfig) as api:
            yield kubeconfig, api


@pytest.mark.parametrize("which", ["embedded", "kubernetes"])
async def test_an_informer_of_client_go_follows_everything(which: str, tmp_path: Path) -> None:
    async with server(which, tmp_path) as (kubeconfig, api):
        where = api.path("configmaps")
        await api.made(where, config_map("before"))
        async with informer(kubeconfig, api.namespace) as seen:
            await seen.until("SYNCED 2", "dynamic SYNCED 2", "ADDED before", "dynamic ADDED before")
            for number in range(20):
                await api.made(where, config_map(f"c{number}"))
            await api.patch(f"{where}/c3", {"data": {"k": "2"}})
            await api.delete(f"{where}/c4")
            await asyncio.sleep(12)  # bookmarks and idle connections must not end anything
            await api.made(where, config_map("after"))
            for prefix in ("", "dynamic "):
                await seen.until(f"{prefix}ADDED after")
                mine = [
                    one.removeprefix("dynamic ").split(" ")[:2]
                    for one in seen.said
                    if one.startswith("dynamic ") is bool(prefix)
                ]
                assert sorted(one for kind, one in mine if kind == "ADDED") == sorted(
                    ["after", "before", "kube-root-ca.crt", *(f"c{n}" for n in range(20))]
                )
                assert [one for kind, one in mine if kind == "MODIFIED"] == ["c3"]
                assert [one for kind, one in mine if kind == "DELETED"] == ["c4"]
