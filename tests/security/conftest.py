"""What the security suite shares. A finding's number (X7) stands in the docstring of its test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from manta.httpserver.messages import User
from support.plane import MemoryPlane, memory_plane
from support.sender import Sender
from support.tenants import Tenants

NAMESPACE = "default"
TENANT = User("tenant", ("system:authenticated",), uid="tenant")
"""Bound to ClusterRole `edit` in `default`, and to nothing else."""


@pytest.fixture
async def tenants(tmp_path):
    """Two namespaces on an API server in this process, with people of different rights."""
    one = Tenants(tmp_path)
    await one.settle()
    return one


@pytest.fixture
async def plane() -> AsyncIterator[MemoryPlane]:
    async with memory_plane() as found:
        found.app.put(
            "rbac.authorization.k8s.io/v1",
            "RoleBinding",
            {
                "metadata": {"name": "tenant-edits", "namespace": NAMESPACE},
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "ClusterRole",
                    "name": "edit",
                },
                "subjects": [{"kind": "User", "name": TENANT.name}],
            },
        )
        yield found


@pytest.fixture
def tenant(plane: MemoryPlane) -> Sender:
    return Sender(plane.client_as(TENANT))


@pytest.fixture
def admin(plane: MemoryPlane) -> Sender:
    return Sender(plane.client)
