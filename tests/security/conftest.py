"""What the security suite shares. A finding's number (X7) stands in the docstring of its test."""

from __future__ import annotations

import pytest

from support.tenants import Tenants


@pytest.fixture
async def tenants(tmp_path):
    """Two namespaces on an API server in this process, with people of different rights."""
    one = Tenants(tmp_path)
    await one.settle()
    return one
