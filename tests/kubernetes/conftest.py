"""One stage and one operator for the whole run: see `support.stage`.

Every test works with objects of its own name, and leaves none.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from support.stage import OperatorProcess, Stage, empty, set_stage

SESSION = pytest.mark.asyncio(loop_scope="session")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/kubernetes" in str(item.path):
            item.add_marker(SESSION, append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    async with set_stage(tmp_path_factory.mktemp("stage")) as found:
        yield found


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def leader(stage: Stage) -> AsyncIterator[OperatorProcess]:
    """The operator that does the work; whoever kills it starts it again."""
    async with stage.operator() as operator:
        await operator.until_leading()
        try:
            yield operator
        finally:
            await empty(stage)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def operated(stage: Stage, leader: OperatorProcess) -> Stage:
    """The stage, with an operator that works there."""
    return stage


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """For the object that a test is about: short, and nobody else's."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower())
    return f"{words[:18].strip('-')}-{abs(hash(request.node.nodeid)) % 10_000:04}"
