"""Quotas at admission."""

from __future__ import annotations

import pytest

from manta.api.meta import Key
from manta.api.resources import CONFIG_MAPS, PODS, RESOURCE_QUOTAS, SERVICES
from manta.kube.errors import Forbidden
from support.plane import memory_plane


def pod(name, **requests):
    resources = {"requests": requests} if requests else {}
    containers = [{"name": "c", "image": "i", "resources": resources}]
    return {"metadata": {"name": name}, "spec": {"containers": containers}}


async def limited(plane, **hard) -> None:
    hard = {name.replace("_", "/"): value for name, value in hard.items()}
    body = {"metadata": {"name": "q"}, "spec": {"hard": hard}}
    await plane.client.create(RESOURCE_QUOTAS, "default", body)
    used = dict.fromkeys(hard, "0")
    status = {"status": {"hard": hard, "used": used}}
    await plane.client.patch(RESOURCE_QUOTAS, Key("default", "q"), status, subresource="status")


async def used(plane):
    return (await plane.client.get(RESOURCE_QUOTAS, Key("default", "q")))["status"]["used"]


async def test_what_fits_is_charged_and_what_does_not_is_refused() -> None:
    async with memory_plane() as plane:
        await limited(plane, cpu="1500m", memory="1Gi")
        await plane.client.create(PODS, "default", pod("a", cpu="1", memory="100Mi"))
        assert await used(plane) == {"cpu": "1", "memory": "100Mi"}
        with pytest.raises(Forbidden) as refused:
            await plane.client.create(PODS, "default", pod("b", cpu="1", memory="2Gi"))
        assert refused.value.message == (
            'pods "b" is forbidden: exceeded quota: q, requested: cpu=1,memory=2Gi, used: '
            "cpu=1,memory=100Mi, limited: cpu=1500m,memory=1Gi"
        )
        assert await used(plane) == {"cpu": "1", "memory": "100Mi"}


async def test_limited_amounts_must_be_said() -> None:
    async with memory_plane() as plane:
        await limited(plane, cpu="1", memory="1Gi")
        with pytest.raises(Forbidden) as refused:
            await plane.client.create(PODS, "default", pod("a"))
        assert refused.value.message.endswith(
            "failed quota: q: must specify cpu for: c; memory for: c"
        )


async def test_objects_are_counted() -> None:
    async with memory_plane() as plane:
        await limited(plane, count_configmaps="1", services="1")
        await plane.client.create(CONFIG_MAPS, "default", {"metadata": {"name": "a"}})
        with pytest.raises(Forbidden, match="requested: count/configmaps=1"):
            await plane.client.create(CONFIG_MAPS, "default", {"metadata": {"name": "b"}})
        service = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
        await plane.client.create(SERVICES, "default", service)
        assert await used(plane) == {"count/configmaps": "1", "services": "1"}


async def test_a_dry_run_charges_nothing() -> None:
    async with memory_plane() as plane:
        await limited(plane, pods="1")
        await plane.client.create(PODS, "default", pod("a"), dry_run=True)
        assert await used(plane) == {"pods": "0"}


async def test_other_namespaces_are_not_charged() -> None:
    async with memory_plane() as plane:
        await limited(plane, pods="0")
        await plane.client.create(PODS, "kube-system", pod("a"))
