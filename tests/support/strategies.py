"""The strategies of built-in kinds, by apiVersion and kind."""

from __future__ import annotations

from functools import cache

from manta.localplane.apiserver.builtin_resources import builtin_resources
from manta.localplane.apiserver.strategies.base import Strategy


@cache
def strategy_of(api_version: str, kind: str) -> Strategy:
    [found] = [
        one.strategy
        for one in builtin_resources()
        if (one.api_version, one.kind) == (api_version, kind)
    ]
    return found
