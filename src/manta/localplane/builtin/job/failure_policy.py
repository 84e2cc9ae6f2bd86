"""Pod failure policies: what the failure of a Pod means to its Job. Pure."""

from __future__ import annotations

from manta.localplane.builtin.views import ExitCodes, FailureRule, Job, Pod

FAIL_JOB, IGNORE, COUNT = "FailJob", "Ignore", "Count"


def meaning(job: Job, pod: Pod) -> tuple[str, str]:
    """The action of the first rule that matches a failed Pod, and why; Count where none does."""
    policy = job.spec.pod_failure_policy
    if policy is None or pod.status.phase != "Failed":
        return COUNT, ""
    for index, rule in enumerate(policy.rules or ()):
        why = _exit_code(rule, pod) or _condition(rule, pod)
        if why:
            return rule.action, f"{why} matching {rule.action} rule at index {index}"
    return COUNT, ""


def is_ignored(job: Job, pod: Pod) -> bool:
    return meaning(job, pod)[0] == IGNORE


def _exit_code(rule: FailureRule, pod: Pod) -> str:
    wanted = rule.on_exit_codes
    if wanted is None:
        return ""
    for status in (
        *(pod.status.container_statuses or ()),
        *(pod.status.init_container_statuses or ()),
    ):
        ended = status.state.terminated if status.state else None
        if ended is None or wanted.container_name not in (None, status.name):
            continue
        if _matches(wanted, ended.exit_code):
            return (
                f"Container {status.name} for pod {pod.metadata.key} failed with exit code "
                f"{ended.exit_code}"
            )
    return ""


def _matches(wanted: ExitCodes, code: int) -> bool:
    if code == 0:
        return False
    return (code in wanted.values) is (wanted.operator == "In")


def _condition(rule: FailureRule, pod: Pod) -> str:
    for pattern in rule.on_pod_conditions or ():
        found = pod.condition(pattern.type)
        if found is not None and found.status == pattern.status:
            return f"Pod {pod.metadata.key} has condition {pattern.type}"
    return ""
