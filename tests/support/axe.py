"""axe-core in a page: what WCAG 2.2 AA asks for and can be checked by a program."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

from support.browser import Page

CACHE = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "manta/axe"
_RULES = "['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']"


@cache
def source() -> str:
    found = sorted(CACHE.glob("axe-*.min.js"))
    if not found:
        pytest.skip("axe-core is not there: run `make axe`")
    return found[-1].read_text()


async def violations(page: Page) -> list[str]:
    """What is wrong with the page as it is, with the elements."""
    if not await page.run("typeof axe === 'object'"):
        await page.run(f"{source()}; 1")
    found = await page.run(
        f"""axe.run(document, {{runOnly: {_RULES}}}).then((all) => all.violations.map((one) =>
          `${{one.id}}: ${{one.help}}: ${{one.nodes.map((node) => node.html.slice(0, 160)).slice(0, 3).join(' | ')}}`))"""
    )
    return [str(one) for one in found]
