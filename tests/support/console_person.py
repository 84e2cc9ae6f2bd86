"""Somebody who looks at `manta console` in Chromium, with an operator as a process on fake nodes."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from manta.api.resources import Resource
from support.axe import violations
from support.browser import Page, browser
from support.operator_fixture import OperatorFixture, empty, start_operator_fixture, until

View = tuple[int, int, bool]
VIEWS: tuple[View, ...] = ((1280, 1, False), (1280, 2, True), (320, 1, False))
"""Pixels, zoom, dark."""


@dataclass
class Person:
    """Somebody who looks at the console, and what is wrong with what they saw."""

    page: Page
    base: str
    operator: OperatorFixture
    wrong: list[str] = field(default_factory=list)

    def path(self, resource: Resource, name: str) -> str:
        return f"/{resource.plural}/{self.operator.namespace}/{name}"

    async def open(self, path: str, shows: str) -> None:
        await self.page.open(f"{self.base}{path}", shows)

    async def look(self, path: str, shows: str) -> None:
        """Open a page and check it: wide and narrow, zoomed, light and dark."""
        await self.open(path, shows)
        await self.check(path)

    async def check(self, where: str, views: tuple[View, ...] = VIEWS) -> None:
        for width, zoom, dark in views:
            await self.page.resize(width, zoom=zoom, dark=dark)
            here = f"{where} at {width} px, {zoom * 100} %{', dark' if dark else ''}"
            self.wrong += [f"{here}: {one}" for one in await violations(self.page)]
            over = await self.page.run("document.documentElement.scrollWidth - innerWidth")
            if over > 0:
                self.wrong.append(f"{here}: scrolls sideways by {over} px")
        await self.page.resize(1280)

    async def confirm(self, resource: Resource, name: str, word: str, **fields: str) -> None:
        """Press a button of an object, fill in its form, read what would happen, and confirm."""
        await self.open(self.path(resource, name), name)
        await self.page.click(word)
        await self.check(f"the form {word} of {resource.kind}", VIEWS[2:])
        for selector, value in fields.items():
            await self.page.fill(f"[name={selector}]", value)
        if fields:
            await self.page.click("Show what would happen")
        await self.check(f"{word} of {resource.kind}", VIEWS[2:])
        await self.page.click(word)


async def kept(
    page: Page,
    name: str,
    *,
    dark: bool = False,
    width: int = 1280,
    height: int = 800,
    of: str = "",
) -> None:
    """A picture for the guide, in the directory MANTA_SCREENSHOTS. `of`: only these elements."""
    await page.resize(width, height, dark=dark)
    await page.run("scrollTo(0, 0)")
    await page.run("document.activeElement.blur()")
    await asyncio.sleep(0.3)
    await until(lambda: page.run("document.getAnimations().length === 0"))
    clip = await page.run(_BOX % json.dumps(of)) if of else None
    await page.screenshot(Path(os.environ["MANTA_SCREENSHOTS"]) / f"{name}.png", clip)
    await page.resize(1280)


_BOX = """(() => { const found = [...document.querySelectorAll(%s)].map((one) => one.closest('section').getBoundingClientRect());
  const x = Math.min(...found.map((one) => one.x)) - 8, y = Math.min(...found.map((one) => one.y)) - 8;
  const right = Math.max(...found.map((one) => one.right)) + 8, bottom = Math.max(...found.map((one) => one.bottom)) + 8;
  return {x: x + scrollX, y: y + scrollY, width: right - x, height: bottom - y, scale: 1}; })()"""


@asynccontextmanager
async def console(operator: OperatorFixture, directory: Path) -> AsyncIterator[str]:
    """`manta console` as a process; the link that it prints."""
    environment = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
    command = ("console", "--kubeconfig", str(operator.kubeconfig))
    process = await asyncio.create_subprocess_exec(
        *(str(Path(sys.executable).with_name("manta")), *command),
        stdout=asyncio.subprocess.PIPE, env={**environment, "HOME": str(directory), "MANTA_DIR": str(directory / "console")},
    )  # fmt: skip
    assert process.stdout is not None
    try:
        line = (await asyncio.wait_for(process.stdout.readline(), 60)).decode()
        [link] = [word for word in line.split() if "/login?token=" in word]
        yield link
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


@asynccontextmanager
async def person(directory: Path, *flags: str) -> AsyncIterator[Person]:
    """With the flags of the operator."""
    async with (
        start_operator_fixture(directory) as operator,
        operator.operator(*flags) as process,
        console(operator, directory) as link,
        browser(directory, {}) as [page],
    ):
        await process.until_leading()
        await page.open(link, "No Ray objects yet")
        try:
            yield Person(page, link.partition("/login")[0], operator)
        finally:
            await empty(operator)
