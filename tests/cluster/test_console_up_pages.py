"""The pages of the operator and of the history in Chromium, on `manta up`: clean at every size, without errors."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cluster.test_console_up import Shell, shell
from support.axe import violations
from support.browser import CHROMIUM, Page, browser
from support.console_person import VIEWS
from support.history import recorded_session
from unit.console.test_history import PATH

__all__ = ["shell"]  # the fixture
pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(not CHROMIUM, reason="needs Chromium: apt-get install chromium"),
]


async def wrong_with(page: Page, where: str) -> list[str]:
    """At all sizes: what axe-core finds, and a page that scrolls sideways."""
    found = []
    for width, zoom, dark in VIEWS:
        await page.resize(width, zoom=zoom, dark=dark)
        here = f"{where} at {width} px, {zoom * 100} %"
        found += [f"{here}: {one}" for one in await violations(page)]
        if await page.run("document.documentElement.scrollWidth - innerWidth") > 0:
            found.append(f"{here}: scrolls sideways")
    await page.resize(1280)
    return found


async def test_operator_and_history_are_clean(shell: Shell, tmp_path: Path) -> None:
    await asyncio.to_thread(recorded_session, tmp_path)
    url = (tmp_path / "store").as_uri()
    said = await asyncio.to_thread(shell.manta, "up", "--nodes", "0", "--history", url)
    [link] = [word for word in said.split() if "console.localhost" in word]
    base = link.partition("/login")[0]
    async with browser(tmp_path, {}) as [page]:
        await page.open(base, "Open the link that")  # without a login
        await page.open(link, "No Ray objects yet")
        await page.open(f"{base}/operator", "Reconciles a second")
        wrong = await wrong_with(page, "operator")
        await page.open(f"{base}/history", "train")
        wrong += await wrong_with(page, "history")
        assert wrong == []
        await page.open(f"{base}/history/open?session={PATH}", "")
        async with asyncio.timeout(60):
            while (there := await page.run("location.origin")) in (base, "null"):
                await asyncio.sleep(0.1)
        await page.open(f"{there}/history/", "train")
        assert await wrong_with(page, "sessions") == []
        assert page.failures == []
