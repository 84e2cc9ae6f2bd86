"""The controllers behind the API: the same stories on the embedded plane and on Kubernetes.

On the embedded server our own controllers and scheduler run; on a real one kube-controller-manager
and kube-scheduler do. The nodes are our fake ones on both, so that Pods have a life.
"""

from __future__ import annotations

import json
import re
from typing import Any

from support.contract import Api, config_map
from support.controllers import nodes, until
from support.fakenodes import a_job_manifest, a_pod_manifest

APPS, BATCH, SLICES = "/apis/apps/v1", "/apis/batch/v1", "/apis/discovery.k8s.io/v1"


async def until_said(api: Api, path: str, condition: str, value: str = "True") -> dict[str, Any]:
    """The status of an object, as soon as it bears this condition."""
    found: dict[str, Any] = {}

    async def holds() -> bool:
        found.clear()
        found.update((await api.get(path)).body.get("status") or {})
        said = found.get("conditions") or ()
        return any(one["type"] == condition and one["status"] == value for one in said)

    await until(holds)
    return timeless(found)


def timeless(value: Any) -> Any:
    """The value without its times and UIDs."""
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME", json.dumps(value))
    return json.loads(re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID", text))


def said(type_: str, reason: str, message: str) -> dict[str, str]:
    return {
        "type": type_,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastProbeTime": "TIME",
        "lastTransitionTime": "TIME",
    }


# ── Jobs ─────────────────────────────────────────────────────────────────────────────────
async def test_a_job_completes_with_exactly_this_status(api: Api) -> None:
    async with nodes(api):
        job = a_job_manifest("j", completions=2, parallelism=2)
        await api.made(api.path("jobs", api=BATCH), job)
        status = await until_said(api, api.path("jobs", "j", api=BATCH), "Complete")
        words = ("CompletionsReached", "Reached expected number of succeeded pods")
        assert status == {
            "startTime": "TIME",
            "completionTime": "TIME",
            "succeeded": 2,
            "terminating": 0,
            "ready": 0,
            "uncountedTerminatedPods": {},
            "conditions": [said("SuccessCriteriaMet", *words), said("Complete", *words)],
        }
        pods = (await api.get(api.path("pods"))).body["items"]
        assert [one["metadata"].get("finalizers") for one in pods] == [None, None]


async def test_a_job_fails_with_exactly_this_status(api: Api) -> None:
    async with nodes(api):
        job = a_job_manifest("j", "exit=3@0.2", backoffLimit=0)
        await api.made(api.path("jobs", api=BATCH), job)
        status = await until_said(api, api.path("jobs", "j", api=BATCH), "Failed")
        words = ("BackoffLimitExceeded", "Job has reached the specified backoff limit")
        assert status == {
            "startTime": "TIME",
            "failed": 1,
            "terminating": 0,
            "ready": 0,
            "uncountedTerminatedPods": {},
            "conditions": [said("FailureTarget", *words), said("Failed", *words)],
        }


async def test_a_job_is_suspended_and_resumed(api: Api) -> None:
    async with nodes(api):
        path = api.path("jobs", "j", api=BATCH)
        await api.made(api.path("jobs", api=BATCH), a_job_manifest("j", suspend=True))
        status = await until_said(api, path, "Suspended")
        assert status.get("startTime") is None
        await api.patch(path, {"spec": {"suspend": False}})
        status = await until_said(api, path, "Complete")
        first = status["conditions"][0]
        assert (first["type"], first["status"], first["reason"]) == (
            "Suspended",
            "False",
            "JobResumed",
        )


# ── Deployments ──────────────────────────────────────────────────────────────────────────
def a_deployment(image: str, **spec: Any) -> dict[str, Any]:
    template = {
        "metadata": {"labels": {"app": "d"}},
        "spec": {"containers": [{"name": "c", "image": image}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"app": "d"}}, "template": template, **spec},
    }


async def rolled_out(api: Api, replicas: int) -> dict[str, Any]:
    found: dict[str, Any] = {}

    async def holds() -> bool:
        found.clear()
        found.update((await api.get(api.path("deployments", "d", api=APPS))).body)
        status = found.get("status") or {}
        seen = status.get("observedGeneration", 0) >= found["metadata"]["generation"]
        counts = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
        done = any(
            one["reason"] == "NewReplicaSetAvailable" for one in status.get("conditions") or ()
        )
        return seen and done and all(status.get(name) == replicas for name in counts)

    await until(holds)
    return found


async def test_a_deployment_rolls_over_with_a_new_revision(api: Api) -> None:
    async with nodes(api):
        await api.made(api.path("deployments", api=APPS), a_deployment("v1", replicas=2))
        first = await rolled_out(api, 2)
        reported = {
            one["type"]: (one["status"], one["reason"]) for one in first["status"]["conditions"]
        }
        assert reported == {
            "Available": ("True", "MinimumReplicasAvailable"),
            "Progressing": ("True", "NewReplicaSetAvailable"),
        }
        change = {"spec": {"template": a_deployment("v2")["spec"]["template"]}}
        await api.patch(api.path("deployments", "d", api=APPS), change)
        second = await rolled_out(api, 2)
        revision = "deployment.kubernetes.io/revision"
        assert second["metadata"]["annotations"][revision] == "2"
        sets = (await api.get(api.path("replicasets", api=APPS))).body["items"]
        sizes = {one["metadata"]["annotations"][revision]: one["spec"]["replicas"] for one in sets}
        assert sizes == {"1": 0, "2": 2}


