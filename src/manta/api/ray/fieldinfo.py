"""What a CRD says about a field beyond its type: words, limits, defaults, rules.

The annotations are inert at run time (decoding never refuses what the API server accepted);
`tools/crds` reads them to generate the CustomResourceDefinitions.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec


def info(
    text: str,
    *,
    required: bool = False,
    model: str = "",
    rules: tuple[tuple[str, str], ...] = (),
    **schema: Any,
) -> msgspec.Meta:
    """Describe a field. `model` names the Kubernetes model whose schema stands for a raw value,
    `rules` are pairs of a CEL expression and its message, `schema` are plain JSON-schema words."""
    if rules:
        schema["x-kubernetes-validations"] = [
            {"rule": rule, "message": message} for rule, message in rules
        ]
    extra = {"required": required, "model": model, "schema": schema}
    return msgspec.Meta(
        description=text, extra={word: value for word, value in extra.items() if value}
    )


def list_map(*keys: str) -> dict[str, Any]:
    """A list whose entries are told apart by their keys, and merged one by one."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


MANAGED_BY_RULES = (
    ("self == oldSelf", "the managedBy field is immutable"),
    (
        "self in ['ray.io/kuberay-operator', 'kueue.x-k8s.io/multikueue']",
        (
            "the managedBy field value must be either 'ray.io/kuberay-operator'"
            " or 'kueue.x-k8s.io/multikueue'"
        ),
    ),
)

Int64 = Annotated[int, msgspec.Meta(extra={"schema": {"format": "int64"}})]
Time = Annotated[str, msgspec.Meta(extra={"schema": {"format": "date-time"}})]
QuantityText = Annotated[str | int | float, msgspec.Meta(extra={"model": "Quantity"})]
"""A quantity as written. `manta.api.quantity.Quantity.parse` reads it."""

PodTemplate = dict[str, Any]
"""A Pod template, untouched: what we do not know must reach the Pod."""
