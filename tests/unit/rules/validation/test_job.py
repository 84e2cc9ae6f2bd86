"""Each rule of a RayJob has a case: what is wrong, where, what was found there, and the cure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from manta.api.ray.job import RayJob
from manta.rules.runtime_env import parse_runtime_env
from manta.rules.settings import Settings
from manta.rules.validation.job import lacks_entrypoint
from manta.rules.validation.violation import Violation
from manta.rules.validation.whole_job import job_violations
from support.raycluster import ray_cluster, template
from support.rayjob import a_job, ray_job

STRATEGY = "spec.deletionStrategy"
RULE = f"{STRATEGY}.deletionRules[0]"
SELECTOR = {"ray.io/cluster": "shared"}
SHUTDOWN = {"shutdownAfterJobFinishes": True}
FAILED = {"jobStatus": "FAILED"}


def cluster(**fields: Any) -> dict[str, Any]:
    return {"rayClusterSpec": ray_cluster(**fields)["spec"]}


def borrowed(**spec: Any) -> dict[str, Any]:
    return {"rayClusterSpec": None, "clusterSelector": SELECTOR, **spec}


def rules(*pairs: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    found = [{"policy": policy, "condition": condition} for policy, condition in pairs]
    return {"deletionStrategy": {"deletionRules": found}}


def legacy(success: str | None, failure: str | None) -> dict[str, Any]:
    ends = {"onSuccess": success, "onFailure": failure}
    return {"deletionStrategy": {key: {"policy": one} for key, one in ends.items() if one}}


# rule, spec, field that is named, what was found there, a word of the cure
CASES: list[tuple[str, dict[str, Any], str, Any, str]] = [
    ("RJ3", {"suspend": True}, "spec.suspend", True, "shutdownAfterJobFinishes: true"),
    (
        "RJ4",
        {"ttlSecondsAfterFinished": -1, **SHUTDOWN},
        "spec.ttlSecondsAfterFinished",
        -1,
        "negative",
    ),
    (
        "RJ5",
        {"ttlSecondsAfterFinished": 5},
        "spec.ttlSecondsAfterFinished",
        5,
        "shutdownAfterJobFinishes: true",
    ),
    (
        "RJ7",
        {**SHUTDOWN, **rules(("DeleteCluster", FAILED))},
        "spec.shutdownAfterJobFinishes",
        True,
        "DeleteCluster rule",
    ),
    (
        "RJ8",
        {
            "deletionStrategy": {
                **legacy("DeleteSelf", "DeleteSelf")["deletionStrategy"],
                **rules(("DeleteSelf", FAILED))["deletionStrategy"],
            }
        },
        STRATEGY,
        "(both)",
        "keep the rules",
    ),
    ("RJ9", {"deletionStrategy": {}}, STRATEGY, "(empty)", "set deletionRules"),
    ("RJ10", legacy("DeleteSelf", None), f"{STRATEGY}.onFailure.policy", None, "need a policy"),
    (
        "RJ11",
        {"deletionStrategy": {"onSuccess": {}, "onFailure": {"policy": "DeleteSelf"}}},
        f"{STRATEGY}.onSuccess.policy",
        None,
        "need a policy",
    ),
    (
        "RJ12 success",
        borrowed(**legacy("DeleteCluster", "DeleteNone")),
        f"{STRATEGY}.onSuccess.policy",
        "DeleteCluster",
        "never deleted",
    ),
    (
        "RJ12 failure",
        borrowed(**legacy("DeleteNone", "DeleteWorkers")),
        f"{STRATEGY}.onFailure.policy",
        "DeleteWorkers",
        "never deleted",
    ),
    (
        "RJ12 rule",
        borrowed(**rules(("DeleteCluster", FAILED))),
        f"{RULE}.policy",
        "DeleteCluster",
        "never deleted",
    ),
    (
        "RJ13",
        {**cluster(enableInTreeAutoscaling=True), **rules(("DeleteWorkers", FAILED))},
        f"{RULE}.policy",
        "DeleteWorkers",
        "use DeleteCluster",
    ),
    (
        "RJ14",
        {**SHUTDOWN, **legacy("DeleteNone", "DeleteSelf")},
        f"{STRATEGY}.onSuccess.policy",
        "DeleteNone",
        "contradicts",
    ),
    (
        "RJ15 neither",
        rules(("DeleteSelf", {})),
        f"{RULE}.condition",
        "(both or neither)",
        "exactly one",
    ),
    (
        "RJ15 both",
        rules(("DeleteSelf", {**FAILED, "jobDeploymentStatus": "Failed"})),
        f"{RULE}.condition",
        "(both or neither)",
        "exactly one",
    ),
    (
        "RJ16",
        rules(("DeleteSelf", {**FAILED, "ttlSeconds": -1})),
        f"{RULE}.condition.ttlSeconds",
        -1,
        "negative",
    ),
    (
        "RJ17",
        rules(("DeleteSelf", FAILED), ("DeleteSelf", FAILED)),
        f"{STRATEGY}.deletionRules[1]",
        "DeleteSelf",
        "keep one",
    ),
    (
        "RJ18",
        rules(
            ("DeleteCluster", {**FAILED, "ttlSeconds": 1}),
            ("DeleteWorkers", {**FAILED, "ttlSeconds": 9}),
        ),
        f"{STRATEGY}.deletionRules",
        9,
        "must not come after",
    ),
    (
        "S12: RJ18 without a rule between",
        rules(
            ("DeleteWorkers", {**FAILED, "ttlSeconds": 10}),
            ("DeleteSelf", {**FAILED, "ttlSeconds": 5}),
        ),
        f"{STRATEGY}.deletionRules",
        10,
        "must not come after",
    ),
    (
        "S12: a time to live without a shutdown",
        {"ttlSecondsAfterFinished": 5, **rules(("DeleteSelf", FAILED))},
        "spec.ttlSecondsAfterFinished",
        5,
        "shutdownAfterJobFinishes",
    ),
    (
        "RJ18 self",
        rules(
            ("DeleteCluster", {**FAILED, "ttlSeconds": 9}),
            ("DeleteSelf", {**FAILED, "ttlSeconds": 1}),
        ),
        f"{STRATEGY}.deletionRules",
        9,
        "must not come after",
    ),
    ("RJ19", borrowed(suspend=True, **SHUTDOWN), "spec.suspend", True, "not this RayJob's own"),
    ("RJ20", {"rayClusterSpec": None}, "spec.rayClusterSpec", None, "clusterSelector"),
    (
        "RJ21",
        {"rayClusterSpec": None, "clusterSelector": {"ray.io/cluster": ""}},
        "spec.clusterSelector",
        {"ray.io/cluster": ""},
        "the name of a RayCluster",
    ),
    (
        "RJ22",
        borrowed(submissionMode="SidecarMode"),
        "spec.submissionMode",
        "SidecarMode",
        "clusterSelector",
    ),
    ("RJ23", borrowed(backoffLimit=1), "spec.backoffLimit", 1, "clusterSelector"),
    (
        "RJ24",
        {"submissionMode": "InteractiveMode", "backoffLimit": 2},
        "spec.backoffLimit",
        2,
        "remove it",
    ),
    (
        "RJ25",
        {"submissionMode": "SidecarMode", "submitterPodTemplate": template()},
        "spec.submitterPodTemplate",
        "(set)",
        "use K8sJobMode",
    ),
    (
        "RJ26",
        {"submissionMode": "SidecarMode", "submitterConfig": {"backoffLimit": 1}},
        "spec.submitterConfig",
        "(set)",
        "use K8sJobMode",
    ),
    (
        "RJ27",
        {
            "submissionMode": "SidecarMode",
            **cluster(head={"template": template(restartPolicy="Always")}),
        },
        "spec.rayClusterSpec.headGroupSpec.template.spec.restartPolicy",
        "Always",
        "needs Never",
    ),
    (
        "RJ28",
        cluster(authOptions={"mode": "token", "enableK8sTokenAuth": True}),
        "spec.rayClusterSpec.authOptions.enableK8sTokenAuth",
        True,
        "token Secret",
    ),
    (
        "RJ29",
        cluster(head={"template": {}}),
        "spec.rayClusterSpec.headGroupSpec.template.spec.containers",
        [],
        "at least one container",
    ),
    ("RJ30", {"runtimeEnvYAML": "- a"}, "spec.runtimeEnvYAML", "- a", "map"),
    ("RJ31", {"activeDeadlineSeconds": 0}, "spec.activeDeadlineSeconds", 0, "positive"),
    ("RJ32", {"preRunningDeadlineSeconds": 0}, "spec.preRunningDeadlineSeconds", 0, "positive"),
    ("RJ33", {"backoffLimit": -1}, "spec.backoffLimit", -1, "negative"),
    (
        "a submitter without a container, found by the fuzzer",
        {"submitterPodTemplate": {"metadata": {"labels": {"a": "b"}}}},
        "spec.submitterPodTemplate.spec.containers",
        None,
        "remove submitterPodTemplate",
    ),
]


def violations(job: dict[str, Any], settings: Settings | None = None) -> tuple[Violation, ...]:
    decoded = msgspec.convert(job, RayJob)
    environment = parse_runtime_env(decoded.spec.runtime_env_yaml)
    return job_violations(decoded, environment, settings or Settings())


@pytest.mark.parametrize(
    ("rule", "spec", "field", "value", "cure"), CASES, ids=[one[0] for one in CASES]
)
def test_a_broken_rule_names_the_field_the_value_and_the_cure(
    rule: str, spec: dict[str, Any], field: str, value: Any, cure: str
) -> None:
    found = violations(ray_job(**spec))
    named = [one for one in found if one.field == field and cure in one.message]
    assert [one.value for one in named] == [value], found


def test_a_good_job_has_nothing_wrong() -> None:
    assert violations(ray_job()) == ()
    assert violations(ray_job("a" * 47, **borrowed())) == ()


@pytest.mark.parametrize(
    ("name", "cure"), [("a" * 48, "at most 47"), ("1a", "begin with a letter")], ids=["RJ1", "RJ2"]
)
def test_a_bad_name_is_reported(name: str, cure: str) -> None:
    [found] = violations(ray_job(name))
    assert (found.field, found.value) == ("metadata.name", name)
    assert cure in found.message


def test_rj6_a_deletion_strategy_needs_its_gate() -> None:
    on = Settings()
    off = replace(on, gates=replace(on.gates, ray_job_deletion_policy=False))
    job = ray_job(**rules(("DeleteSelf", FAILED)))
    assert violations(job, on) == ()
    [found] = violations(job, off)
    assert found.field == STRATEGY
    assert "RayJobDeletionPolicy" in found.message


def test_rj34_only_the_interactive_mode_waits() -> None:
    waiting = {"status": {"jobDeploymentStatus": "Waiting"}}
    [found] = violations({**ray_job(), **waiting})
    assert (found.field, found.value) == ("status.jobDeploymentStatus", "Waiting")
    interactive = ray_job(submissionMode="InteractiveMode", entrypoint="")
    assert violations({**interactive, **waiting}) == ()


def test_a_submitter_with_a_command_of_its_own_needs_no_entrypoint() -> None:
    own = template({"name": "c", "image": "i", "command": ["submit-it"]})
    assert not lacks_entrypoint(a_job(entrypoint="", submitterPodTemplate=own).spec)
    assert not lacks_entrypoint(a_job(entrypoint="", submissionMode="InteractiveMode").spec)


@pytest.mark.parametrize("mode", ["HTTPMode", "SidecarMode"])
def test_without_a_submitter_job_an_entrypoint_is_needed(mode: str) -> None:
    found = violations(ray_job(entrypoint="", submissionMode=mode))
    assert [one.field for one in found] == ["spec.entrypoint"]


def test_a_submitter_job_without_an_entrypoint_is_accepted_as_by_kuberay() -> None:
    """E2: it has nothing to submit, which is said elsewhere."""
    plain = template({"name": "c", "image": "i"})
    specs: list[dict[str, Any]] = [{}, {"submitterPodTemplate": plain}]
    for spec in specs:
        assert violations(ray_job(entrypoint="  ", **spec)) == ()
        assert lacks_entrypoint(a_job(entrypoint="  ", **spec).spec)
