"""Cloud Storage FUSE of GKE: a CSI volume on every Pod, and annotations for its sidecar. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from manta.cli.plugin.cluster_config import GcsFuse

VOLUME: Final = "cluster-storage"
DRIVER: Final = "gcsfuse.csi.storage.gke.io"
_SWITCHES: Final = (
    ("disableMetrics", "disable_metrics"),
    ("gcsfuseMetadataPrefetchOnMount", "gcsfuse_metadata_prefetch_on_mount"),
    ("skipCSIBucketAccessCheck", "skip_csi_bucket_access_check"),
)


def mounted(fuse: GcsFuse, spec: dict[str, Any]) -> dict[str, Any]:
    """A Pod template of this spec, with the bucket mounted in its first container."""
    first, *others = spec["containers"]
    mount = {"name": VOLUME, "mountPath": fuse.mount_path}
    csi = {"driver": DRIVER, "volumeAttributes": dict(_attributes(fuse))}
    annotations = dict(_annotations(fuse))
    return {
        **({"metadata": {"annotations": annotations}} if annotations else {}),
        "spec": {
            **spec,
            "containers": [{**first, "volumeMounts": [mount]}, *others],
            "volumes": [{"name": VOLUME, "csi": csi}],
        },
    }


def _attributes(fuse: GcsFuse) -> Iterator[tuple[str, str]]:
    yield "bucketName", fuse.bucket_name
    if fuse.mount_options:
        yield "mountOptions", fuse.mount_options
    for name, attribute in _SWITCHES:
        value = getattr(fuse, attribute)
        if value is not None:
            yield name, str(value).lower()


def _annotations(fuse: GcsFuse) -> Iterator[tuple[str, str]]:
    if fuse.resources.cpu:
        yield "gke-gcsfuse/cpu-request", fuse.resources.cpu
    for name in ("memory", "ephemeral_storage"):
        value = getattr(fuse.resources, name)
        if value:
            for what in ("limit", "request"):
                yield f"gke-gcsfuse/{name.replace('_', '-')}-{what}", value
