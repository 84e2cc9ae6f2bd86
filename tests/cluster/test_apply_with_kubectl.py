"""`manta apply` and `kubectl apply` in turn on one object (U17)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from manta.api.meta import Key
from manta.api.resources import CONFIG_MAPS
from manta.api.usage import UsageError
from manta.api.well_known import ANNOTATION_LAST_APPLIED
from manta.cli.apply import apply_document
from manta.cli.server.discovery import Kinds
from manta.cli.server.field_ownership import (
    COMMANDS,
    FIELD_MANAGER,
    migration,
    union,
    with_last_applied,
)
from manta.kube.client import Client
from support.plane import memory_plane
from support.raycluster import ray_cluster
from support.raycrds import ray_crds

KEY = Key("default", "shared")


def config_map(**data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": KEY.name, "namespace": KEY.namespace},
        "data": data,
    }


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with memory_plane(crds=ray_crds()) as plane:
        yield plane.client


async def apply(client: Client, document: dict[str, Any], **options: Any) -> str:
    return await apply_document(client, await Kinds.discover(client), document, **options)


async def kubectl_creates(client: Client, **data: str) -> None:
    """As `kubectl apply` does it: an update that writes the annotation."""
    body = with_last_applied(config_map(**data))
    await client.create(CONFIG_MAPS, KEY.namespace, body, field_manager="kubectl-client-side-apply")


async def test_fields_that_kubectl_applied_are_changed_and_removed(client: Client) -> None:
    await kubectl_creates(client, a="1", b="1")
    assert await apply(client, config_map(a="2")) == "configmap/shared configured"
    assert (await client.get(CONFIG_MAPS, KEY))["data"] == {"a": "2"}


async def test_kubectl_finds_what_was_applied_last(client: Client) -> None:
    """Without the annotation it warns, and removes no field."""
    await apply(client, config_map(a="1"))
    found = await client.get(CONFIG_MAPS, KEY)
    assert '"data":{"a":"1"}' in found["metadata"]["annotations"][ANNOTATION_LAST_APPLIED]
    [entry] = found["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == (FIELD_MANAGER, "Apply")


async def test_applying_the_same_again_changes_nothing(client: Client) -> None:
    await kubectl_creates(client, a="1")
    await apply(client, config_map(a="1"))
    assert await apply(client, config_map(a="1")) == "configmap/shared unchanged"


async def test_a_dry_run_of_what_kubectl_applied_finds_no_conflict(client: Client) -> None:
    await kubectl_creates(client, a="1")
    before = await client.get(CONFIG_MAPS, KEY)
    assert "configured (dry run)" in await apply(client, config_map(a="2"), dry_run=True)
    assert await client.get(CONFIG_MAPS, KEY) == before


async def test_what_an_older_manta_applied_is_taken_over(client: Client) -> None:
    await client.patch(
        CONFIG_MAPS, KEY, config_map(a="1", b="1"), kind="apply", field_manager="manta-cli"
    )
    await apply(client, config_map(a="2"))
    assert (await client.get(CONFIG_MAPS, KEY))["data"] == {"a": "2"}


async def test_what_our_own_commands_patched_is_no_conflict_and_stays(client: Client) -> None:
    """`manta scale`, then `manta apply`."""
    await apply(client, config_map(a="1"))
    await client.patch(CONFIG_MAPS, KEY, {"data": {"a": "5", "b": "5"}}, field_manager=COMMANDS)
    await apply(client, config_map(a="1"))
    assert (await client.get(CONFIG_MAPS, KEY))["data"] == {"a": "1", "b": "5"}


async def test_a_field_that_somebody_else_set_is_a_conflict_with_a_cure(client: Client) -> None:
    await apply(client, config_map(a="1"))
    await client.patch(CONFIG_MAPS, KEY, {"data": {"a": "9"}}, field_manager="somebody")
    with pytest.raises(UsageError, match=r'conflict with "somebody".*\.data\.a.*--force-conflicts'):
        await apply(client, config_map(a="2"))
    await apply(client, config_map(a="2"), force=True)
    assert (await client.get(CONFIG_MAPS, KEY))["data"] == {"a": "2"}


async def test_an_unknown_field_is_refused_as_by_kubectl(client: Client) -> None:
    cluster = ray_cluster()
    wrong = {**cluster, "spec": {**cluster["spec"], "headGroup": {}}}
    with pytest.raises(UsageError, match=r"unknown field '\.spec\.headGroup': is it spelt"):
        await apply(client, wrong)


async def test_an_object_that_is_too_large_for_the_annotation_goes_without(client: Client) -> None:
    for value in ("x", "y"):
        await apply(client, config_map(a=value * 300_000))
    found = await client.get(CONFIG_MAPS, KEY)
    assert found["data"]["a"].startswith("y")
    assert "annotations" not in found["metadata"]
    await apply(client, config_map(a="small"))
    found = await client.get(CONFIG_MAPS, KEY)
    assert ANNOTATION_LAST_APPLIED in found["metadata"]["annotations"]
    await apply(client, config_map(a="z" * 300_000))
    found = await client.get(CONFIG_MAPS, KEY)
    assert "annotations" not in found["metadata"]


async def test_the_annotation_does_not_hold_itself(client: Client) -> None:
    for value in ("1", "2"):
        await apply(client, config_map(a=value))
    found = await client.get(CONFIG_MAPS, KEY)
    assert ANNOTATION_LAST_APPLIED not in found["metadata"]["annotations"][ANNOTATION_LAST_APPLIED]


def test_entries_of_others_and_of_subresources_stay() -> None:
    others = [
        {"manager": "kubectl-edit", "operation": "Update", "fieldsV1": {"f:data": {}}},
        {"manager": "kubectl", "operation": "Apply", "subresource": "status", "fieldsV1": {}},
    ]
    live = {"metadata": {"resourceVersion": "1", "managedFields": others}}
    assert migration(live) == []


def test_the_union_of_fields_keeps_what_either_has() -> None:
    one, other = {"f:a": {"f:b": {}}}, {"f:a": {"f:c": {}}, "f:d": {}}
    assert union(one, other) == {"f:a": {"f:b": {}, "f:c": {}}, "f:d": {}}