# ── Services ─────────────────────────────────────────────────────────────────────────────
async def test_endpoints_tell_ready_from_leaving(api: Api) -> None:
    async with nodes(api):
        spec = {"selector": {"app": "p"}, "ports": [{"port": 80, "targetPort": "web"}]}
        await api.made(api.path("services"), {"metadata": {"name": "s"}, "spec": spec})
        port = {"ports": [{"name": "web", "containerPort": 8080}]}
        await api.made(api.path("pods"), a_pod_manifest("p", "stop=30", container=port))
        found: list[Any] = []

        async def shows(ready: bool) -> bool:
            listed = (await api.get(api.path("endpointslices", api=SLICES))).body["items"]
            found[:] = [
                (end["conditions"], one["ports"])
                for one in listed
                for end in one.get("endpoints") or ()
            ]
            return bool(found) and found[0][0]["ready"] is ready

        await until(lambda: shows(True))
        assert found == [
            (
                {"ready": True, "serving": True, "terminating": False},
                [{"name": "", "port": 8080, "protocol": "TCP"}],
            )
        ]
        await api.delete(api.path("pods", "p"))
        await until(lambda: shows(False))
        assert found[0][0] == {"ready": False, "serving": True, "terminating": True}
        await api.delete(api.path("pods", "p"), {"gracePeriodSeconds": 0})


# ── the scheduler ────────────────────────────────────────────────────────────────────────
async def test_a_pod_that_fits_nowhere_says_why(api: Api) -> None:
    async with nodes(api, 2):
        greedy = {"resources": {"requests": {"cpu": "100"}}}
        await api.made(api.path("pods"), a_pod_manifest("p", container=greedy))
        status = await until_said(api, api.path("pods", "p"), "PodScheduled", "False")
        [condition] = status["conditions"]
        assert condition["reason"] == "Unschedulable"
        assert condition["message"] == (
            "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: "
            "0/2 nodes are available: 2 Preemption is not helpful for scheduling."
        )


# ── the garbage collector ────────────────────────────────────────────────────────────────
async def family(api: Api, *, block: bool = True, hold: bool = False) -> None:
    """An owner and its child."""
    owner = await api.made(api.path("configmaps"), config_map("owner"))
    ref = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": block,
    }
    held: dict[str, Any] = {"finalizers": ["example.com/hold"]} if hold else {}
    await api.made(api.path("configmaps"), config_map("child", ownerReferences=[ref], **held))


async def test_children_follow_an_owner_deleted_in_the_background(api: Api) -> None:
    async with nodes(api):
        await family(api)
        await api.delete(api.path("configmaps", "owner"), {"propagationPolicy": "Background"})
        await api.until_gone(api.path("configmaps", "child"))


async def test_an_owner_deleted_in_the_foreground_waits(api: Api) -> None:
    async with nodes(api):
        await family(api, hold=True)
        await api.delete(api.path("configmaps", "owner"), {"propagationPolicy": "Foreground"})

        async def child_is_leaving() -> bool:
            child = (await api.get(api.path("configmaps", "child"))).body
            return "deletionTimestamp" in child["metadata"]

        await until(child_is_leaving)
        owner = (await api.get(api.path("configmaps", "owner"))).body
        assert owner["metadata"]["finalizers"] == ["foregroundDeletion"]
        await api.patch(api.path("configmaps", "child"), {"metadata": {"finalizers": None}})
        await api.until_gone(api.path("configmaps", "owner"))


async def test_orphans_forget_their_owner(api: Api) -> None:
    async with nodes(api):
        await family(api)
        await api.delete(api.path("configmaps", "owner"), {"propagationPolicy": "Orphan"})
        await api.until_gone(api.path("configmaps", "owner"))
        child = (await api.get(api.path("configmaps", "child"))).body
        assert "ownerReferences" not in child["metadata"]


# ── quotas ───────────────────────────────────────────────────────────────────────────────
async def test_a_quota_tells_what_is_used(api: Api) -> None:
    async with nodes(api):
        hard = {"pods": "3", "requests.cpu": "2", "services": "2", "count/jobs.batch": "4"}
        quota = {"metadata": {"name": "q"}, "spec": {"hard": hard}}
        await api.made(api.path("resourcequotas"), quota)

        async def used(wanted: dict[str, str]) -> bool:
            status = (await api.get(api.path("resourcequotas", "q"))).body.get("status") or {}
            return bool(status.get("hard") == hard and status.get("used") == wanted)

        nothing = {"pods": "0", "requests.cpu": "0", "services": "0", "count/jobs.batch": "0"}
        await until(lambda: used(nothing))
        asking = {"resources": {"requests": {"cpu": "500m"}}}
        await api.made(api.path("pods"), a_pod_manifest("p", container=asking))
        await until(lambda: used({**nothing, "pods": "1", "requests.cpu": "500m"}))
        await api.delete(api.path("pods", "p"))
        await until(lambda: used(nothing))
