"""How the content of a cookie is protected: encrypted, or only signed if it holds no secret.

The cryptography library takes 7 MiB, so it is loaded only for cookies that hold somebody's token.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Final, Protocol

_NONCE_BYTES: Final = 12
_MAC_BYTES: Final = hashlib.sha256().digest_size


class Sealing(Protocol):
    def seal(self, plain: bytes, name: bytes) -> bytes:
        """`name`: of the cookie; the content is valid under this name only."""
        ...

    def open(self, sealed: bytes, name: bytes) -> bytes | None:
        """What was sealed under this name; None if it is forged."""
        ...


class Encryption:
    """AES-256-GCM: nobody but the console reads or changes it."""

    def __init__(self, key: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._cipher = AESGCM(key)

    def seal(self, plain: bytes, name: bytes) -> bytes:
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, plain, name)

    def open(self, sealed: bytes, name: bytes) -> bytes | None:
        from cryptography.exceptions import InvalidTag

        try:
            return self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], name)
        except (InvalidTag, ValueError):
            return None


class Signature:
    """HMAC-SHA256: nobody but the console changes it. The browser could read it."""

    def __init__(self, key: bytes) -> None:
        self._key = hmac.digest(key, b"manta console: signed cookies", "sha256")

    def seal(self, plain: bytes, name: bytes) -> bytes:
        return self._mac(plain, name) + plain

    def open(self, sealed: bytes, name: bytes) -> bytes | None:
        mac, plain = sealed[:_MAC_BYTES], sealed[_MAC_BYTES:]
        return plain if hmac.compare_digest(mac, self._mac(plain, name)) else None

    def _mac(self, plain: bytes, name: bytes) -> bytes:
        return hmac.digest(self._key, len(name).to_bytes(4, "big") + name + plain, "sha256")
