"""The official Python client of Kubernetes, with the address of the console instead of Kubernetes'."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from kubernetes import client, watch
from manta.api.ray.resources import RAY_CLUSTERS
from support.console_api import ray_cluster, served_api

HOW = ("ray.io", "v1", "team-a", "rayclusters")


def _api(url: str, token: str) -> Any:
    configuration = client.Configuration(host=url)
    configuration.api_key = {"authorization": f"Bearer {token}"}
    return client.ApiClient(configuration)


def _use(url: str) -> None:
    rays: Any = client.CustomObjectsApi(_api(url, "edith-token"))
    rays.create_namespaced_custom_object(*HOW, ray_cluster("demo"))
    found = rays.get_namespaced_custom_object(*HOW, "demo")
    assert found["metadata"]["name"] == "demo"
    patch = {"metadata": {"annotations": {"example.com/purpose": "model-training"}}}
    rays.patch_namespaced_custom_object(*HOW, "demo", patch)
    found = rays.get_namespaced_custom_object(*HOW, "demo")
    found["spec"]["headGroupSpec"]["rayStartParams"] = {"num-cpus": "1"}
    rays.replace_namespaced_custom_object(*HOW, "demo", found)
    listed = rays.list_namespaced_custom_object(*HOW)["items"]
    assert [one["spec"]["headGroupSpec"]["rayStartParams"] for one in listed] == [{"num-cpus": "1"}]
    events = client.EventsV1Api(_api(url, "edith-token"))
    assert events.list_namespaced_event("team-a").items == []
    rays.delete_namespaced_custom_object(*HOW, "demo")
    with pytest.raises(ApiException) as refused:
        rays.get_namespaced_custom_object(*HOW, "demo")
    assert refused.value.status == 404
    with pytest.raises(ApiException) as refused:
        client.CoreV1Api(_api(url, "edith-token")).list_namespaced_pod("team-a")
    assert refused.value.status == 404


def _follow(url: str, names: list[str]) -> None:
    rays: Any = client.CustomObjectsApi(_api(url, "victor-token"))
    events = watch.Watch().stream(rays.list_namespaced_custom_object, *HOW, _request_timeout=60)
    for event in events:
        names.append(event["object"]["metadata"]["name"])
        if len(names) == 3:
            return


async def test_the_official_client_reads_and_writes() -> None:
    async with served_api() as api:
        await asyncio.to_thread(_use, api.url)


async def test_the_official_client_watches() -> None:
    names: list[str] = []
    async with served_api() as api:
        following = asyncio.create_task(asyncio.to_thread(_follow, api.url, names))
        for name in ("one", "two", "three"):
            await api.admin.create(RAY_CLUSTERS, "team-a", ray_cluster(name))
            async with asyncio.timeout(60):
                while name not in names:
                    await asyncio.sleep(0.02)
        await following
    assert names == ["one", "two", "three"]
