"""What a namespace demands of new and growing objects: LimitRanges and quotas, on both servers."""

from __future__ import annotations

from typing import Any

from support.cluster_api import eventually
from support.contract import STRATEGIC, Api, pod


def asking(name: str, **resources: Any) -> dict[str, Any]:
    return pod(
        name,
        containers=[{"name": "c", "image": "i", "resources": resources}],
        schedulerName="nobody",
    )


async def limited(api: Api, *limits: dict[str, Any]) -> None:
    body = {"metadata": {"name": "l"}, "spec": {"limits": list(limits)}}
    await api.made(api.path("limitranges"), body)
    if (
        not api.embedded and "default" in limits[0]
    ):  # the real server sees a new LimitRange a moment later
        await eventually(lambda: _is_filled_in(api), 40)


async def _is_filled_in(api: Api) -> bool:
    body = asking("probe", requests={"cpu": "250m"}, limits={"cpu": "250m"})
    answer = await api.create(api.path("pods"), body, query={"dryRun": "All"})
    return bool(
        answer.status != 201
        or "memory" in (answer.body["spec"]["containers"][0]["resources"].get("limits") or {})
    )


CONTAINER = {
    "type": "Container",
    "default": {"cpu": "500m", "memory": "512Mi"},
    "defaultRequest": {"cpu": "250m"},
    "min": {"cpu": "100m"},
    "max": {"cpu": "2", "memory": "1Gi"},
    "maxLimitRequestRatio": {"cpu": "4"},
}


async def test_a_limit_range_fills_in_what_containers_do_not_say(cluster: Api) -> None:
    await limited(cluster, CONTAINER)
    made = await cluster.made(cluster.path("pods"), asking("a"))
    assert made["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "500m", "memory": "512Mi"},
        "requests": {"cpu": "250m", "memory": "512Mi"},
    }
    assert made["metadata"]["annotations"] == {
        "kubernetes.io/limit-ranger": (
            "LimitRanger plugin set: cpu, memory request for container c; "
            "cpu, memory limit for container c"
        )
    }
    assert made["status"]["qosClass"] == "Burstable"
    owned = [one["fieldsV1"] for one in made["metadata"]["managedFields"]]
    assert "f:annotations" not in str(owned), "nobody owns what the server fills in"
    said = {"requests": {"cpu": "1", "memory": "1Mi"}, "limits": {"cpu": "1", "memory": "1Mi"}}
    made = await cluster.made(cluster.path("pods"), asking("b", **said))
    assert made["spec"]["containers"][0]["resources"] == said
    assert "annotations" not in made["metadata"]


async def test_a_limit_range_bounds_containers(cluster: Api) -> None:
    await limited(cluster, CONTAINER)
    for resources, wanted in (
        (
            {"limits": {"cpu": "3"}},
            "maximum cpu usage per Container is 2, but limit is 3",
        ),
        (
            {"requests": {"cpu": "50m"}, "limits": {"cpu": "50m"}},
            "minimum cpu usage per Container is 100m, but request is 50m",
        ),
        (
            {"requests": {"cpu": "100m"}, "limits": {"cpu": "1"}},
            "cpu max limit to request ratio per Container is 4, but provided ratio is 10.000000",
        ),
    ):
        answer = await cluster.create(cluster.path("pods"), asking("p", **resources))
        assert (answer.status, answer.reason) == (403, "Forbidden")
        assert answer.message == f'pods "p" is forbidden: {wanted}'
    both = {"limits": {"cpu": "3", "memory": "2Gi"}}
    answer = await cluster.create(cluster.path("pods"), asking("p", **both))
    head, _, rest = answer.message.partition("[")
    assert head == 'pods "p" is forbidden: '
    assert set(rest.rstrip("]").split(", maximum ")) == {
        "maximum cpu usage per Container is 2, but limit is 3",
        "memory usage per Container is 1Gi, but limit is 2Gi",
    } or set(rest.rstrip("]").split(", maximum ")) == {
        "maximum memory usage per Container is 1Gi, but limit is 2Gi",
        "cpu usage per Container is 2, but limit is 3",
    }


