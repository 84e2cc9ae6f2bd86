"""One control plane and one operator for the whole run: see `support.operator_fixture`.

Every test works with objects of its own name, and leaves none.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from support.operator_fixture import OperatorFixture, OperatorProcess, empty, start_operator_fixture

SESSION = pytest.mark.asyncio(loop_scope="session")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/kubernetes" in str(item.path):
            item.add_marker(SESSION, append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def operator_fixture(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[OperatorFixture]:
    async with start_operator_fixture(tmp_path_factory.mktemp("operator_fixture")) as found:
        yield found


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def leader(operator_fixture: OperatorFixture) -> AsyncIterator[OperatorProcess]:
    """The operator that does the work; whoever kills it starts it again."""
    async with operator_fixture.operator() as operator:
        await operator.until_leading()
        try:
            yield operator
        finally:
            await empty(operator_fixture)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def operated(operator_fixture: OperatorFixture, leader: OperatorProcess) -> OperatorFixture:
    """The control plane with an operator running on it."""
    return operator_fixture


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """For the object that a test is about: short, and nobody else's."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower())
    return f"{words[:18].strip('-')}-{abs(hash(request.node.nodeid)) % 10_000:04}"
