"""The Python in the guide and in the README runs, on the embedded server with a fake Ray."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import manta
from support.sdk import a_client

ROOT = Path(__file__).parents[3]
PAGES = ("docs/guide/python.md", "README.md")
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_the_python_of_the_page_runs(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").write_text("print(1)")
    monkeypatch.chdir(tmp_path)
    found = _BLOCK.findall((ROOT / page).read_text())
    assert found
    with a_client(finish_after=1) as (ray, _):
        monkeypatch.setattr(manta, "Client", lambda **_: _Open(ray), raising=False)
        names: dict[str, Any] = {"__name__": "guide"}
        for code in found:
            exec(compile(code, page, "exec"), names)
        if "main" in names:
            core = ray._core
            monkeypatch.setattr(manta, "AsyncClient", lambda: _Open(core), raising=False)
            ray._loop.run(names["main"]())


class _Open:
    """A client that stays open at the end of `with`."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def __enter__(self) -> Any:
        return self._client

    def __exit__(self, *_: object) -> None: ...

    async def __aenter__(self) -> Any:
        return self._client

    async def __aexit__(self, *_: object) -> None: ...
