"""Service account tokens: JSON web tokens signed with the key of the plane (ES256).

A token is valid until it expires, while its service account and the Pod, Secret or Node that it is
bound to exist with the same uid. Signatures are verified once per token.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from manta.api.times import parse_time
from manta.api.well_known import EXTRA_POD_NAME, EXTRA_POD_UID
from manta.httpserver.messages import User
from manta.localplane.store.objects import Record, key_of
from manta.localplane.store.store import Store

ISSUER = "https://kubernetes.default.svc"
AUDIENCES = (ISSUER,)
DELETION_LEEWAY = 60.0
"""Seconds after the deletion time of a Pod in which its token is still valid."""
_CACHED_TOKENS = 4096


class _Metadata(msgspec.Struct, gc=False, frozen=True, rename="camel"):
    uid: str = ""
    deletion_timestamp: str = ""


class _Identified(msgspec.Struct, gc=False, frozen=True):
    metadata: _Metadata = _Metadata()


_read_uid = msgspec.json.Decoder(_Identified).decode


def uid_of(record: Record) -> str:
    return _read_uid(record.raw).metadata.uid


class Named(msgspec.Struct, omit_defaults=True):
    name: str
    uid: str = ""


class Binding(msgspec.Struct, omit_defaults=True):
    """The claim `kubernetes.io`: the service account and the bound object."""

    namespace: str
    serviceaccount: Named
    pod: Named | None = None
    secret: Named | None = None
    node: Named | None = None


class Claims(msgspec.Struct, omit_defaults=True, rename={"kubernetes": "kubernetes.io"}):
    aud: list[str]
    exp: int
    iat: int
    iss: str
    jti: str
    nbf: int
    sub: str
    kubernetes: Binding


@dataclass(frozen=True, slots=True)
class Accepted:
    """A valid token: its user, and the requested audiences that it is valid for."""

    user: User
    audiences: tuple[str, ...]


class Tokens:
    """Issues and checks tokens. The key, and the cryptography library, are loaded when needed."""

    def __init__(self, key_path: Path, store: Store, clock: Callable[[], datetime]) -> None:
        self._key_path = key_path
        self._store = store
        self._clock = clock
        self._loaded: Any = None
        self._checked: dict[str, Claims] = {}

    # ── issuing ──────────────────────────────────────────────────────────────────────────
    def issue(
        self, binding: Binding, seconds: int, audiences: Sequence[str], token_id: str
    ) -> tuple[str, datetime]:
        """Return the token and its expiry."""
        now = int(self._clock().timestamp())
        account = f"{binding.namespace}:{binding.serviceaccount.name}"
        claims = Claims(
            aud=list(audiences) or list(AUDIENCES),
            exp=now + seconds,
            iat=now,
            iss=ISSUER,
            jti=token_id,
            nbf=now,
            sub=f"system:serviceaccount:{account}",
            kubernetes=binding,
        )
        head = {"alg": "ES256", "kid": self._key_id(), "typ": "JWT"}
        text = f"{_base64url(msgspec.json.encode(head))}.{_base64url(msgspec.json.encode(claims))}"
        token = f"{text}.{_base64url(self._sign(text.encode()))}"
        end = datetime.fromtimestamp(claims.exp, self._clock().tzinfo)
        return token, end

    # ── checking ─────────────────────────────────────────────────────────────────────────
    def check(self, token: str, audiences: Sequence[str] = AUDIENCES) -> Accepted | None:
        """Return the user of a token; None if it is invalid."""
        claims = self._claims(token)
        if claims is None:
            return None
        now = self._clock().timestamp()
        shared = tuple(name for name in claims.aud if name in audiences)
        if not claims.nbf - 60 <= now < claims.exp or not shared:
            return None
        if not self._is_alive(claims.kubernetes):
            return None
        return Accepted(_user(claims.kubernetes), shared)

    def audiences_of(self, token: str) -> tuple[str, ...]:
        """Return the audiences of a token that this server issued, expired or not; else ()."""
        claims = self._claims(token)
        return tuple(claims.aud) if claims is not None else ()

    def _claims(self, token: str) -> Claims | None:
        known = self._checked.get(token)
        if known is not None:
            return known
        head, _, rest = token.partition(".")
        body, _, signature = rest.partition(".")
        try:
            if not signature or not self._is_signed(
                f"{head}.{body}".encode(), _from_base64url(signature)
            ):
                return None
            claims = msgspec.json.decode(_from_base64url(body), type=Claims)
        except (ValueError, binascii.Error):
            return None
        if claims.iss != ISSUER:
            return None
        if len(self._checked) >= _CACHED_TOKENS:
            self._checked.pop(next(iter(self._checked)))
        self._checked[token] = claims
        return claims

    def _is_alive(self, binding: Binding) -> bool:
        namespace = binding.namespace
        return all(
            one is None or self._exists(resource, where, one)
            for resource, where, one in (
                ("serviceaccounts", namespace, binding.serviceaccount),
                ("pods", namespace, binding.pod),
                ("secrets", namespace, binding.secret),
                ("nodes", "", binding.node),
            )
        )

    def _exists(self, resource: str, namespace: str, one: Named) -> bool:
        """Return whether the object with this uid exists and was not due for deletion a minute ago."""
        record = self._store.get(resource, key_of(namespace, one.name))
        if record is None:
            return False
        meta = _read_uid(record.raw).metadata
        if meta.uid != one.uid:
            return False
        if not meta.deletion_timestamp:
            return True
        due = parse_time(meta.deletion_timestamp).timestamp()
        return due + DELETION_LEEWAY > self._clock().timestamp()

    # ── the key ──────────────────────────────────────────────────────────────────────────
    def _key(self) -> Any:
        if self._loaded is None:
            from cryptography.hazmat.primitives import serialization

            self._loaded = serialization.load_pem_private_key(
                self._key_path.read_bytes(), password=None
            )
        return self._loaded

    def _key_id(self) -> str:
        return _base64url(hashlib.sha256(self.public_point()).digest())

    def public_point(self) -> bytes:
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        point: bytes = (
            self._key().public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        )
        return point

    def key_set(self) -> dict[str, Any]:
        """Return the public key as /openid/v1/jwks shows it."""
        point = self.public_point()
        key = {
            "use": "sig",
            "kty": "EC",
            "kid": self._key_id(),
            "crv": "P-256",
            "alg": "ES256",
            "x": _base64url(point[1:33]),
            "y": _base64url(point[33:]),
        }
        return {"keys": [key]}

    def _sign(self, text: bytes) -> bytes:
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec, utils

        der = self._key().sign(text, ec.ECDSA(hashes.SHA256()))
        r, s = utils.decode_dss_signature(der)
        return r.to_bytes(32) + s.to_bytes(32)

    def _is_signed(self, text: bytes, signature: bytes) -> bool:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec, utils

        if len(signature) != 64:
            return False
        r, s = int.from_bytes(signature[:32]), int.from_bytes(signature[32:])
        try:
            self._key().public_key().verify(
                utils.encode_dss_signature(r, s), text, ec.ECDSA(hashes.SHA256())
            )
        except InvalidSignature:
            return False
        return True


def _user(binding: Binding) -> User:
    extra: dict[str, tuple[str, ...]] = {}
    if binding.pod is not None:
        extra[EXTRA_POD_NAME] = (binding.pod.name,)
        extra[EXTRA_POD_UID] = (binding.pod.uid,)
    account = binding.serviceaccount
    return User(
        f"system:serviceaccount:{binding.namespace}:{account.name}",
        (
            "system:serviceaccounts",
            f"system:serviceaccounts:{binding.namespace}",
            "system:authenticated",
        ),
        account.uid,
        extra,
    )


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _from_base64url(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
