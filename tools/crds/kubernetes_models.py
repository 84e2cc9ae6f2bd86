"""Cut the schemas that our CRDs embed out of Kubernetes' published OpenAPI documents.

    python -m tools.crds.kubernetes_models DIR RELEASE

DIR is a tree with the published documents, for instance the Go module's:
`go mod download -json k8s.io/kubernetes@v1.36.0` names it, and `api/openapi-spec/v3` is inside.
Run once per Kubernetes release; the result (kubernetes_models.json) is kept in the repository, so
that generating the CRDs needs neither Go nor a network.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

OUTPUT = Path(__file__).with_name("kubernetes_models.json")
DOCUMENTS = ("api__v1_openapi.json", "apis__networking.k8s.io__v1_openapi.json")
ROOTS = {
    "PodTemplateSpec": "io.k8s.api.core.v1.PodTemplateSpec",
    "Service": "io.k8s.api.core.v1.Service",
    "EnvVar": "io.k8s.api.core.v1.EnvVar",
    "EnvVarSource": "io.k8s.api.core.v1.EnvVarSource",
    "EnvFromSource": "io.k8s.api.core.v1.EnvFromSource",
    "VolumeMount": "io.k8s.api.core.v1.VolumeMount",
    "ResourceRequirements": "io.k8s.api.core.v1.ResourceRequirements",
    "SecurityContext": "io.k8s.api.core.v1.SecurityContext",
    "IngressTLS": "io.k8s.api.networking.v1.IngressTLS",
    "NetworkPolicyIngressRule": "io.k8s.api.networking.v1.NetworkPolicyIngressRule",
    "NetworkPolicyEgressRule": "io.k8s.api.networking.v1.NetworkPolicyEgressRule",
}
KEPT = (
    "type",
    "format",
    "required",
    "enum",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
)
SPECIAL = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "Quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "IntOrString",
    "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": "ObjectMeta",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Condition": "Condition",
}
"""Models that a CRD spells differently; `schema.py` knows how."""

_ATOMIC = {"x-kubernetes-map-type": "atomic"}
_QUALIFIED_NAME = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)
CORE = "io.k8s.api.core.v1."
CORRECTIONS: dict[str, dict[str, Any]] = {
    CORE + "ConfigMapEnvSource": _ATOMIC,
    CORE + "ConfigMapProjection": _ATOMIC,
    CORE + "ConfigMapVolumeSource": _ATOMIC,
    CORE + "SecretEnvSource": _ATOMIC,
    CORE + "SecretProjection": _ATOMIC,
    CORE + "AzureDiskVolumeSource": {"without defaults": ["cachingMode", "kind"]},
    CORE + "PortStatus": {
        "required": ["error", "port", "protocol"],
        "of error": {"maxLength": 316, "pattern": _QUALIFIED_NAME},
    },
}
"""What Kubernetes' types say in markers that its OpenAPI documents do not print."""


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    tree, release = Path(arguments[0]), arguments[1]
    definitions: dict[str, Any] = {}
    for name in DOCUMENTS:
        document = json.loads((tree / "api/openapi-spec/v3" / name).read_bytes())
        definitions |= document["components"]["schemas"]
    models = cut(definitions)
    OUTPUT.write_text(printed(release, models))
    print(f"{len(models)} models written to {OUTPUT}")
    return 0


def printed(release: str, models: dict[str, Any]) -> str:
    """One model to a line, so that a new release reads well as a diff."""
    lines = ",\n".join(
        f"{json.dumps(name)}: {json.dumps(model, sort_keys=True)}"
        for name, model in sorted(models.items())
    )
    head = f'"kubernetes": {json.dumps(release)},\n"roots": {json.dumps(ROOTS)}'
    return f'{{{head},\n"models": {{\n{lines}\n}}}}\n'


def cut(definitions: dict[str, Any]) -> dict[str, Any]:
    """The models that can be reached from the roots, each in our short form."""
    found: dict[str, Any] = {}
    waiting = sorted(ROOTS.values())
    while waiting:
        name = waiting.pop()
        if name in found or name in SPECIAL:
            continue
        found[name] = corrected(name, short(definitions[name], required=False))
        waiting += sorted(references(found[name]))
    return found


def corrected(name: str, model: dict[str, Any]) -> dict[str, Any]:
    for word, value in CORRECTIONS.get(name, {}).items():
        if word == "without defaults":
            for field in value:
                model["properties"][field].pop("default")
        elif word.startswith("of "):
            model["properties"][word.removeprefix("of ")] |= value
        else:
            model[word] = value
    return model


def short(schema: dict[str, Any], *, required: bool) -> dict[str, Any]:
    """Only what a structural schema may say. A default is kept where a field may be absent."""
    reference = schema.get("$ref") or next((one["$ref"] for one in schema.get("allOf", ())), "")
    kept = {word: schema[word] for word in KEPT if word in schema}
    if reference:
        name = reference.removeprefix("#/components/schemas/")
        kept["ref"] = SPECIAL.get(name, name)
    if not required and schema.get("default") not in (None, {}):
        kept["default"] = schema["default"]
    if "properties" in schema:
        needed = schema.get("required", ())
        kept["properties"] = {
            name: short(inner, required=name in needed)
            for name, inner in schema["properties"].items()
        }
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            kept[word] = short(schema[word], required=True)
    return kept


def references(schema: dict[str, Any]) -> set[str]:
    found = {schema["ref"]} if schema.get("ref", "").startswith("io.k8s.") else set()
    inner = [*schema.get("properties", {}).values()]
    inner += [schema[word] for word in ("items", "additionalProperties") if word in schema]
    return found.union(*(references(one) for one in inner))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
