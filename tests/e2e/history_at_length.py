"""History at length: a browser on sessions that are gone (`make history`)."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from manta.history.serve.access import OwnerAccess
from manta.history.serve.frontend import Frontend, find_frontends
from manta.history.serve.server import LIMITS, HistoryHandler
from manta.httpserver.server import HttpServer
from support.browser import CHROMIUM, browser
from support.history import FAILED_TASK, NODE, SESSION, WHO, recorded_session

SHOTS = Path(__file__).parents[2] / "docs" / "guide" / "history"


def frontends() -> list[Frontend]:
    """Of the environments of `manta up`, and of $MANTA_RAY_ENVIRONMENT."""
    images = sorted((Path.home() / ".cache/manta/images").glob("*"))
    named = os.environ.get("MANTA_RAY_ENVIRONMENT", "")
    return find_frontends([*([Path(named)] if named else []), *images])


@pytest.mark.skipif(not CHROMIUM, reason="needs Chromium: apt-get install chromium")
async def test_rays_frontend_shows_sessions_that_are_gone(tmp_path: Path) -> None:
    found = frontends()  # asked here: the tests that ran before this one install Ray
    if not found:
        pytest.skip("needs an installed Ray: `manta up --quickstart` once")
    catalog = recorded_session(tmp_path)
    other = replace(WHO, name="other")
    recorded_session(tmp_path, other, catalog.store)
    access = OwnerAccess()
    server = HttpServer(HistoryHandler(catalog, access, found, secure=False), limits=LIMITS)
    port = await server.start("127.0.0.1", 0)
    base = f"http://127.0.0.1:{port}/history/default/rayjob/train/{SESSION}/"
    second = f"http://127.0.0.1:{port}/history/default/rayjob/other/{SESSION}/"
    headers = {"Authorization": f"Bearer {access.token}"}
    pages = {
        "overview": ("#/overview", "This session is over"),
        "jobs": ("#/jobs", "sub-1"),
        "job": ("#/jobs/02000000", "the driver says hello"),
        "task": (f"#/jobs/02000000/tasks/{FAILED_TASK}", "NORMAL_TASK"),
        "actors": ("#/actors", "JobSupervisor"),
        "nodes": ("#/cluster", "192.0.2.2"),
        "logs": (f"#/logs/?nodeId={NODE}", "raylet.out"),
    }
    SHOTS.mkdir(exist_ok=True)
    async with browser(tmp_path, headers, tabs=2) as (tab, beside):
        for name, (path, shows) in pages.items():
            await tab.open(base + path, shows)
            await tab.screenshot(SHOTS / f"{name}.png")
        await beside.open(f"{second}#/jobs", "sub-1")
        await tab.open(f"{base}#/jobs", "sub-1")
        for page, prefix in ((tab, base), (beside, second)):
            asked = [one for one in page.requests if urlsplit(one).scheme in ("http", "https")]
            outside = [one for one in asked if not one.startswith(prefix)]
            assert asked
            assert outside == []
    await server.stop()
