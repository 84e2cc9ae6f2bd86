"""ReplicationControllers, PodTemplates and ControllerRevisions."""

from __future__ import annotations

from manta.localplane.apiserver.builtin_kinds.checks import rules
from manta.localplane.apiserver.builtin_kinds.checks.pods import check_template
from manta.localplane.apiserver.builtin_kinds.checks.rules import Causes, Json
from manta.localplane.apiserver.schema.causes import forbidden, invalid, not_supported, required


def check_replication_controller(controller: Json, old: Json | None) -> Causes:
    spec = controller.get("spec") or {}
    if old is not None and spec == old.get("spec"):
        return
    yield from rules.not_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
    selector = spec.get("selector") or {}
    if not selector:
        yield required("spec.selector")
    yield from rules.not_negative("spec.replicas", spec.get("replicas"))
    template = spec.get("template")
    if template is None:
        yield required("spec.template")
        return
    labels = (template.get("metadata") or {}).get("labels")
    if any((labels or {}).get(key) != value for key, value in selector.items()):
        detail = "`selector` does not match template `labels`"
        yield invalid("spec.template.metadata.labels", labels, detail)
    yield from check_template(template, "spec.template")
    pod = template.get("spec") or {}
    if pod.get("restartPolicy", "") != "Always":
        field = "spec.template.spec.restartPolicy"
        yield not_supported(field, pod.get("restartPolicy", ""), ("Always",))
    if pod.get("activeDeadlineSeconds") is not None:
        detail = "activeDeadlineSeconds in ReplicationController is not Supported"
        yield forbidden("spec.template.spec.activeDeadlineSeconds", detail)


def check_pod_template(template: Json, _: Json | None) -> Causes:
    yield from check_template(template.get("template") or {}, "template")


def check_controller_revision(revision: Json, old: Json | None) -> Causes:
    if revision.get("revision", 0) < 0:
        yield invalid("revision", revision["revision"], "must be greater than or equal to 0")
    data = revision.get("data")
    if old is not None:
        yield from rules.immutable("data", data, old.get("data"))
    elif data is None:
        yield required("data", "data is mandatory")
    elif not isinstance(data, dict):
        yield required("data", "data must be a valid JSON object")
