"""One value of each Secret that is asked for: read when it is needed, and kept in memory only.

Secrets are never listed or watched, so that the operator needs no permission to.
"""

from __future__ import annotations

import base64
from typing import Final

from manta.api.core import SecretData
from manta.api.meta import Key
from manta.api.resources import SECRETS
from manta.kube.client import Client

MOST: Final = 2000
"""Who owns them comes and goes: what is kept must not grow for ever (C38)."""


class KeptSecrets:
    def __init__(self, client: Client, value: str) -> None:
        """`value`: the key of a Secret's data that is wanted of each."""
        self._client = client
        self._value = value
        self._kept: dict[Key, str] = {}

    async def read(self, key: Key) -> str:
        """Read once, and kept until it is forgotten. ValueError: it is there, and has no such value."""
        if len(self._kept) >= MOST:
            self._kept.clear()
        if key not in self._kept:
            secret = await self._client.get(SECRETS, key, into=SecretData)
            encoded = secret.data.get(self._value)
            if encoded is None:
                raise ValueError(f"it has no key {self._value}")
            # Whoever made the Secret from a file has the file's last newline in it.
            self._kept[key] = base64.b64decode(encoded).decode().strip()
        return self._kept[key]

    def forget(self, key: Key) -> None:
        """It no longer works: somebody may have changed it."""
        self._kept.pop(key, None)
