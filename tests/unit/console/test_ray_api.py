"""The routes of KubeRay's API server, as clients of theirs use them: over HTTP, with a token."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS, RAY_CRON_JOBS, RAY_JOBS, RAY_SERVICES
from manta.api.resources import CONFIG_MAPS, CORE_EVENTS
from manta.console.api import callers
from manta.httpserver.messages import json_response
from support.console_api import RAY, head_of, ray_cluster, send, served_api
from support.raw_http import Line

EVENTS = "/apis/events.k8s.io/v1/namespaces/team-a/events"
TEMPLATES = "/apis/v1/namespaces/team-a/compute_templates"
GPU_TEMPLATE = {
    "name": "gpu",
    "cpu": 2,
    "memory": 4,
    "gpu": 1,
    "gpuAccelerator": "amd.com/gpu",
    "extendedResources": {"custom.io/thing": 2},
    "tolerations": [
        {"key": "ray.io/node-type", "operator": "Equal", "value": "w", "effect": "NoSchedule"}
    ],
}


def about(kind: str, version: str) -> dict[str, Any]:
    return {
        "metadata": {"generateName": "event-"},
        "involvedObject": {
            "kind": kind, "namespace": "team-a", "name": "demo", "apiVersion": version,
        },
        "reason": "Testing",
        "message": "a test",
        "type": "Normal",
    }  # fmt: skip


async def next_event(line: Line) -> dict[str, Any]:
    """The next event of a watch that is sent in chunks."""
    async with asyncio.timeout(60):
        size = int(await line.reader.readuntil(b"\r\n"), 16)
        chunk = (await line.reader.readexactly(size + 2))[:-2]
    found: dict[str, Any] = msgspec.json.decode(chunk.splitlines()[0])
    return found


# ── every route, as the inventory of KubeRay's describes it ──────────────────────────────


async def test_every_route_answers_as_recorded() -> None:
    one, many = f"{RAY}/team-a/rayclusters/demo", f"{RAY}/team-a/rayclusters"
    merge = {"metadata": {"annotations": {"example.com/purpose": "model-training"}}}
    steps: list[tuple[str, str, Any, int]] = [
        ("POST", many, ray_cluster("demo"), 201),
        ("POST", many, ray_cluster("demo"), 409),
        ("GET", one, None, 200),
        ("GET", many, None, 200),
        ("GET", "/apis/ray.io/v1/rayclusters", None, 200),
        ("PATCH", one, merge, 200),
        ("GET", f"{one}/status", None, 200),
        ("PUT", f"{RAY}/team-a/rayclusters/none", ray_cluster("none"), 404),
        ("DELETE", one, None, 200),
        ("GET", one, None, 404),
        ("DELETE", many, None, 200),
        ("GET", EVENTS, None, 200),
        ("POST", EVENTS, about("RayCluster", "ray.io/v1"), 405),
        ("GET", "/api/v1/namespaces/team-a/pods", None, 404),
        ("GET", "/api/v1/namespaces/team-a/services/none:8265/proxy/", None, 404),
        ("GET", "/api/v1/namespaces/team-a/services/a:b:c:d/proxy/", None, 400),
        ("GET", TEMPLATES, None, 200),
        ("POST", TEMPLATES, GPU_TEMPLATE, 200),
        ("POST", TEMPLATES, GPU_TEMPLATE, 409),
        ("GET", f"{TEMPLATES}/gpu", None, 200),
        ("GET", "/apis/v1/compute_templates", None, 200),
        ("DELETE", f"{TEMPLATES}/gpu", None, 200),
        ("GET", f"{TEMPLATES}/gpu", None, 404),
        ("GET", "/healthz", None, 200),
    ]
    async with served_api() as api:
        for method, path, body, expected in steps:
            answer = await api.ask(method, path, body)
            assert answer.status == expected, (method, path, answer.body)
            if expected >= 400:
                found = answer.json
                assert (found["kind"], found["code"]) == ("Status", expected), (method, path)
                assert answer.headers["content-type"] == "application/json"


async def test_yaml_is_taken_and_all_four_kinds_pass() -> None:
    text = b"apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {name: demo}\nspec:\n  headGroupSpec:\n"
    text += b"    rayStartParams: {}\n    template: {spec: {containers: [{name: ray-head, image: r}]}}\n"
    async with served_api() as api:
        kind = {"content_type": "application/yaml"}
        made = await api.ask("POST", f"{RAY}/team-a/rayclusters", text, **kind)
        assert made.status == 201
        spec = ray_cluster("x")["spec"]
        for resource, inner in (
            (RAY_JOBS, {"entrypoint": "python a.py", "rayClusterSpec": spec}),
            (RAY_SERVICES, {"rayClusterConfig": spec}),
            (
                RAY_CRON_JOBS,
                {
                    "schedule": "@daily",
                    "jobTemplate": {"entrypoint": "python a.py", "rayClusterSpec": spec},
                },
            ),
        ):
            body = {
                "apiVersion": "ray.io/v1",
                "kind": resource.kind,
                "metadata": {"name": "demo"},
                "spec": inner,
            }
            answer = await api.ask("POST", f"{RAY}/team-a/{resource.plural}", body)
            assert answer.status == 201, answer.body
        bad = await api.ask("POST", f"{RAY}/team-a/rayclusters", b"x", content_type="text/plain")
        assert (bad.status, bad.json["reason"]) == (400, "BadRequest")


async def test_events_are_those_about_ray_objects_whatever_the_selector_says() -> None:
    async with served_api() as api:
        for kind, version in (("RayCluster", "ray.io/v1"), ("Pod", "v1")):
            await api.admin.create(CORE_EVENTS, "team-a", about(kind, version))
        found = (await api.ask("GET", EVENTS)).json["items"]
        assert [one["regarding"]["kind"] for one in found] == ["RayCluster"]
        for selector in ("regarding.apiVersion=v1", "regarding.apiVersion="):
            answer = await api.ask("GET", f"{EVENTS}?fieldSelector={selector}")
            assert answer.json["items"] == []
        twice = f"{EVENTS}?fieldSelector=regarding.kind=RayCluster&fieldSelector=reason=Testing"
        assert len((await api.ask("GET", twice)).json["items"]) == 1


# ── whose rights ─────────────────────────────────────────────────────────────────────────


async def test_three_users_get_what_kubernetes_answers_them() -> None:
    async with served_api() as api:
        for namespace in ("team-a", "team-b"):
            await api.admin.create(RAY_CLUSTERS, namespace, ray_cluster("demo"))
        asked: list[tuple[str, str, Any]] = [
            ("GET", "/apis/ray.io/v1/rayclusters", None),
            ("GET", EVENTS, None),
            ("GET", EVENTS.replace("team-a", "team-b"), None),
        ]
        for namespace in ("team-a", "team-b"):
            many = f"{RAY}/{namespace}/rayclusters"
            asked += [
                ("GET", many, None),
                ("GET", f"{many}/demo", None),
                ("GET", f"{many}/demo/status", None),
                ("POST", f"{many}?dryRun=All", ray_cluster("new")),
                ("PATCH", f"{many}/demo?dryRun=All", {"metadata": {"labels": {"a": "b"}}}),
                ("DELETE", f"{many}/demo?dryRun=All", None),
                ("DELETE", f"{many}?dryRun=All", None),
            ]
        for token in ("admin-token", "edith-token", "victor-token", "nobodys-token"):
            for method, path, body in asked:
                ours = await api.ask(method, path, body, token=token)
                theirs = await api.direct(method, path, body, token=token)
                assert ours.status == theirs.status, (token, method, path, ours.body)
                if ours.status >= 400:
                    assert ours.json == theirs.json, (token, method, path)


async def test_a_request_without_a_caller_never_reaches_kubernetes() -> None:
    async with served_api() as api:
        for headers in ({}, {"authorization": "Basic YTpi"}, {"authorization": "Bearer a b"}):
            answer = await api.ask("GET", f"{RAY}/team-a/rayclusters", token="", **headers)
            assert (answer.status, answer.json["reason"]) == (401, "Unauthorized")
        forged = await api.ask(
            "GET", f"{RAY}/team-a/rayclusters", token="", cookie="manta-console-1=x"
        )
        assert forged.status == 401
        assert api.recorder.seen == []


async def test_a_cookie_reads_and_only_pages_of_the_console_write_with_it() -> None:
    path = f"{RAY}/team-a/rayclusters"
    async with served_api() as api:
        login = {"token": "", "cookie": api.cookie()}
        assert (await api.ask("GET", path, **login)).status == 200
        for headers in (
            {},
            {"sec_fetch_site": "cross-site"},
            {"origin": "https://evil.example"},
        ):
            refused = await api.ask("POST", path, ray_cluster("demo"), **login, **headers)
            assert (refused.status, refused.json["kind"]) == (403, "Status")
        assert [one for one in api.came_through("POST") if "rayclusters" in one.path] == []
        made = await api.ask(
            "POST", path, ray_cluster("demo"), **login, sec_fetch_site="same-origin"
        )
        assert made.status == 201


async def test_cookies_and_impersonation_stay_here() -> None:
    path = f"{RAY}/team-a/rayclusters"
    async with served_api() as api:
        await api.ask(
            "GET", path, cookie=api.cookie(), x_remote_user="admin", x_forwarded_for="::1"
        )
        [seen] = api.recorder.seen
        assert seen.headers["authorization"] == "Bearer admin-token"
        assert {"cookie", "x-remote-user", "x-forwarded-for"}.isdisjoint(seen.headers)
        answer = await api.ask("GET", path, impersonate_user="victor")
        assert (answer.status, len(api.recorder.seen)) == (400, 1)


# ── streams ──────────────────────────────────────────────────────────────────────────────


async def test_a_watch_sends_each_event_when_it_happens_and_stays_alive() -> None:
    async with served_api() as api:
        line = await api.connect()
        await send(line, "GET", f"{RAY}/team-a/rayclusters?watch=true", token="edith-token")
        assert (await head_of(line))[0] == 200
        for name in ("one", "two"):
            await api.admin.create(RAY_CLUSTERS, "team-a", ray_cluster(name))
            event = await next_event(line)
            assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", name)
            await asyncio.sleep(2)


async def test_a_watch_that_the_client_leaves_is_ended_in_kubernetes_too() -> None:
    async with served_api() as api:
        line = await api.connect()
        await send(line, "GET", f"{RAY}/team-a/rayclusters?watch=true", token="edith-token")
        await head_of(line)
        counted = api.handler._api._callers._open
        assert counted.total() == 1
        line.writer.close()
        async with asyncio.timeout(20):
            while counted:
                await asyncio.sleep(0.02)


async def test_a_broken_stream_is_not_mistaken_for_a_whole_answer() -> None:
    async with served_api() as api:
        line = await api.connect()
        await send(line, "GET", f"{RAY}/team-a/rayclusters?watch=true", token="edith-token")
        await head_of(line)
        await api.stop_kubernetes()
        async with asyncio.timeout(20):
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await line.chunked()


async def test_a_caller_has_a_limit_of_open_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callers, "MAX_OPEN", 2)
    path = f"{RAY}/team-a/rayclusters"
    async with served_api() as api:
        lines = [await api.connect() for _ in range(2)]
        for line in lines:
            await send(line, "GET", f"{path}?watch=true", token="edith-token")
            await head_of(line)
        refused = await api.ask("GET", path, token="edith-token")
        assert (refused.status, refused.json["reason"]) == (429, "TooManyRequests")
        assert (await api.ask("GET", path, token="victor-token")).status == 200
        lines[0].writer.close()
        async with asyncio.timeout(20):
            while (await api.ask("GET", path, token="edith-token")).status == 429:
                await asyncio.sleep(0.02)


async def test_a_body_beyond_the_limit_is_refused_with_a_status() -> None:
    async with served_api() as api:
        line = await api.connect()
        line.send(
            b"POST /apis/ray.io/v1/namespaces/a/rayclusters HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            b"Content-Length: 99999999\r\n\r\n"
        )
        status, _, body = await line.answer()
        assert (status, msgspec.json.decode(body)["reason"]) == (413, "RequestEntityTooLarge")


# ── nothing twice ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("code", [408, 429, 500, 502, 503, 504])
async def test_a_write_that_kubernetes_refuses_is_not_sent_again(code: int) -> None:
    async with served_api() as api:
        api.recorder.fault = json_response(code, {"kind": "Status", "code": code, "message": "no"})
        for method, path in (
            ("POST", f"{RAY}/team-a/rayclusters"),
            ("PUT", f"{RAY}/team-a/rayclusters/demo"),
            ("PATCH", f"{RAY}/team-a/rayclusters/demo"),
            ("DELETE", f"{RAY}/team-a/rayclusters/demo"),
        ):
            answer = await api.ask(method, path, ray_cluster("demo"))
            assert (answer.status, len(api.came_through(method))) == (code, 1)


async def test_a_write_whose_answer_is_lost_is_reported_as_unknown() -> None:
    async with served_api() as api:
        await api.lose_next_answer()
        answer = await api.ask("POST", f"{RAY}/team-a/rayclusters", ray_cluster("demo"))
        assert (answer.status, answer.json["reason"]) == (504, "Timeout")
        assert "read before you repeat it" in answer.json["message"]
        assert len(api.came_through("POST")) == 1


async def test_a_kubernetes_that_is_not_there_is_reported() -> None:
    async with served_api() as api:
        await api.stop_kubernetes()
        answer = await api.ask("POST", f"{RAY}/team-a/rayclusters", ray_cluster("demo"))
        assert (answer.status, answer.json["reason"]) == (503, "ServiceUnavailable")


# ── compute templates ────────────────────────────────────────────────────────────────────


async def test_a_template_is_put_into_the_groups_of_every_kind() -> None:
    worker = {
        "groupName": "w", "computeTemplate": "gpu", "replicas": 1, "minReplicas": 1, "maxReplicas": 1,
        "rayStartParams": {},
        "template": {"spec": {"containers": [{"name": "ray-worker", "image": "r"}, {"name": "side", "image": "s"}]}},
    }  # fmt: skip
    async with served_api() as api:
        assert (await api.ask("POST", TEMPLATES, GPU_TEMPLATE)).status == 200
        spec = {**ray_cluster("x", computeTemplate="gpu")["spec"], "workerGroupSpecs": [worker]}
        for resource, inner, where in (
            (RAY_CLUSTERS, spec, ()),
            (RAY_JOBS, {"entrypoint": "a", "rayClusterSpec": spec}, ("rayClusterSpec",)),
            (RAY_SERVICES, {"rayClusterConfig": spec}, ("rayClusterConfig",)),
            (
                RAY_CRON_JOBS,
                {"schedule": "@daily", "jobTemplate": {"entrypoint": "a", "rayClusterSpec": spec}},
                ("jobTemplate", "rayClusterSpec"),
            ),
        ):
            body = {
                "apiVersion": "ray.io/v1",
                "kind": resource.kind,
                "metadata": {"name": "filled"},
                "spec": inner,
            }
            path = f"{RAY}/team-a/{resource.plural}?fieldValidation=Strict"
            answer = await api.ask("POST", path, body)
            assert answer.status == 201, answer.body
            found = answer.json["spec"]
            for step in where:
                found = found[step]
            _check_filled(found)


def _check_filled(spec: Any) -> None:
    both = {"cpu": "2", "memory": "4Gi"}
    gpus = {**both, "amd.com/gpu": 1, "custom.io/thing": 2}
    for group in (spec["headGroupSpec"], spec["workerGroupSpecs"][0]):
        assert "computeTemplate" not in group
        assert group["template"]["metadata"]["annotations"] == {"ray.io/compute-template": "gpu"}
        pod = group["template"]["spec"]
        assert pod["containers"][0]["resources"] == {"limits": gpus, "requests": gpus}
        assert pod["tolerations"] == GPU_TEMPLATE["tolerations"]
    side = spec["workerGroupSpecs"][0]["template"]["spec"]["containers"][1]
    assert side["resources"] == {"limits": both, "requests": both}


async def test_a_template_is_read_with_the_rights_of_the_caller() -> None:
    path = f"{RAY}/team-b/rayclusters"
    async with served_api() as api:
        unknown = await api.ask("POST", path, ray_cluster("a", computeTemplate="none"))
        assert (unknown.status, unknown.json["reason"]) == (422, "Invalid")
        assert "'none' in namespace 'team-b'" in unknown.json["message"]
        body = ray_cluster("a", computeTemplate="none")
        forbidden = await api.ask("POST", path, body, token="edith-token")
        assert (forbidden.status, forbidden.json["reason"]) == (403, "Forbidden")
        assert api.came_through("POST") == []


async def test_a_config_map_that_is_no_template_is_neither_shown_nor_deleted() -> None:
    async with served_api() as api:
        other = {"metadata": {"name": "settings"}, "data": {"cpu": "many", "memory": "1"}}
        await api.admin.create(CONFIG_MAPS, "team-a", other)
        for method in ("GET", "DELETE"):
            assert (await api.ask(method, f"{TEMPLATES}/settings")).status == 404
        assert await api.admin.get(CONFIG_MAPS, Key("team-a", "settings"))
        body = ray_cluster("a", computeTemplate="settings")
        answer = await api.ask("POST", f"{RAY}/team-a/rayclusters", body)
        assert (answer.status, "cpu='many'" in answer.json["message"]) == (422, True)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"name": ""}, "name"),
        ({"cpu": 0}, "cpu"),
        ({"cpu": "two"}, "cpu"),
        ({"memory": -1}, "memory"),
        ({"memoryUnit": "bananas"}, "memoryUnit"),
        ({"gpu": 2**40}, "gpu"),
        ({"extendedResources": {"a": -1}}, "a"),
    ],
)
async def test_a_template_that_means_nothing_is_refused(change: Any, named: str) -> None:
    async with served_api() as api:
        answer = await api.ask("POST", TEMPLATES, {**GPU_TEMPLATE, **change})
        assert (answer.status, named in answer.json["message"]) == (400, True), answer.body


async def test_too_many_templates_in_one_object_are_refused_before_any_is_read() -> None:
    groups = [{"computeTemplate": f"t{number}"} for number in range(17)]
    body = ray_cluster("a")
    body["spec"]["workerGroupSpecs"] = groups
    async with served_api() as api:
        answer = await api.ask("POST", f"{RAY}/team-a/rayclusters", body)
        assert (answer.status, api.recorder.seen) == (422, [])
