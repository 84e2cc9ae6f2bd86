"""The files (path, content, mode) of ConfigMap, Secret, downward API and projected volumes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from manta.localplane.node.spec.environment import (
    ConfigError,
    PodPlacement,
    Sources,
    field_value,
    resource_value,
)
from manta.localplane.node.spec.pod_spec import (
    ConfigMapVolume,
    DownwardVolume,
    KeyToPath,
    NodePod,
    Projection,
    SecretVolume,
    TokenProjection,
    Volume,
)


@dataclass(frozen=True, slots=True)
class VolumeFile:
    path: str
    content: bytes
    mode: int


@dataclass(frozen=True, slots=True)
class Content:
    """The sources of the files in a Pod's volumes."""

    pod: NodePod
    place: PodPlacement
    sources: Sources
    tokens: Mapping[TokenProjection, bytes]


def files_of(volume: Volume, content: Content) -> tuple[VolumeFile, ...] | None:
    """The files of a volume made from API objects; None for other kinds. Raises ConfigError."""
    if volume.config_map is not None:
        return tuple(_of_config_map(volume.config_map, content.sources))
    if volume.secret is not None:
        return tuple(_of_secret(volume.secret, content.sources))
    if volume.downward_api is not None:
        return tuple(_of_downward(volume.downward_api, content))
    if volume.projected is not None:
        mode = volume.projected.default_mode
        return tuple(
            file
            for source in volume.projected.sources
            for file in _of_source(source, content, mode)
        )
    return None


def has_changing_files(pod: NodePod) -> bool:
    """Whether the Pod has volumes made from API objects."""
    return any(
        volume.config_map or volume.secret or volume.projected or volume.downward_api
        for volume in pod.spec.volumes
    )


def token_projections(pod: NodePod) -> tuple[TokenProjection, ...]:
    """The service account tokens in the Pod's volumes."""
    sources = (
        source
        for volume in pod.spec.volumes
        if volume.projected is not None
        for source in volume.projected.sources
    )
    return tuple(one.service_account_token for one in sources if one.service_account_token)


def _of_source(source: Projection, content: Content, mode: int) -> Iterator[VolumeFile]:
    """Sources of a projected volume use the volume's mode."""
    if source.config_map is not None:
        chosen = replace(source.config_map, default_mode=mode)
        yield from _of_config_map(chosen, content.sources)
    if source.secret is not None:
        yield from _of_secret(replace(source.secret, default_mode=mode), content.sources)
    if source.downward_api is not None:
        yield from _of_downward(replace(source.downward_api, default_mode=mode), content)
    if (token := source.service_account_token) is not None:
        yield VolumeFile(token.path, content.tokens[token], mode)


def _of_config_map(volume: ConfigMapVolume, sources: Sources) -> Iterator[VolumeFile]:
    known = sources.config_maps.get(volume.name)
    return _chosen("configmap", volume.name, known, volume)


def _of_secret(volume: SecretVolume, sources: Sources) -> Iterator[VolumeFile]:
    name = volume.secret_name or volume.name
    return _chosen("secret", name, sources.secrets.get(name), volume)


def _chosen(
    kind: str, name: str, known: Mapping[str, bytes] | None, volume: ConfigMapVolume | SecretVolume
) -> Iterator[VolumeFile]:
    if known is None:
        if volume.optional:
            return
        raise ConfigError(f'{kind} "{name}" not found')
    items: Iterable[KeyToPath] = volume.items
    if not volume.items:
        items = (KeyToPath(key=key, path=key) for key in sorted(known))
    for item in items:
        if item.key in known:
            mode = item.mode if item.mode is not None else volume.default_mode
            yield VolumeFile(item.path, known[item.key], mode)
        elif not volume.optional:
            raise ConfigError(f"{kind} references non-existent {kind} key: {item.key}")


def _of_downward(volume: DownwardVolume, content: Content) -> Iterator[VolumeFile]:
    for item in volume.items:
        mode = item.mode if item.mode is not None else volume.default_mode
        text = ""
        if item.field_ref is not None:
            text = field_value(content.pod, item.field_ref.field_path, content.place)
        elif item.resource_field_ref is not None:
            first = content.pod.spec.containers[0]
            text = resource_value(content.pod, first, item.resource_field_ref, content.place)
        yield VolumeFile(item.path, text.encode(), mode)
