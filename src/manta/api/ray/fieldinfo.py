"""What a CRD has for a field beyond its type: description, limits, defaults, rules.

The annotations have no effect at run time (decoding accepts what the API server accepted);
`tools/crds` reads them to generate the CustomResourceDefinitions.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from manta.api.ray.names import MANAGED_BY_MULTIKUEUE, MANAGED_BY_OPERATOR


def info(
    text: str,
    *,
    required: bool = False,
    model: str = "",
    struct: type[msgspec.Struct] | None = None,
    rules: tuple[tuple[str, str], ...] = (),
    **schema: Any,
) -> msgspec.Meta:
    """Describe a field. `model` names the Kubernetes model of a raw value, `struct` is our type of one;
    `rules` are pairs of a CEL expression and its message, `schema` are plain JSON-schema keywords."""
    if rules:
        schema["x-kubernetes-validations"] = [
            {"rule": rule, "message": message} for rule, message in rules
        ]
    extra = {"required": required, "model": model, "struct": struct, "schema": schema}
    return msgspec.Meta(
        description=text, extra={word: value for word, value in extra.items() if value}
    )


def list_map(*keys: str) -> dict[str, Any]:
    """A list whose entries are identified by these keys and merged one by one."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


MANAGED_BY_RULES = (
    ("self == oldSelf", "the managedBy field is immutable"),
    (
        f"self in ['{MANAGED_BY_OPERATOR}', '{MANAGED_BY_MULTIKUEUE}']",
        (
            f"the managedBy field value must be either '{MANAGED_BY_OPERATOR}'"
            f" or '{MANAGED_BY_MULTIKUEUE}'"
        ),
    ),
)

Int64 = Annotated[int, msgspec.Meta(extra={"schema": {"format": "int64"}})]
Time = Annotated[str, msgspec.Meta(extra={"schema": {"format": "date-time"}})]
QuantityText = Annotated[str | int | float, msgspec.Meta(extra={"model": "Quantity"})]
"""A quantity as written. `manta.api.quantity.Quantity.parse` reads it."""

PodTemplate = dict[str, Any]
"""A Pod template as raw JSON: unknown fields must reach the Pod."""
