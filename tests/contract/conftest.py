"""Fixtures of the contract suite: a server, a namespace, a custom resource."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from support.contract import Api, Widgets, api_in_namespace, established_widgets


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with api_in_namespace() as found:
        yield found


@pytest.fixture
async def widgets(api: Api) -> AsyncIterator[Widgets]:
    async with established_widgets(api) as found:
        yield found