async def test_a_limit_range_bounds_pods_and_claims(cluster: Api) -> None:
    await limited(
        cluster,
        {"type": "Pod", "max": {"cpu": "1"}},
        {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}},
    )

    async def seen() -> bool:
        return (await cluster.create(cluster.path("pods"), asking("a"))).status == 403

    await eventually(seen, 40)
    answer = await cluster.create(cluster.path("pods"), asking("a"))
    assert answer.message.endswith("maximum cpu usage per Pod is 1.  No limit is specified")
    containers = [
        {"name": name, "image": "i", "resources": {"limits": {"cpu": "600m"}}} for name in "cd"
    ]
    answer = await cluster.create(cluster.path("pods"), pod("a", containers=containers))
    assert answer.message.endswith("maximum cpu usage per Pod is 1, but limit is 1200m")

    def claim(storage: str) -> dict[str, Any]:
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": storage}},
        }
        return {"metadata": {"name": "c"}, "spec": spec}

    where = cluster.path("persistentvolumeclaims")
    answer = await cluster.create(where, claim("500Mi"))
    assert answer.message == (
        'persistentvolumeclaims "c" is forbidden: minimum storage usage per PersistentVolumeClaim '
        "is 1Gi, but request is 500Mi"
    )
    answer = await cluster.create(where, claim("3Gi"))
    assert answer.message.endswith(
        "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"
    )
    await cluster.made(where, claim("1Gi"))


