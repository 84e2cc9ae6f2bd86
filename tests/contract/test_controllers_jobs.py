"""Indexed Jobs and pod failure policies, on our Job controller and on the real one."""

from __future__ import annotations

from typing import Any

from support.cluster_api import eventually
from support.contract import Api

INDEX = "batch.kubernetes.io/job-completion-index"
BATCH = "/apis/batch/v1"


def job(**spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i"}
    template = {
        "spec": {
            "containers": [container],
            "restartPolicy": "Never",
            "schedulerName": "nobody",
        }
    }
    return {"metadata": {"name": "j"}, "spec": {"template": template, **spec}}


async def pods(api: Api) -> list[dict[str, Any]]:
    query = {"labelSelector": "job-name=j"}
    items: list[dict[str, Any]] = (await api.get(api.path("pods"), query=query)).body["items"]
    return [one for one in items if "deletionTimestamp" not in one["metadata"]]


async def exactly(api: Api, count: int, phase: str = "Pending") -> list[dict[str, Any]]:
    async def found() -> list[dict[str, Any]]:
        waiting = [one for one in await pods(api) if one["status"]["phase"] == phase]
        return waiting if len(waiting) == count else []

    return await eventually(found)


def indexes(found: list[dict[str, Any]]) -> list[str]:
    return sorted(one["metadata"]["annotations"][INDEX] for one in found)


async def end(api: Api, one: dict[str, Any], phase: str, code: int = 0, **status: Any) -> None:
    ended = {
        "name": "c",
        "image": "i",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": {"terminated": {"exitCode": code}},
    }
    body = {"status": {"phase": phase, "containerStatuses": [ended], **status}}
    answer = await api.patch(api.path("pods", one["metadata"]["name"], "status"), body)
    assert answer.status == 200, answer.text


async def status_of(api: Api) -> dict[str, Any]:
    status: dict[str, Any] = (await api.get(api.path("jobs", "j", api=BATCH))).body.get("status")
    return status or {}


async def condition(api: Api, kind: str) -> dict[str, Any]:
    async def found() -> dict[str, Any] | None:
        conditions = (await status_of(api)).get("conditions") or ()
        return next((one for one in conditions if one["type"] == kind), None)

    reported = await eventually(found)
    assert reported is not None
    return reported


async def test_an_indexed_job_numbers_its_pods(cluster: Api) -> None:
    spec = job(completionMode="Indexed", completions=3, parallelism=2)
    await cluster.made(cluster.path("jobs", api=BATCH), spec)
    first, second = sorted(await exactly(cluster, 2), key=lambda one: one["spec"]["hostname"])
    assert indexes([first, second]) == ["0", "1"]
    assert first["metadata"]["labels"][INDEX] == "0"
    assert first["metadata"]["generateName"] == "j-0-"
    assert first["spec"]["hostname"] == "j-0"
    [variable] = first["spec"]["containers"][0]["env"]
    assert variable["name"] == "JOB_COMPLETION_INDEX"
    assert variable["valueFrom"]["fieldRef"]["fieldPath"] == f"metadata.labels['{INDEX}']"
    await end(cluster, second, "Succeeded")

    async def replaced() -> bool:
        waiting = [one for one in await pods(cluster) if one["status"]["phase"] == "Pending"]
        return indexes(waiting) == ["0", "2"]

    await eventually(replaced)

    async def counted() -> bool:  # the status follows the Pods
        status = await status_of(cluster)
        return (status.get("completedIndexes"), status.get("succeeded")) == ("1", 1)

    await eventually(counted)
    for one in await exactly(cluster, 2):
        await end(cluster, one, "Succeeded")
    await condition(cluster, "Complete")
    status = await status_of(cluster)
    assert (status["completedIndexes"], status["succeeded"]) == ("0-2", 3)


async def test_a_failed_index_is_tried_again_by_number(cluster: Api) -> None:
    spec = job(completionMode="Indexed", completions=2, parallelism=2, backoffLimit=3)
    await cluster.made(cluster.path("jobs", api=BATCH), spec)
    first, second = sorted(await exactly(cluster, 2), key=lambda one: one["spec"]["hostname"])
    await end(cluster, second, "Succeeded")
    await end(cluster, first, "Failed", 1)

    async def again() -> bool:
        waiting = [one for one in await pods(cluster) if one["status"]["phase"] == "Pending"]
        return indexes(waiting) == ["0"]

    await eventually(again, 60)

    async def counted() -> bool:
        status = await status_of(cluster)
        return (status.get("completedIndexes"), status.get("failed")) == ("1", 1)

    await eventually(counted)


def policy(*rules: dict[str, Any]) -> dict[str, Any]:
    return {"podFailurePolicy": {"rules": list(rules)}, "backoffLimit": 2}


FATAL = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
IGNORED = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
COUNTED = {"action": "Count", "onExitCodes": {"operator": "NotIn", "values": [1]}}


async def test_a_fatal_exit_code_ends_the_job(cluster: Api) -> None:
    await cluster.made(cluster.path("jobs", api=BATCH), job(**policy(IGNORED, FATAL)))
    [one] = await exactly(cluster, 1)
    await end(cluster, one, "Failed", 42)
    for kind in ("FailureTarget", "Failed"):
        reported = await condition(cluster, kind)
        assert reported["reason"] == "PodFailurePolicy"
        assert reported["message"] == (
            f"Container c for pod {cluster.namespace}/{one['metadata']['name']} failed with exit "
            "code 42 matching FailJob rule at index 1"
        )


async def test_an_ignored_failure_is_not_counted(cluster: Api) -> None:
    await cluster.made(cluster.path("jobs", api=BATCH), job(**policy(IGNORED, FATAL)))
    [one] = await exactly(cluster, 1)
    disrupted = [{"type": "DisruptionTarget", "status": "True"}]
    await end(cluster, one, "Failed", 42, conditions=disrupted)

    async def released() -> bool:
        body = (await cluster.get(cluster.path("pods", one["metadata"]["name"]))).body
        return "finalizers" not in body["metadata"]

    await eventually(released)
    status = await status_of(cluster)
    assert not status.get("failed")
    assert not [one for one in status.get("conditions") or () if one["type"] == "FailureTarget"]


async def test_what_no_rule_matches_is_counted(cluster: Api) -> None:
    await cluster.made(cluster.path("jobs", api=BATCH), job(**policy(FATAL, COUNTED)))
    [one] = await exactly(cluster, 1)
    await end(cluster, one, "Failed", 7)

    async def counted() -> bool:
        return (await status_of(cluster)).get("failed") == 1

    await eventually(counted)
