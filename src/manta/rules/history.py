"""What collects the logs and events of a cluster, and where they are stored."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Any, Final
from urllib.parse import urlsplit

from manta.api.ray import names
from manta.api.ray.cluster import CollectorOptions, RayCluster, RayClusterSpec
from manta.rules.settings import Settings
from manta.rules.traits import group_templates

HISTORY_BY_NODE: Final = "node"
"""The value of `--history-store` on `manta up`."""
STORE_SCHEMES: Final = ("file", "s3", "gs", "az")


class HistoryCollector(Enum):
    """What receives the events of a cluster's Ray nodes and copies their logs."""

    NONE = auto()
    NODE = auto()
    """The node agent of `manta up`."""
    SIDECAR = auto()
    """`manta collect`, beside Ray in every Pod."""
    KUBERAY = auto()
    """The collector of KubeRay, whose image the cluster names."""


def collector_options(spec: RayClusterSpec) -> CollectorOptions | None:
    options = spec.history_server_options
    return None if options is None else options.collector_options


def names_kuberays_collector(options: CollectorOptions, settings: Settings) -> bool:
    """Whether the image is neither empty nor that of our sidecars."""
    if not options.image:
        return not (settings.history_image or settings.history_store == HISTORY_BY_NODE)
    return options.image != settings.history_image


def history_collector(cluster: RayCluster, settings: Settings) -> HistoryCollector:
    options = collector_options(cluster.spec)
    if options is not None and names_kuberays_collector(options, settings):
        return HistoryCollector.KUBERAY
    if cluster.metadata.annotations.get(names.ANNOTATION_HISTORY, "") == "false":
        return HistoryCollector.NONE
    if settings.history_store == HISTORY_BY_NODE:
        return HistoryCollector.NODE
    return (
        HistoryCollector.SIDECAR
        if _can_have_sidecar(cluster.spec, settings)
        else HistoryCollector.NONE
    )


def _can_have_sidecar(spec: RayClusterSpec, settings: Settings) -> bool:
    """Whether the sidecar has an image, a store and a free name, so that no Pod fails because of it."""
    store = history_store(spec, settings)
    if not settings.history_image or store_url_problem(store):
        return False
    templates = [template.get("spec") or {} for template in group_templates(spec, "spec").values()]
    if any(names.CONTAINER_HISTORY in container_names(template) for template in templates):
        return False
    # Without a volume, a file:// store would be in the sidecar's own container, and go with the Pod.
    return not store.startswith("file://") or all(map(_has_history_volume, templates))


def container_names(pod_spec: Mapping[str, Any]) -> set[str]:
    lists = (pod_spec.get(field) or () for field in ("containers", "initContainers"))
    return {one.get("name", "") for containers in lists for one in containers}


def _has_history_volume(pod_spec: Mapping[str, Any]) -> bool:
    return any(one.get("name") == names.VOLUME_HISTORY for one in pod_spec.get("volumes") or ())


def history_store(spec: RayClusterSpec, settings: Settings) -> str:
    """The URL of the store of this cluster: its own, else the operator's; empty for none."""
    options = collector_options(spec)
    own = () if options is None else options.env
    chosen = [one.get("value") or "" for one in own if one.get("name") == names.ENV_HISTORY_STORE]
    return chosen[-1] if chosen else settings.history_store


def store_url_problem(url: str) -> str | None:
    """What is wrong with the URL of a store, and the cure; None if it can be one."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        return f"is not a URL ({error})"
    if parts.scheme not in STORE_SCHEMES:
        return "must start with file://, s3://, gs:// or az://, such as s3://bucket/prefix"
    if parts.username or parts.password or parts.query:
        return (
            "must hold no credentials and no query; set the variables of the provider, such as"
            " AWS_ACCESS_KEY_ID"
        )
    if parts.scheme == "file" and (parts.netloc or not parts.path.startswith("/")):
        return "write three slashes, as in file:///var/history"
    if parts.scheme != "file" and not parts.netloc:
        return "names no bucket"
    return None


def without_credentials(url: str) -> str:
    """The URL as it may be shown in a message."""
    scheme, _, rest = url.partition("://")
    if "@" not in rest and "?" not in rest:
        return repr(url)
    return f"{scheme}://..."
