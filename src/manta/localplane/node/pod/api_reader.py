"""Reads from the API server what a Pod needs: ConfigMaps, Secrets, PersistentVolumeClaims, tokens, Services."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from manta.api.core import Service
from manta.api.meta import Key, Object
from manta.api.resources import (
    CONFIG_MAPS,
    PERSISTENT_VOLUME_CLAIMS,
    SECRETS,
    SERVICE_ACCOUNTS,
    Resource,
)
from manta.kube.client import Client
from manta.kube.errors import NotFound
from manta.localplane.node.spec.environment import Sources
from manta.localplane.node.spec.pod_spec import NodePod, Projection, TokenProjection, Volume


class _ConfigMapOrSecret(Object, frozen=True, kw_only=True):
    data: dict[str, str] = msgspec.field(default_factory=dict)
    binary_data: dict[str, str] = msgspec.field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceNames:
    config_maps: frozenset[str]
    secrets: frozenset[str]


def source_names(pod: NodePod) -> SourceNames:
    """The ConfigMaps and Secrets to which the environment variables and volumes of a Pod refer. Pure."""
    config_maps = {*_names_in_environment(pod, secret=False), *_names_in_volumes(pod, secret=False)}
    secrets = {*_names_in_environment(pod, secret=True), *_names_in_volumes(pod, secret=True)}
    return SourceNames(frozenset(config_maps - {""}), frozenset(secrets - {""}))


def _names_in_environment(pod: NodePod, *, secret: bool) -> Iterator[str]:
    for container in pod.containers():
        for source in container.env_from:
            reference = source.secret_ref if secret else source.config_map_ref
            yield reference.name if reference else ""
        for variable in container.env:
            if variable.value_from is not None:
                value_from = variable.value_from
                selector = value_from.secret_key_ref if secret else value_from.config_map_key_ref
                yield selector.name if selector else ""


def _names_in_volumes(pod: NodePod, *, secret: bool) -> Iterator[str]:
    for volume in pod.spec.volumes:
        yield from _name_in(volume, secret=secret)
        for source in volume.projected.sources if volume.projected else ():
            yield from _name_in(source, secret=secret)


def _name_in(source: Volume | Projection, *, secret: bool) -> Iterator[str]:
    if secret and source.secret is not None:
        yield source.secret.secret_name or source.secret.name
    if not secret and source.config_map is not None:
        yield source.config_map.name


class ApiReader:
    """Requests everything from the API server, except Services.

    `services` and `service_address` read the caches of informers. `service_address(namespace, name)` returns the
    address of a Pod of the Service; empty: it has none yet; None: there is no such Service.
    """

    def __init__(
        self,
        client: Client,
        services: Callable[[], Iterable[Service]],
        service_address: Callable[[str, str], str | None],
    ) -> None:
        self._client = client
        self._services = services
        self.service_address = service_address

    def services(self) -> Iterable[Service]:
        return self._services()

    async def sources(self, pod: NodePod) -> Sources:
        """The content of the Pod's ConfigMaps and Secrets. Never cached, so that a Pod sees the latest writes."""
        names = source_names(pod)
        namespace = pod.metadata.namespace
        config_maps = {
            name: content
            for name in sorted(names.config_maps)
            if (content := await self._content(CONFIG_MAPS, Key(namespace, name))) is not None
        }
        secrets = {
            name: content
            for name in sorted(names.secrets)
            if (content := await self._content(SECRETS, Key(namespace, name))) is not None
        }
        return Sources(config_maps, secrets)

    async def _content(self, resource: Resource, key: Key) -> Mapping[str, bytes] | None:
        try:
            found = await self._client.get(resource, key, into=_ConfigMapOrSecret)
        except NotFound:
            return None
        binary = {name: base64.b64decode(text) for name, text in found.binary_data.items()}
        if resource is SECRETS:
            return {name: base64.b64decode(text) for name, text in found.data.items()}
        return {**{name: text.encode() for name, text in found.data.items()}, **binary}

    async def has_claim(self, key: Key) -> bool:
        try:
            await self._client.get(PERSISTENT_VOLUME_CLAIMS, key, into=Object)
        except NotFound:
            return False
        return True

    async def token(self, pod: NodePod, projection: TokenProjection) -> bytes:
        """A new token of the Pod's service account, bound to the Pod."""
        meta = pod.metadata
        path = SERVICE_ACCOUNTS.path(meta.namespace, pod.spec.service_account_name, "token")
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "audiences": [projection.audience] if projection.audience else [],
                "expirationSeconds": projection.expiration_seconds,
                "boundObjectRef": {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": meta.name,
                    "uid": meta.uid,
                },
            },
        }
        headers = {"content-type": "application/json"}
        answer = await self._client.send(
            "POST", path, headers=headers, body=msgspec.json.encode(body)
        )
        token: str = msgspec.json.decode(answer.body)["status"]["token"]
        return token.encode()
