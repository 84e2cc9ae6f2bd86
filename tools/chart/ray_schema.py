"""The schemas of the charts ray-cluster, ray-service and ray-job, from the types of the CRDs.

A field that the API server would drop without a word, because no CRD has it, is an error here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from manta.api.ray.cluster import HeadGroupSpec, RayClusterSpec
from manta.api.ray.cronjob import RayCronJobSpec
from manta.api.ray.job import RayJobSpec, SubmissionMode
from manta.api.ray.names import MANAGED_BY_MULTIKUEUE, MANAGED_BY_OPERATOR
from manta.api.ray.service import RayServiceSpec, ServiceUpgradeType
from tools.chart.values import values_schema
from tools.crds.schema import MODELS, SPECIAL, Dialect, struct_schema

Json = dict[str, Any]

_TEXT: Json = {"type": "string"}
_FLAG: Json = {"type": "boolean"}
_COUNT: Json = {"type": "integer", "minimum": 0}
_OPTIONAL_COUNT: Json = {"type": ["integer", "null"], "minimum": 0}
_TEXTS: Json = {"type": "object", "additionalProperties": _TEXT}
_SCALARS: Json = {
    "type": "object",
    "additionalProperties": {"type": ["string", "number", "boolean"]},
}
_DOCUMENT: Json = {"type": ["string", "object", "null"]}
_KIND = {"type": "string", "enum": ["", MANAGED_BY_OPERATOR, MANAGED_BY_MULTIKUEUE]}
_IMAGE: Json = {
    "type": "object",
    "properties": {
        "repository": _TEXT,
        "tag": _TEXT,
        "pullPolicy": {"type": "string", "enum": ["IfNotPresent", "Always", "Never"]},
    },
    "additionalProperties": False,
}
_WORDS = ("type", "enum", "minimum", "minItems", "minLength", "required", "pattern", "description")
"""What a JSON schema keeps of a structural one."""

IN_CONTAINER = (
    *("command", "args", "envFrom", "volumeMounts", "ports", "resources", "lifecycle"),
    "securityContext",
)
IN_POD = (
    *("initContainers", "volumes", "dnsConfig", "nodeSelector", "affinity", "tolerations"),
    *("topologySpreadConstraints", "restartPolicy", "runtimeClassName", "serviceAccountName"),
    *("resourceClaims", "priorityClassName"),
)
"""Values of a head or worker group that are fields of the Ray container, and of the Pod."""


# ── from structural schemas to JSON schemas ──────────────────────────────────────────────


def closed(schema: Mapping[str, Any]) -> Json:
    """As a JSON schema that takes no unknown field; models of Kubernetes become references."""
    if "ref" in schema:
        return _reference(schema["ref"])
    if schema.get("x-kubernetes-int-or-string"):
        kept = {word: schema[word] for word in ("pattern", "description") if word in schema}
        return {"type": ["integer", "string"], **kept}
    made = {word: schema[word] for word in _WORDS if word in schema}
    if "properties" in schema:
        made["properties"] = {name: closed(one) for name, one in schema["properties"].items()}
        made["additionalProperties"] = False
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), Mapping):
            made[word] = closed(schema[word])
    return made


def _reference(name: str) -> Json:
    if name in ("Quantity", "IntOrString"):
        return closed(SPECIAL[name])
    return {"$ref": f"#/definitions/{name.rpartition('.')[2]}"}


def definitions(schema: Json) -> Json:
    """The models that a schema refers to, each under its short name."""
    by_name = {full.rpartition(".")[2]: one for full, one in MODELS["models"].items()} | SPECIAL
    assert len(by_name) == len(MODELS["models"]) + len(SPECIAL), "two models share a short name"
    found: Json = {}
    waiting = sorted(_names(schema))
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = closed(by_name[name])
            waiting += sorted(_names(found[name]))
    return dict(sorted(found.items()))


def _names(node: Any) -> Iterator[str]:
    match node:
        case {"$ref": str(reference)}:
            yield reference.rpartition("/")[2]
        case dict():
            for one in node.values():
                yield from _names(one)
        case list():
            for one in node:
                yield from _names(one)
        case _:
            return


# ── the values ───────────────────────────────────────────────────────────────────────────


def _model(name: str) -> Json:
    found: Json = MODELS["models"][f"io.k8s.api.core.v1.{name}"]
    return found


def _without_required(model: str) -> Json:
    """For fields that are merged into an object of the chart."""
    return {word: one for word, one in closed(_model(model)).items() if word != "required"}


def _group() -> Json:
    container, pod = _model("Container")["properties"], _model("PodSpec")["properties"]
    return {
        **{name: closed(container[name]) for name in IN_CONTAINER},
        **{name: closed(pod[name]) for name in IN_POD},
        "containerEnv": closed(container["env"]),
        "sidecarContainers": closed(pod["containers"]),
        "podSecurityContext": closed(pod["securityContext"]),
        "priority": {"type": ["integer", "null"]},
        "image": _IMAGE,
        **dict.fromkeys(("rayStartParams", "initArgs", "rayResources", "rayLabels"), _SCALARS),
        **dict.fromkeys(("labels", "annotations"), _TEXTS),
        "podSpec": _without_required("PodSpec"),
        "containerSpec": _without_required("Container"),
    }


def _worker() -> Json:
    counts = dict.fromkeys(("replicas", "minReplicas", "maxReplicas", "numOfHosts"), _COUNT)
    optional = dict.fromkeys(("idleTimeoutSeconds", "upscalingPriority"), _OPTIONAL_COUNT)
    return {**_group(), **counts, **optional, "disabled": _FLAG, "suspend": _FLAG}


def _cluster() -> Json:
    """The values that all three charts share, by their paths."""
    spec = _fields(RayClusterSpec)
    head = _fields(HeadGroupSpec)
    gcs = spec["gcsFaultToleranceOptions"]["properties"]
    worker = {"type": "object", "properties": _worker(), "additionalProperties": False}
    of_spec = (
        *("authOptions", "tlsOptions", "networkPolicy", "historyServerOptions"),
        *("gcsFaultToleranceOptions", "headServiceAnnotations"),
    )
    return {
        "image.pullPolicy": _IMAGE["properties"]["pullPolicy"],
        "imagePullSecrets": closed(_model("PodSpec")["properties"]["imagePullSecrets"]),
        "common.containerEnv": closed(_model("Container")["properties"]["env"]),
        **{name: spec[name] for name in of_spec},
        **{f"gcsFaultTolerance.{name}": gcs[name] for name in ("redisUsername", "redisPassword")},
        "head.autoscalerOptions": spec["autoscalerOptions"],
        "head.headService": _reference("Service"),
        "head.ingressOptions": head["ingressOptions"],
        **{f"head.{name}": one for name, one in _group().items()},
        **{f"worker.{name}": one for name, one in _worker().items()},
        "additionalWorkerGroups": {"type": "object", "additionalProperties": worker},
        **dict.fromkeys(("labels", "annotations"), _TEXTS),
        "managedBy": _KIND,
    }


def _fields(struct: type) -> Json:
    schema = struct_schema(struct, Dialect())
    return {name: closed(one) for name, one in schema["properties"].items()}


def _service() -> Json:
    spec = _fields(RayServiceSpec)
    strategy = spec["upgradeStrategy"]
    strategy["properties"]["type"]["enum"] = list(ServiceUpgradeType)
    return {
        "serveConfigV2": _DOCUMENT,
        "upgradeStrategy": strategy,
        "serveService": _reference("Service"),
        "rayClusterDeletionDelaySeconds": _OPTIONAL_COUNT,
    }


def _job() -> Json:
    spec = _fields(RayJobSpec)
    counts = ("activeDeadlineSeconds", "preRunningDeadlineSeconds")
    limits = ("successfulJobsHistoryLimit", "failedJobsHistoryLimit")
    assert set(limits) <= set(_fields(RayCronJobSpec)), "a limit is no field of a RayCronJob"
    return {
        **{name: spec[name] for name in ("metadata", "clusterSelector", "submitterConfig")},
        "runtimeEnvYAML": _DOCUMENT,
        "entrypointResources": _DOCUMENT,
        "submissionMode": {"type": "string", "enum": list(SubmissionMode)},
        **{name: spec[name] for name in ("entrypointNumCpus", "entrypointNumGpus")},
        "submitterPodTemplate": _reference("PodTemplateSpec"),
        "deletionStrategy": spec["deletionStrategy"],
        **dict.fromkeys(("backoffLimit", "ttlSecondsAfterFinished"), _COUNT),
        **dict.fromkeys((*counts, *limits), _OPTIONAL_COUNT),
    }


def _known(chart: str) -> Json:
    match chart:
        case "ray-cluster":
            own = {"upgradeStrategy": _fields(RayClusterSpec)["upgradeStrategy"]}
        case "ray-service":
            own = _service()
        case _:
            own = _job()
    return {**_cluster(), **own}


def ray_schema(chart: str, values: str) -> str:
    """The schema of one of the three charts, with one definition to a line."""
    schema = values_schema(values, _known(chart))
    lines = [f"{json.dumps(name)}: {json.dumps(one)}" for name, one in definitions(schema).items()]
    head = json.dumps(schema, indent=1).removesuffix("\n}")
    return f'{head},\n "definitions": {{\n' + ",\n".join(lines) + "\n }\n}\n"
