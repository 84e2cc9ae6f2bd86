"""What a running head was started with: an edit of the spec reaches only the next head.

Workers that join it and clients of its dashboard need the port of its GCS and its token, as they are and not as the
spec has them by now. The head Pod records both in an annotation. A head of KubeRay or of an earlier version has none:
then the spec counts.
"""

from __future__ import annotations

import msgspec

from manta.api.core import Pod
from manta.api.meta import View
from manta.api.ray import names
from manta.api.ray.cluster import AuthMode, AuthOptions, RayCluster
from manta.rules.traits import auth_secret_name, head_port, kubernetes_token_auth, token_auth


class _Start(View, frozen=True, kw_only=True):
    """The value of the annotation, as JSON."""

    port: str
    token_secret: str = ""
    """Empty without token authentication."""
    kubernetes_tokens: bool = False


def start_annotation(cluster: RayCluster) -> dict[str, str]:
    """The annotation of a head that is started from this spec."""
    return {names.ANNOTATION_STARTED_WITH: msgspec.json.encode(_start_of_spec(cluster)).decode()}


def as_it_runs(cluster: RayCluster, head: Pod | None) -> RayCluster:
    """The cluster with the port and the authentication that its head was started with. Without a head, as it is."""
    start = _start_of(head) if head is not None else None
    if start is None or start == _start_of_spec(cluster):
        return cluster
    group = cluster.spec.head_group_spec
    params = {**group.ray_start_params, "port": start.port}
    options = AuthOptions(
        mode=AuthMode.TOKEN,
        secret_name=start.token_secret,
        enable_k8s_token_auth=start.kubernetes_tokens,
    )
    spec = msgspec.structs.replace(
        cluster.spec,
        head_group_spec=msgspec.structs.replace(group, ray_start_params=params),
        auth_options=options if start.token_secret else None,
    )
    return msgspec.structs.replace(cluster, spec=spec)


def token_secret(cluster: RayCluster, head: Pod | None) -> str:
    """The Secret with the token that the head's dashboard wants; empty if it wants none."""
    start = _start_of(head) if head is not None else None
    return (start or _start_of_spec(cluster)).token_secret


def _start_of_spec(cluster: RayCluster) -> _Start:
    return _Start(
        port=head_port(cluster.spec),
        token_secret=auth_secret_name(cluster) if token_auth(cluster.spec) else "",
        kubernetes_tokens=kubernetes_token_auth(cluster.spec),
    )


def _start_of(head: Pod) -> _Start | None:
    """None too for a value that somebody else wrote and that cannot be read."""
    text = head.metadata.annotations.get(names.ANNOTATION_STARTED_WITH, "")
    try:
        return msgspec.json.decode(text, type=_Start) if text else None
    except msgspec.DecodeError:
        return None
