"""Makes the index of one session in a child process: its memory is given back when it ends.

python -m manta.cli.server.history_index STORE NAMESPACE/KIND/NAME/SESSION CACHE

The child prints the path of the index. Credentials of the store come from the environment.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from manta.history.catalog import Catalog
from manta.history.indexing import SessionInfo
from manta.history.layout import SessionKey
from manta.history.serve.sessions import MakeIndex
from manta.history.store import StoreError, open_store


def in_child(catalog: Catalog) -> MakeIndex:
    """Makes indexes in a child process, one at a time. Raises StoreError with the last line of its errors."""
    turn = asyncio.Lock()

    async def make(info: SessionInfo) -> Path:
        words = (catalog.store.url, info.key.path, str(catalog.cache))
        async with turn:
            code, output, errors = await _run(words)
        if code:
            said = errors.decode(errors="replace").strip().rpartition("\n")[2]
            raise StoreError(f"cannot index {info.key.path} (exit code {code}): {said}")
        return Path(output.decode().strip())

    return make


async def _run(words: tuple[str, ...]) -> tuple[int | None, bytes, bytes]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __name__, *words,
        stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe,
    )  # fmt: skip
    try:
        output, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode, output, errors


def main(url: str, session: str, cache: str) -> int:
    catalog = Catalog(open_store(url, os.environ), Path(cache))
    try:
        info = catalog.info(SessionKey(*session.split("/")).checked())
        if info is None:
            print(f"there is no session {session}", file=sys.stderr)
            return 1
        print(catalog.make_index(info))
    except (StoreError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
