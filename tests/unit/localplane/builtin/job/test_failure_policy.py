"""What the failure of a Pod means to its Job."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from manta.localplane.builtin.job.failure_policy import is_ignored, meaning
from manta.localplane.builtin.views import Job, Pod


def a_job(*rules: dict[str, Any]) -> Job:
    spec = {"podFailurePolicy": {"rules": list(rules)}} if rules else {}
    return msgspec.convert({"metadata": {"name": "j"}, "spec": spec}, Job)


def a_pod(code: int = 1, phase: str = "Failed", condition: str = "") -> Pod:
    ended = {"name": "c", "state": {"terminated": {"exitCode": code}}}
    conditions = [{"type": condition, "status": "True"}] if condition else []
    status = {"phase": phase, "containerStatuses": [ended], "conditions": conditions}
    return msgspec.convert({"metadata": {"name": "p", "namespace": "n"}, "status": status}, Pod)


def codes(action: str, operator: str, *values: int, container: str | None = None) -> dict[str, Any]:
    wanted: dict[str, Any] = {"operator": operator, "values": list(values)}
    if container:
        wanted["containerName"] = container
    return {"action": action, "onExitCodes": wanted}


@pytest.mark.parametrize(
    ("rules", "pod", "action"),
    [
        ((), a_pod(), "Count"),
        ((codes("FailJob", "In", 1),), a_pod(1), "FailJob"),
        ((codes("FailJob", "In", 2),), a_pod(1), "Count"),
        ((codes("Ignore", "NotIn", 2),), a_pod(1), "Ignore"),
        ((codes("Ignore", "NotIn", 2),), a_pod(0), "Count"),
        ((codes("FailJob", "In", 1, container="d"),), a_pod(1), "Count"),
        ((codes("Ignore", "In", 1), codes("FailJob", "In", 1)), a_pod(1), "Ignore"),
        ((codes("FailJob", "In", 1),), a_pod(1, "Running"), "Count"),
        (
            ({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},),
            a_pod(condition="DisruptionTarget"),
            "Ignore",
        ),
    ],
)
def test_the_first_rule_that_matches_decides(
    rules: tuple[dict[str, Any], ...], pod: Pod, action: str
) -> None:
    assert meaning(a_job(*rules), pod)[0] == action
    assert is_ignored(a_job(*rules), pod) is (action == "Ignore")


def test_the_message_names_container_code_and_rule() -> None:
    rules = (codes("Ignore", "In", 9), codes("FailJob", "In", 42))
    assert meaning(a_job(*rules), a_pod(42))[1] == (
        "Container c for pod n/p failed with exit code 42 matching FailJob rule at index 1"
    )
