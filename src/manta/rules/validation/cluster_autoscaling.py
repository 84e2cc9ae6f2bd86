"""Rules of autoscaling: RC35 to RC41. What only warns (RC67) is in `advice`."""

from __future__ import annotations

from collections.abc import Iterator

from manta.api.ray import names
from manta.api.ray.cluster import AutoscalerVersion, RayClusterSpec
from manta.rules.traits import autoscaler_version, autoscaling, env_of, ray_container_of
from manta.rules.validation.violation import Violation


def autoscaling_violations(spec: RayClusterSpec, at: str) -> Iterator[Violation]:
    env = env_of(ray_container_of(spec.head_group_spec.template))
    chosen = env.get(names.ENV_ENABLE_AUTOSCALER_V2)
    field = f"{at}.headGroupSpec.template.spec.containers[0].env"
    if not autoscaling(spec):
        if chosen in ("1", "true"):
            cure = "has no effect while enableInTreeAutoscaling is off; set that, or remove this"
            yield Violation(field, names.ENV_ENABLE_AUTOSCALER_V2, cure)
    else:
        if chosen is not None and autoscaler_version(spec):
            cure = "remove it: spec.autoscalerOptions.version says which autoscaler runs"
            yield Violation(field, names.ENV_ENABLE_AUTOSCALER_V2, cure)
        yield from _suspended_groups(spec, at)
        if autoscaler_version(spec) == AutoscalerVersion.V2:
            yield from _restart_policies(spec, at)
    yield from _options(spec, at)


def _suspended_groups(spec: RayClusterSpec, at: str) -> Iterator[Violation]:
    for number, group in enumerate(spec.worker_group_specs):
        if group.suspend:
            cure = "a group cannot be suspended while the autoscaler resizes it"
            yield Violation(f"{at}.workerGroupSpecs[{number}].suspend", group.suspend, cure)


def _restart_policies(spec: RayClusterSpec, at: str) -> Iterator[Violation]:
    templates = {f"{at}.headGroupSpec": spec.head_group_spec.template}
    for number, group in enumerate(spec.worker_group_specs):
        templates[f"{at}.workerGroupSpecs[{number}]"] = group.template
    for where, template in templates.items():
        policy = (template.get("spec") or {}).get("restartPolicy") or ""
        if policy not in ("", "Never"):
            cure = "must be Never, or left out, with autoscaler v2"
            yield Violation(f"{where}.template.spec.restartPolicy", policy, cure)


def _options(spec: RayClusterSpec, at: str) -> Iterator[Violation]:
    options = spec.autoscaler_options
    if options is None:
        return
    idle = options.idle_timeout_seconds
    if idle is not None and idle < 0:
        field = f"{at}.autoscalerOptions.idleTimeoutSeconds"
        yield Violation(field, idle, "must be zero or more")
    if any(one.get("name") == names.ENV_AUTOSCALER_START_COMMAND for one in options.env):
        cure = "is set by the operator; to change the command use autoscalerOptions.command"
        yield Violation(f"{at}.autoscalerOptions.env", names.ENV_AUTOSCALER_START_COMMAND, cure)
