"""StatefulSets, DaemonSets and CronJobs (U4), on our controllers and on the real ones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from support.contract import Api
from support.controllers import nodes, until

APPS, BATCH = "/apis/apps/v1", "/apis/batch/v1"
HASH = "controller-revision-hash"


def a_template(image: str, app: str) -> dict[str, Any]:
    return {
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [{"name": "c", "image": image}], "terminationGracePeriodSeconds": 0},
    }


async def pods(api: Api, app: str) -> list[dict[str, Any]]:
    """Those that stay, by name."""
    query = {"labelSelector": f"app={app}"}
    items: list[dict[str, Any]] = (await api.get(api.path("pods"), query=query)).body["items"]
    staying = [one for one in items if "deletionTimestamp" not in one["metadata"]]
    return sorted(staying, key=lambda one: str(one["metadata"]["name"]))


async def names(api: Api, app: str) -> list[str]:
    return [one["metadata"]["name"] for one in await pods(api, app)]


# ── StatefulSets ─────────────────────────────────────────────────────────────────────────
STATEFUL = "statefulsets"


def a_stateful_set(image: str = "v1", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "s"},
        "spec": {
            "serviceName": "peers",
            "selector": {"matchLabels": {"app": "s"}},
            "template": a_template(image, "s"),
            **spec,
        },
    }


async def stateful(api: Api, **wanted: Any) -> dict[str, Any]:
    """The status, as soon as it is about the present spec and bears these values."""
    found: dict[str, Any] = {}

    async def holds() -> bool:
        document = (await api.get(api.path(STATEFUL, "s", api=APPS))).body
        found.clear()
        found.update(document.get("status") or {})
        current = found.get("observedGeneration", 0) >= document["metadata"]["generation"]
        return current and all(found.get(name) == value for name, value in wanted.items())

    await until(holds)
    return dict(found)


async def images(api: Api) -> dict[str, str]:
    found = await pods(api, "s")
    return {one["metadata"]["name"]: one["spec"]["containers"][0]["image"] for one in found}


async def test_a_stateful_set_starts_its_pods_in_order_with_stable_names(api: Api) -> None:
    async with nodes(api):
        await api.made(api.path(STATEFUL, api=APPS), a_stateful_set(replicas=3))
        status = await stateful(api, readyReplicas=3, availableReplicas=3)
        revision = status["updateRevision"]
        assert status == {
            "observedGeneration": 1,
            "replicas": 3,
            "readyReplicas": 3,
            "availableReplicas": 3,
            "currentReplicas": 3,
            "updatedReplicas": 3,
            "currentRevision": revision,
            "updateRevision": revision,
            "collisionCount": 0,
        }
        found = await pods(api, "s")
        assert [one["metadata"]["name"] for one in found] == ["s-0", "s-1", "s-2"]
        second = found[1]
        assert (second["spec"]["hostname"], second["spec"]["subdomain"]) == ("s-1", "peers")
        labels = second["metadata"]["labels"]
        assert labels["statefulset.kubernetes.io/pod-name"] == "s-1"
        assert labels["apps.kubernetes.io/pod-index"] == "1"
        assert labels[HASH] == revision
        made = [one["metadata"]["creationTimestamp"] for one in found]
        assert made == sorted(made)


async def test_an_ordered_stateful_set_waits_for_a_pod_that_is_not_ready(api: Api) -> None:
    async with nodes(api):
        body = a_stateful_set(replicas=2)
        body["spec"]["template"]["spec"]["schedulerName"] = "nobody"
        await api.made(api.path(STATEFUL, api=APPS), body)
        await stateful(api, replicas=1)
        assert await names(api, "s") == ["s-0"]


async def test_a_parallel_stateful_set_waits_for_no_pod(api: Api) -> None:
    async with nodes(api):
        body = a_stateful_set(replicas=3, podManagementPolicy="Parallel")
        body["spec"]["template"]["spec"]["schedulerName"] = "nobody"
        await api.made(api.path(STATEFUL, api=APPS), body)
        await stateful(api, replicas=3)
        assert await names(api, "s") == ["s-0", "s-1", "s-2"]


async def test_a_stateful_set_scales_down_from_the_top_and_keeps_the_claims(api: Api) -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "none",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    async with nodes(api):
        body = a_stateful_set(
            replicas=2, podManagementPolicy="Parallel", volumeClaimTemplates=[claim]
        )
        await api.made(api.path(STATEFUL, api=APPS), body)
        await stateful(api, replicas=2)
        [volume] = [
            one
            for one in (await pods(api, "s"))[1]["spec"]["volumes"]
            if "persistentVolumeClaim" in one
        ]
        assert volume == {"name": "data", "persistentVolumeClaim": {"claimName": "data-s-1"}}
        await api.patch(api.path(STATEFUL, "s", api=APPS), {"spec": {"replicas": 1}})
        await stateful(api, replicas=1)
        assert await names(api, "s") == ["s-0"]
        claims = (await api.get(api.path("persistentvolumeclaims"))).body["items"]
        assert {one["metadata"]["name"] for one in claims} == {"data-s-0", "data-s-1"}


async def test_a_stateful_set_updates_the_pods_above_its_partition(api: Api) -> None:
    async with nodes(api):
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
        body = a_stateful_set(replicas=2, updateStrategy=strategy)
        await api.made(api.path(STATEFUL, api=APPS), body)
        first = await stateful(api, readyReplicas=2)
        path = api.path(STATEFUL, "s", api=APPS)
        await api.patch(path, {"spec": {"template": a_template("v2", "s")}})
        status = await stateful(api, readyReplicas=2, updatedReplicas=1, currentReplicas=1)
        assert status["currentRevision"] == first["currentRevision"] != status["updateRevision"]
        assert await images(api) == {"s-0": "v1", "s-1": "v2"}
        whole = {"rollingUpdate": {"partition": 0}}
        await api.patch(path, {"spec": {"updateStrategy": whole}})
        status = await stateful(
            api,
            readyReplicas=2,
            updatedReplicas=2,
            currentReplicas=2,
            currentRevision=status["updateRevision"],
        )
        assert await images(api) == {"s-0": "v2", "s-1": "v2"}
        stored = (await api.get(api.path("controllerrevisions", api=APPS))).body["items"]
        assert sorted(one["revision"] for one in stored) == [1, 2]


async def test_a_stateful_set_on_delete_updates_what_a_person_deletes(api: Api) -> None:
    async with nodes(api):
        body = a_stateful_set(replicas=2, updateStrategy={"type": "OnDelete"})
        await api.made(api.path(STATEFUL, api=APPS), body)
        await stateful(api, readyReplicas=2)
        change = {"spec": {"template": a_template("v2", "s")}}
        await api.patch(api.path(STATEFUL, "s", api=APPS), change)
        await stateful(api, readyReplicas=2)
        assert await images(api) == {"s-0": "v1", "s-1": "v1"}
        await api.delete(api.path("pods", "s-0"))
        await stateful(api, readyReplicas=2, updatedReplicas=1)
        assert await images(api) == {"s-0": "v2", "s-1": "v1"}


async def test_what_a_stateful_set_is_known_by_cannot_change(api: Api) -> None:
    await api.made(api.path(STATEFUL, api=APPS), a_stateful_set(replicas=0))
    path = api.path(STATEFUL, "s", api=APPS)
    answer = await api.patch(path, {"spec": {"serviceName": "others"}})
    assert answer.status == 422
    [cause] = answer.body["details"]["causes"]
    assert (cause["reason"], cause["field"]) == ("FieldValueForbidden", "spec")
    assert cause["message"] == (
        "Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', "
        "'template', 'updateStrategy', 'revisionHistoryLimit', "
        "'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
    )
    assert (await api.patch(path, {"spec": {"minReadySeconds": 3}})).status == 200


# ── DaemonSets ───────────────────────────────────────────────────────────────────────────
DAEMONS = "daemonsets"


def a_daemon_set(api: Api, image: str = "v1", **spec: Any) -> dict[str, Any]:
    """On the nodes of this test only: others may share the server."""
    template = a_template(image, "d")
    wanted = [f"{api.namespace}-{number}" for number in range(10)]
    terms = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
        for name in wanted
    ]
    required = {"nodeSelectorTerms": terms}
    template["spec"]["affinity"] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"app": "d"}}, "template": template, **spec},
    }


async def daemons(api: Api, **wanted: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}

    async def holds() -> bool:
        document = (await api.get(api.path(DAEMONS, "d", api=APPS))).body
        found.clear()
        found.update(document.get("status") or {})
        current = found.get("observedGeneration", 0) >= document["metadata"]["generation"]
        return current and all(found.get(name, 0) == value for name, value in wanted.items())

    await until(holds)
    return dict(found)


async def test_a_daemon_set_runs_one_pod_on_every_node_that_it_may_use(api: Api) -> None:
    async with nodes(api, 3) as fake:
        closed, *open_nodes = sorted(fake.options.names())
        taint = {"key": "example.com/closed", "value": "", "effect": "NoSchedule"}
        await api.patch(f"/api/v1/nodes/{closed}", {"spec": {"taints": [taint]}})
        await api.made(api.path(DAEMONS, api=APPS), a_daemon_set(api))
        status = await daemons(api, numberReady=2, numberAvailable=2)
        assert status == {
            "observedGeneration": 1,
            "currentNumberScheduled": 2,
            "desiredNumberScheduled": 2,
            "numberMisscheduled": 0,
            "numberReady": 2,
            "numberAvailable": 2,
            "updatedNumberScheduled": 2,
        }
        found = await pods(api, "d")
        assert sorted(one["spec"]["nodeName"] for one in found) == open_nodes
        await api.patch(f"/api/v1/nodes/{closed}", {"spec": {"taints": None}})
        await daemons(api, numberReady=3, desiredNumberScheduled=3)


async def test_a_daemon_set_replaces_the_pods_of_an_old_template(api: Api) -> None:
    async with nodes(api, 2):
        await api.made(api.path(DAEMONS, api=APPS), a_daemon_set(api))
        await daemons(api, numberReady=2, updatedNumberScheduled=2)
        change = {"spec": {"template": a_daemon_set(api, "v2")["spec"]["template"]}}
        await api.patch(api.path(DAEMONS, "d", api=APPS), change)
        await daemons(api, numberReady=2, updatedNumberScheduled=2, numberAvailable=2)
        found = await pods(api, "d")
        assert [one["spec"]["containers"][0]["image"] for one in found] == ["v2", "v2"]
        assert len({one["metadata"]["labels"][HASH] for one in found}) == 1


async def test_a_daemon_set_on_delete_leaves_old_pods(api: Api) -> None:
    async with nodes(api):
        body = a_daemon_set(api, updateStrategy={"type": "OnDelete"})
        await api.made(api.path(DAEMONS, api=APPS), body)
        await daemons(api, numberReady=1, updatedNumberScheduled=1)
        [before] = await names(api, "d")
        change = {"spec": {"template": a_daemon_set(api, "v2")["spec"]["template"]}}
        await api.patch(api.path(DAEMONS, "d", api=APPS), change)
        await daemons(api, numberReady=1, updatedNumberScheduled=0)
        assert await names(api, "d") == [before]
        await api.delete(api.path("pods", before))
        await daemons(api, numberReady=1, updatedNumberScheduled=1)


# ── CronJobs ─────────────────────────────────────────────────────────────────────────────
CRON = "cronjobs"


def a_cron_job(**spec: Any) -> dict[str, Any]:
    template = {
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
    }
    job = {"metadata": {"labels": {"app": "c"}}, "spec": {"template": template}}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "c"},
        "spec": {"schedule": "* * * * *", "jobTemplate": job, **spec},
    }


async def test_a_cron_job_starts_a_job_named_after_its_time(api: Api) -> None:
    """Each minute has its time: the test waits for the first."""
    async with nodes(api):
        await api.made(api.path(CRON, api=BATCH), a_cron_job(timeZone="Etc/UTC"))
        jobs: list[dict[str, Any]] = []

        async def started() -> bool:
            jobs[:] = (await api.get(api.path("jobs", api=BATCH))).body["items"]
            return bool(jobs)

        await until(started, 90)
        job = jobs[0]
        stamp = job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"]
        scheduled = datetime.fromisoformat(stamp)
        assert job["metadata"]["name"] == f"c-{int(scheduled.timestamp()) // 60}"
        assert job["metadata"]["labels"]["app"] == "c"
        assert datetime.now(UTC) - scheduled < timedelta(minutes=5)
        found: dict[str, Any] = {}

        async def succeeded() -> bool:
            document = (await api.get(api.path(CRON, "c", api=BATCH))).body
            found.update(document.get("status") or {})
            return "lastSuccessfulTime" in found

        await until(succeeded)
        assert datetime.fromisoformat(found["lastScheduleTime"]) == scheduled


async def test_an_unreadable_schedule_is_refused(api: Api) -> None:
    answer = await api.create(api.path(CRON, api=BATCH), a_cron_job(schedule="61 * * * *"))
    assert answer.status == 422
    [cause] = answer.body["details"]["causes"]
    assert cause["field"] == "spec.schedule"
    assert "end of range (61) above maximum (59): 61" in cause["message"]
