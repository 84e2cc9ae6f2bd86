"""A RayCluster in short form, as flags or as YAML, and the RayCluster built from it. Pure.

The short form and its defaults are those of KubeRay's plugin.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from manta.api.documents.limits import DocumentError
from manta.api.documents.reader import read_yaml
from manta.api.quantity import Quantity
from manta.api.ray.names import (
    NODE_SELECTOR_GKE_TPU_ACCELERATOR,
    NODE_SELECTOR_GKE_TPU_TOPOLOGY,
    RESOURCE_GOOGLE_TPU,
)
from manta.api.usage import UsageError
from manta.api.well_known import RESOURCE_NVIDIA_GPU
from manta.client.cluster_parts import (
    Document,
    amounts,
    assembled,
    given,
    group_spec,
    pod_template,
    ray_container,
)

RAY_VERSION: Final = "2.52.0"
IMAGE: Final = "rayproject/ray"
FIELD_MANAGER: Final = "ray-kubectl-plugin"
DEFAULT_GROUP: Final = "default-group"
CPU: Final = "2"
MEMORY: Final = "4Gi"
TPU_SELECTORS: Final = (NODE_SELECTOR_GKE_TPU_ACCELERATOR, NODE_SELECTOR_GKE_TPU_TOPOLOGY)
_TPU_PAGE = "https://cloud.google.com/kubernetes-engine/docs/concepts/plan-tpus#availability"
_PORTS: Final = tuple(
    {"containerPort": port, "name": name}
    for port, name in ((6379, "gcs-server"), (8265, "dashboard"), (10001, "client"))
)


class _Part(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True, kw_only=True):
    """A part of the short form. Unknown keys are errors."""


class Head(_Part, frozen=True):
    cpu: str = CPU
    gpu: str = ""
    memory: str = MEMORY
    ephemeral_storage: str = ""
    ray_start_params: dict[str, str] = {}
    node_selectors: dict[str, str] = {}


class WorkerGroup(_Part, frozen=True):
    name: str = ""
    cpu: str = ""
    gpu: str = ""
    tpu: str = ""
    num_of_hosts: int | None = None
    memory: str = ""
    ephemeral_storage: str = ""
    ray_start_params: dict[str, str] = {}
    node_selectors: dict[str, str] = {}
    replicas: int = 0


class Autoscaler(_Part, frozen=True):
    version: str = ""


class FuseResources(_Part, frozen=True):
    cpu: str = ""
    memory: str = ""
    ephemeral_storage: str = ""


class GcsFuse(_Part, frozen=True):
    bucket_name: str = ""
    mount_path: str = ""
    mount_options: str = ""
    resources: FuseResources = FuseResources()
    disable_metrics: bool | None = None
    gcsfuse_metadata_prefetch_on_mount: bool | None = None
    skip_csi_bucket_access_check: bool | None = None


class Gke(_Part, frozen=True):
    gcsfuse: GcsFuse | None = None


class ClusterConfig(_Part, frozen=True):
    namespace: str = ""
    name: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    ray_version: str = RAY_VERSION
    image: str = ""
    """Empty: rayproject/ray of this version."""
    service_account: str = ""
    head: Head = Head()
    worker_groups: tuple[WorkerGroup, ...] = (
        WorkerGroup(name=DEFAULT_GROUP, cpu=CPU, memory=MEMORY, replicas=1),
    )
    autoscaler: Autoscaler = Autoscaler()
    gke: Gke = Gke()


def default_image(ray_version: str) -> str:
    return f"{IMAGE}:{ray_version}"


# ── short YAML ───────────────────────────────────────────────────────────────────────────


def parse_config(text: bytes, origin: str) -> ClusterConfig:
    """The short form of a file. Raises UsageError for unknown keys and invalid values."""
    try:
        tree = read_yaml(text) or {}
        config = msgspec.convert(_quoted(_without_nulls(tree)), ClusterConfig)
    except DocumentError as error:
        raise UsageError(f"{origin} is not valid YAML: {error}") from error
    except msgspec.ValidationError as error:
        raise UsageError(f"{origin}: {error}") from error
    check(config, origin)
    return config


_NUMBERS = frozenset(("replicas", "num-of-hosts"))


def _quoted(value: Any, key: str = "") -> Any:
    """Numbers as text, except where a number is expected: `cpu: 2` means the quantity "2"."""
    if isinstance(value, dict):
        return {name: _quoted(each, str(name)) for name, each in value.items()}
    if isinstance(value, list):
        return [_quoted(each) for each in value]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if is_number and key not in _NUMBERS else value


def _without_nulls(value: Any) -> Any:
    """An empty key keeps its default."""
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


def check(config: ClusterConfig, origin: str = "") -> None:
    """Raise UsageError for a quantity, a TPU group, an autoscaler or a bucket that is invalid."""
    where = f"{origin}: " if origin else ""
    for name in ("cpu", "gpu", "memory", "ephemeral_storage"):
        _check_amount(getattr(config.head, name), f"{where}head.{name}")
    for at, group in enumerate(config.worker_groups):
        for name in ("cpu", "gpu", "tpu", "memory", "ephemeral_storage"):
            _check_amount(getattr(group, name), f"{where}worker-groups[{at}].{name}")
        check_tpu(group.tpu, group.num_of_hosts, group.node_selectors)
    if config.autoscaler.version not in ("", "v1", "v2"):
        raise UsageError(f"{where}autoscaler.version: {config.autoscaler.version!r}: use v1 or v2")
    if config.gke.gcsfuse is not None:
        _check_bucket(config.gke.gcsfuse, where)


def _check_bucket(fuse: GcsFuse, where: str) -> None:
    for name in ("bucket_name", "mount_path"):
        if not getattr(fuse, name):
            raise UsageError(f"{where}gke.gcsfuse.{name.replace('_', '-')} is required")
    for name in ("cpu", "memory", "ephemeral_storage"):
        _check_amount(getattr(fuse.resources, name), f"{where}gke.gcsfuse.resources.{name}")


def _check_amount(value: str, field: str) -> None:
    if not value:
        return
    try:
        negative = Quantity.parse(value) < Quantity.parse("0")
    except ValueError:
        negative = True
    if negative:
        raise UsageError(f"{field.replace('_', '-')}: {value!r} is not a quantity such as 2 or 4Gi")


def check_tpu(tpu: str, hosts: int | None, selectors: Mapping[str, str]) -> None:
    """A TPU group needs hosts and the two node selectors of GKE. Raises UsageError."""
    if not tpu or not Quantity.parse(tpu):
        return
    if hosts == 0:
        raise UsageError("--num-of-hosts 0: must be 1 or more with TPUs")
    for name in TPU_SELECTORS:
        if name not in selectors:
            raise UsageError(f"{name} is not set in --worker-node-selectors; see {_TPU_PAGE}")


# ── RayCluster ───────────────────────────────────────────────────────────────────────────


def build_cluster(config: ClusterConfig) -> Document:
    meta: Document = {"name": config.name, "namespace": config.namespace}
    meta |= given(labels=config.labels, annotations=config.annotations)
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": meta,
        "spec": build_spec(config),
    }


def build_spec(config: ClusterConfig) -> Document:
    image, head = config.image or default_image(config.ray_version), config.head
    container = ray_container("ray-head", image, *_resources(head), ports=_PORTS)
    version = config.autoscaler.version
    return assembled(
        group_spec(
            _template(container, head.node_selectors, config),
            ray_start_params=head.ray_start_params,
        ),
        [_group(group, at, image, config) for at, group in enumerate(config.worker_groups)],
        ray_version=config.ray_version,
        autoscaler={"version": version} if version else None,
    )


def _group(group: WorkerGroup, at: int, image: str, config: ClusterConfig) -> Document:
    container = ray_container("ray-worker", image, *_resources(group, group.tpu))
    sizes: Document = {
        "groupName": group.name or (f"{DEFAULT_GROUP}-{at}" if at else DEFAULT_GROUP),
        "replicas": group.replicas,
    }
    if group.num_of_hosts is not None:
        sizes["numOfHosts"] = group.num_of_hosts
    template = _template(container, group.node_selectors, config)
    return group_spec(template, sizes=sizes, ray_start_params=group.ray_start_params)


def _resources(part: Head | WorkerGroup, tpu: str = "") -> tuple[dict[str, str], dict[str, str]]:
    """Requests and limits. CPUs are requested but not limited; everything else is both."""
    limits = amounts(
        ("memory", part.memory),
        ("ephemeral-storage", part.ephemeral_storage),
        (RESOURCE_NVIDIA_GPU, part.gpu),
        (RESOURCE_GOOGLE_TPU, tpu),
    )
    return {**amounts(("cpu", part.cpu)), **limits}, limits


def _template(container: Document, selectors: Mapping[str, str], config: ClusterConfig) -> Document:
    account = given(serviceAccountName=config.service_account)
    template = pod_template(container, node_selector=selectors, pod=account)
    if config.gke.gcsfuse is None:
        return template
    from manta.cli.plugin.gcs_fuse import mounted

    return mounted(config.gke.gcsfuse, template["spec"])
