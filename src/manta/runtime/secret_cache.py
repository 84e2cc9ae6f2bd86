"""Values of Secrets, read on demand and kept in memory.

Secrets are not listed or watched, so the operator needs no permission for that.
"""

from __future__ import annotations

import base64
from typing import Final

from manta.api.core import SecretData
from manta.api.meta import Key
from manta.api.resources import SECRETS
from manta.kube.client import Client

MAX_SECRETS: Final = 2000
"""Owners come and go: the cache must not grow for ever (C38)."""


class SecretCache:
    def __init__(self, client: Client, value: str) -> None:
        """`value`: the key in each Secret's data."""
        self._client = client
        self._value = value
        self._kept: dict[Key, str] = {}

    async def read(self, key: Key) -> str:
        """The value. Raises ValueError if the Secret has none, and what the client raises."""
        if len(self._kept) >= MAX_SECRETS:
            self._kept.clear()
        if key not in self._kept:
            secret = await self._client.get(SECRETS, key, into=SecretData)
            encoded = secret.data.get(self._value)
            if encoded is None:
                raise ValueError(f"it has no key {self._value}")
            # A Secret created from a file ends with the file's last newline.
            self._kept[key] = base64.b64decode(encoded).decode().strip()
        return self._kept[key]

    def forget(self, key: Key) -> None:
        """Read it again next time: the value no longer works."""
        self._kept.pop(key, None)
