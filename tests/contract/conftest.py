"""Fixtures of the contract suite: a server, a namespace, a custom resource, a recording.

`api` is the API server alone, in process where it is ours: fast, and most of the contract.
`cluster` is a whole control plane over TLS, controllers included. With MANTA_CONTRACT_KUBECONFIG
both are that other server, and everything asked of them is the same.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from support.cluster_api import api_over_tls, running_plane
from support.contract import EXTERNAL, Api, Widgets, api_in_namespace, established_widgets
from support.recording import Known, Recording, place_of


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with api_in_namespace() as found:
        yield found


@pytest.fixture
async def widgets(api: Api) -> AsyncIterator[Widgets]:
    async with established_widgets(api) as found:
        yield found


@pytest.fixture(scope="session")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """For clients that are not ours: kubectl, the Python clients."""
    with running_plane(tmp_path_factory.mktemp("plane")) as found:
        yield found


@pytest.fixture
async def cluster(kubeconfig: Path) -> AsyncIterator[Api]:
    async with api_over_tls(kubeconfig) as found:
        yield found


def _settle(recording: Recording, request: pytest.FixtureRequest) -> None:
    """After a test: compare the recording with that of the real server, or store it as the new one."""
    name = request.node.name
    if os.environ.get("MANTA_RECORD"):
        assert os.environ.get(EXTERNAL), "only a real server's answers may be recorded"
        recording.write(name)
        return
    found = recording.differences(name)
    if recording.embedded:
        known = Known(name)
        if os.environ.get("MANTA_DIFFERENCES"):  # a list to work on, or to justify
            with Path(os.environ["MANTA_DIFFERENCES"]).open("a") as file:
                file.writelines(f"{name} | {place_of(one)} | open\n" for one in known.new(found))
        found = known.new(found) + known.past(found)
    assert not found, "\n".join(found)


@pytest.fixture
def recording(api: Api, request: pytest.FixtureRequest) -> Iterator[Recording]:
    """The API server alone; what it answers is compared with the record."""
    found = Recording(api)
    yield found
    _settle(found, request)


@pytest.fixture
def live_recording(cluster: Api, request: pytest.FixtureRequest) -> Iterator[Recording]:
    """The whole control plane; what it answers is compared with the record."""
    found = Recording(cluster)
    yield found
    _settle(found, request)


@pytest.fixture
async def recorded_widgets(recording: Recording) -> AsyncIterator[Widgets]:
    async with recording.silent():
        context = established_widgets(recording)
        found = await context.__aenter__()
    recording.call(found.plural.removeprefix("widgets"), "")
    yield found
    async with recording.silent():
        await context.__aexit__(None, None, None)
