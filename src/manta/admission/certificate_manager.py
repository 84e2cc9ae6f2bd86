"""The certificates of the webhook, in one Secret for all replicas and in the webhook configuration.

The first replica creates the Secret. A write carries the resourceVersion that was read, so if two
replicas change it, one fails and reads again. A new CA is published before its certificates are used.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import ssl
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from manta.admission.certificates import Chain, InvalidChain, next_chain
from manta.api.meta import Key
from manta.api.resources import SECRETS, VALIDATING_WEBHOOK_CONFIGURATIONS
from manta.kube.client import Client
from manta.kube.errors import AlreadyExists, Conflict, MantaError, NotFound
from manta.runtime.clock import Clock

log = logging.getLogger(__name__)

CHECK_INTERVAL = timedelta(minutes=10)
RETRY_INTERVAL = timedelta(seconds=5)
_FIELDS = {
    "ca.crt": "authorities",
    "ca.key": "authority_key",
    "tls.crt": "certificate",
    "tls.key": "key",
}
"""The keys of the Secret."""


class CertificateManager:
    def __init__(
        self,
        client: Client,
        clock: Clock,
        *,
        secret: Key,
        configuration: str,
        names: Sequence[str],
        directory: Path,
    ) -> None:
        """`names`: of the server, for its certificate. `directory`: of the files for TLS."""
        self._client = client
        self._clock = clock
        self._secret = secret
        self._configuration = configuration
        self._names = tuple(names)
        self._directory = directory
        self._loaded = ""
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.set_alpn_protocols(["http/1.1"])
        self.ready = asyncio.Event()
        """There is a certificate, and the API server has its CA."""

    async def run(self) -> None:
        """Check and renew the certificates periodically, forever."""
        while True:
            pause = CHECK_INTERVAL
            try:
                await self.renew()
            except (MantaError, InvalidChain, OSError) as error:
                log.warning("the webhook's certificates: %s", error)
                pause = RETRY_INTERVAL
            await asyncio.sleep(pause.total_seconds())

    async def renew(self) -> None:
        """Take steps until the certificates are up to date."""
        while await self._step():
            pass

    async def _step(self) -> bool:
        """Take one step; False if nothing was left to do."""
        chain, version = await self._read()
        try:
            following = next_chain(chain, self._names, self._clock.now())
        except InvalidChain as error:
            log.warning("Secret %s is invalid (%s): issuing new certificates", self._secret, error)
            chain, following = None, next_chain(None, self._names, self._clock.now())
        if chain is not None:
            await self._publish(chain.authorities)
            self._load(chain)
            self.ready.set()
        if following is None:
            return False
        await self._write(following, version)
        return True

    # ── Secret ───────────────────────────────────────────────────────────────────────────

    async def _read(self) -> tuple[Chain | None, str]:
        try:
            found = await self._client.get(SECRETS, self._secret)
        except NotFound:
            return None, ""
        data = found.get("data") or {}
        version = str(found["metadata"]["resourceVersion"])
        if not all(data.get(name) for name in _FIELDS):
            return None, version
        texts = {field: _decoded(data[name]) for name, field in _FIELDS.items()}
        return Chain(**texts), version

    async def _write(self, chain: Chain, version: str) -> None:
        """Create the Secret, or replace the version that was read; a concurrent change wins."""
        meta: dict[str, Any] = {"name": self._secret.name, "namespace": self._secret.namespace}
        data = {name: _encoded(getattr(chain, field)) for name, field in _FIELDS.items()}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data}
        try:
            if version:
                meta["resourceVersion"] = version
                await self._client.replace(SECRETS, self._secret, body)
            else:
                await self._client.create(SECRETS, self._secret.namespace, body)
        except (AlreadyExists, Conflict):
            log.info("another replica has written Secret %s", self._secret)

    # ── webhook configuration ────────────────────────────────────────────────────────────

    async def _publish(self, authorities: str) -> None:
        key = Key("", self._configuration)
        found = await self._client.get(VALIDATING_WEBHOOK_CONFIGURATIONS, key)
        wanted = _encoded(authorities)
        patch = []
        for index, hook in enumerate(found.get("webhooks") or ()):
            if hook["clientConfig"].get("caBundle") != wanted:
                at = f"/webhooks/{index}"
                patch += [
                    {"op": "test", "path": f"{at}/name", "value": hook["name"]},
                    {"op": "add", "path": f"{at}/clientConfig/caBundle", "value": wanted},
                ]
        if patch:
            await self._client.patch(VALIDATING_WEBHOOK_CONFIGURATIONS, key, patch, kind="json")
            log.info("published the CA in webhook configuration %s", self._configuration)

    # ── server certificate ───────────────────────────────────────────────────────────────

    def _load(self, chain: Chain) -> None:
        """Use this certificate for new connections."""
        if chain.certificate == self._loaded:
            return
        paths = self._directory / "tls.crt", self._directory / "tls.key"
        for path, text in zip(paths, (chain.certificate, chain.key), strict=True):
            path.unlink(missing_ok=True)
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(text)
        self.context.load_cert_chain(*paths)
        self._loaded = chain.certificate


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _decoded(text: str) -> str:
    return base64.b64decode(text).decode("utf-8", "replace")