async def test_a_limit_range_that_contradicts_itself_is_refused(api: Api) -> None:
    item = {"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}}
    body = {"metadata": {"name": "l"}, "spec": {"limits": [item]}}
    answer = await api.create(api.path("limitranges"), body)
    assert (answer.status, answer.reason) == (422, "Invalid")
    assert ("spec.limits[0].min[cpu]", "FieldValueInvalid") in answer.causes


async def test_a_quota_bounds_what_grows(cluster: Api) -> None:
    spec = {"hard": {"services.nodeports": "1", "requests.cpu": "1"}}
    await cluster.made(cluster.path("resourcequotas"), {"metadata": {"name": "q"}, "spec": spec})

    async def used() -> dict[str, str]:
        body = (await cluster.get(cluster.path("resourcequotas", "q"))).body
        return dict(body.get("status", {}).get("used", {}))

    async def counted(**wanted: str) -> bool:
        return {key.replace("_", "."): value for key, value in wanted.items()}.items() <= (
            await used()
        ).items()

    await eventually(lambda: counted(services_nodeports="0", requests_cpu="0"))
    for name in "ab":
        ports = [{"port": 80}]
        body = {"metadata": {"name": name}, "spec": {"ports": ports}}
        await cluster.made(cluster.path("services"), body)
    change = {"spec": {"type": "NodePort"}}
    assert (await cluster.patch(cluster.path("services", "a"), change)).status == 200
    await eventually(lambda: counted(services_nodeports="1"))
    answer = await cluster.patch(cluster.path("services", "b"), change)
    assert answer.status == 403
    assert answer.message == (
        'services "b" is forbidden: exceeded quota: q, requested: services.nodeports=1, used: '
        "services.nodeports=1, limited: services.nodeports=1"
    )
    back = await cluster.patch(cluster.path("services", "a"), {"spec": {"type": "ClusterIP"}})
    assert back.status == 200
    await eventually(lambda: counted(services_nodeports="0"))
    await cluster.made(cluster.path("pods"), asking("p", requests={"cpu": "600m"}))
    more = [{"name": "c", "resources": {"requests": {"cpu": "1100m"}}}]
    answer = await cluster.patch(
        cluster.path("pods", "p", "resize"), {"spec": {"containers": more}}, STRATEGIC
    )
    assert answer.status == 403
    assert answer.message == (
        'pods "p" is forbidden: exceeded quota: q, requested: requests.cpu=500m, used: '
        "requests.cpu=600m, limited: requests.cpu=1"
    )


async def test_claims_in_use_stay_until_they_are_free(cluster: Api) -> None:
    where = cluster.path("persistentvolumeclaims")
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    made = await cluster.made(where, {"metadata": {"name": "c"}, "spec": spec})
    assert made["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    await cluster.made(cluster.path("pods"), pod("p", volumes=volumes, nodeName="elsewhere"))
    answer = await cluster.delete(f"{where}/c")
    assert answer.body["metadata"]["deletionTimestamp"]
    assert (await cluster.get(f"{where}/c")).status == 200
    await cluster.delete(cluster.path("pods", "p"), query={"gracePeriodSeconds": "0"})
    await cluster.until_gone(f"{where}/c")


async def test_a_volume_stays_while_a_claim_holds_it(cluster: Api) -> None:
    where, name = "/api/v1/persistentvolumes", f"v-{cluster.namespace}"
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/x"},
        "storageClassName": "none",
    }
    made = await cluster.made(where, {"metadata": {"name": name}, "spec": spec})
    assert made["metadata"]["finalizers"] == ["kubernetes.io/pv-protection"]
    await cluster.delete(f"{where}/{name}")
    await cluster.until_gone(f"{where}/{name}")


async def test_a_status_does_not_count_as_a_new_generation(api: Api) -> None:
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    spec = {
        "replicas": 0,
        "paused": True,
        "selector": {"matchLabels": {"a": "b"}},
        "template": template,
    }
    where = api.path("deployments", api="/apis/apps/v1")
    await api.made(where, {"metadata": {"name": "d"}, "spec": spec})
    patch = {"metadata": {"annotations": {"x": "y"}}, "status": {"observedGeneration": 1}}
    answer = await api.patch(f"{where}/d/status", patch)
    assert answer.body["metadata"]["generation"] == 1
    assert answer.body["metadata"]["annotations"]["x"] == "y"
    answer = await api.patch(f"{where}/d", {"metadata": {"annotations": {"x": "z"}}})
    assert answer.body["metadata"]["generation"] == 2


async def test_tolerations_may_be_emptied_and_come_back(api: Api) -> None:
    await api.made(api.path("pods"), pod("p", nodeName="n1"))
    answer = await api.patch(api.path("pods", "p"), {"spec": {"tolerations": []}}, STRATEGIC)
    assert answer.status == 200
    keys = [one["key"] for one in answer.body["spec"]["tolerations"]]
    assert keys == ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]


async def test_a_bound_pod_is_nominated_no_longer(api: Api) -> None:
    await api.made(api.path("pods"), pod("p", schedulerName="nobody"))
    nominated = {"status": {"nominatedNodeName": "n1"}}
    answer = await api.patch(api.path("pods", "p", "status"), nominated)
    assert answer.body["status"]["nominatedNodeName"] == "n1"
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n2"}}
    await api.made(api.path("pods", "p", "binding"), binding)
    body = (await api.get(api.path("pods", "p"))).body
    assert body["spec"]["nodeName"] == "n2"
    assert "nominatedNodeName" not in body["status"]


async def test_metrics_tell_of_requests_and_of_nothing_secret(cluster: Api) -> None:
    secret = {"metadata": {"name": "hidden-name"}, "stringData": {"k": "hidden-value"}}
    await cluster.made(cluster.path("secrets"), secret)
    await cluster.get(f"{cluster.path('secrets', 'hidden-name')}/made-up-part")
    answer = await cluster.get("/metrics", accept="text/plain")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain")
    text = answer.text.decode()
    lines = [line for line in text.splitlines() if line.startswith("apiserver_request_total{")]
    assert any('resource="secrets"' in line and 'code="201"' in line for line in lines)
    assert "apiserver_request_duration_seconds_bucket" in text
    assert "hidden-value" not in text
    if cluster.embedded:  # neither names nor whatever a client may invent
        assert "hidden" not in text
        assert "made-up-part" not in text
