"""The volumes of one Pod: the API objects and tokens that they need, and where they are on disk."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from manta.api.meta import Key
from manta.localplane.node.pod.api_reader import ApiReader
from manta.localplane.node.spec.environment import ConfigError, PodPlacement
from manta.localplane.node.spec.pod_spec import NodePod
from manta.localplane.node.storage.volume_files import Content, token_projections
from manta.localplane.node.storage.volumes import PreparedVolumes, Volumes, ephemeral_claim

_TOKEN_RENEWAL = 0.8
"""Share of its lifetime after which a token is renewed."""


class PodVolumes:
    def __init__(self, volumes: Volumes, reader: ApiReader) -> None:
        self._volumes = volumes
        self._reader = reader
        self._tokens: dict[Any, tuple[float, bytes]] = {}
        self.prepared = PreparedVolumes({}, ())

    @property
    def paths(self) -> Mapping[str, Path]:
        return self.prepared.paths

    async def prepare(self, directory: Path, pod: NodePod, place: PodPlacement, now: float) -> None:
        """Create or refresh all volumes below `directory`. Raises ConfigError or OSError."""
        await self._check_claims(pod)
        sources = await self._reader.sources(pod)
        content = Content(pod, place, sources, await self._renew_tokens(pod, now))
        self.prepared = await asyncio.to_thread(self._volumes.prepare, directory, content)

    async def _check_claims(self, pod: NodePod) -> None:
        for volume in pod.spec.volumes:
            claim = volume.persistent_volume_claim
            key = Key(pod.metadata.namespace, claim.claim_name if claim else "")
            if claim is not None and not await self._reader.has_claim(key):
                raise ConfigError(f'persistentvolumeclaim "{key.name}" not found')

    async def _renew_tokens(self, pod: NodePod, now: float) -> dict[Any, bytes]:
        for projection in token_projections(pod):
            renew_at, _ = self._tokens.get(projection, (0.0, b""))
            if now >= renew_at:
                token = await self._reader.token(pod, projection)
                renew_at = now + projection.expiration_seconds * _TOKEN_RENEWAL
                self._tokens[projection] = (renew_at, token)
        return {projection: token for projection, (_, token) in self._tokens.items()}

    def remove_ephemeral_claims(self, pod: NodePod) -> None:
        for volume in pod.spec.volumes:
            if volume.ephemeral is not None:
                claim = ephemeral_claim(pod, volume)
                self._volumes.remove_claim(pod.metadata.namespace, claim)
