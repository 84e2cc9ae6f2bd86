"""The parts of a RayCluster's spec as documents. Pure: every shape, of flags, of arguments or of a short file, ends here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from manta.api.quantity import Quantity

Document = dict[str, Any]


def given(**fields: Mapping[str, Any] | Sequence[Any] | str) -> Document:
    """The fields that are not empty."""
    return {name: value for name, value in fields.items() if value}


def amounts(*pairs: tuple[str, str]) -> dict[str, str]:
    """The quantities that are not zero, in canonical form. Raises ValueError."""
    parsed = ((name, Quantity.parse(value)) for name, value in pairs if value)
    return {name: str(quantity) for name, quantity in parsed if quantity}


def ray_container(
    name: str,
    image: str,
    requests: Mapping[str, str],
    limits: Mapping[str, str],
    *,
    env: Mapping[str, str] | None = None,
    ports: Sequence[Mapping[str, Any]] = (),
) -> Document:
    """The Ray container of a Pod template."""
    variables = [{"name": key, "value": value} for key, value in (env or {}).items()]
    return {
        "name": name,
        "image": image,
        **given(env=variables),
        "resources": {"requests": dict(requests), "limits": dict(limits)},
        **given(ports=[dict(port) for port in ports]),
    }


def pod_template(
    container: Document,
    *,
    node_selector: Mapping[str, str] | None = None,
    pod: Mapping[str, Any] | None = None,
) -> Document:
    """A Pod template; `pod` has more fields of its spec, and containers beside that of Ray."""
    fields = dict(pod or {})
    containers = [container, *fields.pop("containers", ())]
    selector = given(nodeSelector=dict(node_selector or {}))
    return {"spec": {"containers": containers, **selector, **fields}}


def group_spec(
    template: Document,
    *,
    sizes: Mapping[str, Any] | None = None,
    ray_start_params: Mapping[str, str] | None = None,
    resources: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
) -> Document:
    """The head group, or with `sizes` (name, replicas, bounds and hosts) a worker group."""
    fields = given(
        rayStartParams=dict(ray_start_params or {}),
        resources=dict(resources or {}),
        labels=dict(labels or {}),
    )
    return {**(sizes or {}), **fields, "template": template}


def assembled(
    head: Document,
    workers: Sequence[Document],
    *,
    ray_version: str = "",
    autoscaler: Mapping[str, Any] | None = None,
) -> Document:
    """The spec of a RayCluster. `autoscaler`: its options, which may be empty; None: it is off."""
    spec = {**given(rayVersion=ray_version), "headGroupSpec": head}
    spec |= given(workerGroupSpecs=list(workers))
    if autoscaler is not None:
        spec |= {"enableInTreeAutoscaling": True, **given(autoscalerOptions=dict(autoscaler))}
    return spec
