"""Discovery (2) and aggregated discovery (4)."""

from __future__ import annotations

from typing import Any

import pytest

from support.cluster_api import eventually
from support.contract import GROUP, Api, Widgets

FORM = "application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
V2 = FORM.format(version="v2")


async def test_discovery_should_have_a_preferred_version_in_each_group(api: Api) -> None:
    groups = (await api.get("/apis")).body["groups"]
    assert groups
    for group in groups:
        answer = await api.get(f"/apis/{group['name']}")
        if answer.status == 404 and not group["name"].endswith(".k8s.io"):
            continue  # the CRD of another test: it was removed since the groups were listed
        one = answer.body
        assert one["preferredVersion"]["groupVersion"].startswith(f"{group['name']}/")
        assert one["preferredVersion"] in one["versions"]


async def test_discovery_should_locate_a_resource_within_each_group(api: Api) -> None:
    for group, plural in (
        ("apps", "deployments"),
        ("batch", "jobs"),
        ("rbac.authorization.k8s.io", "clusterroles"),
        ("storage.k8s.io", "storageclasses"),
        ("networking.k8s.io", "ingresses"),
        ("policy", "poddisruptionbudgets"),
        ("discovery.k8s.io", "endpointslices"),
        ("coordination.k8s.io", "leases"),
        ("scheduling.k8s.io", "priorityclasses"),
        ("events.k8s.io", "events"),
        ("apiextensions.k8s.io", "customresourcedefinitions"),
    ):
        listed = (await api.get("/apis")).body["groups"]
        [version] = [
            one["preferredVersion"]["groupVersion"] for one in listed if one["name"] == group
        ]
        resources = (await api.get(f"/apis/{version}")).body["resources"]
        assert plural in {one["name"] for one in resources}, group


@pytest.mark.parametrize("path", ["/api", "/apis"])
async def test_aggregated_discovery_should_honour_accept_headers(api: Api, path: str) -> None:
    answer = await api.get(path, accept=V2)
    assert answer.status == 200
    assert answer.headers["content-type"] == V2
    assert answer.body["kind"] == "APIGroupDiscoveryList"
    assert answer.body["apiVersion"] == "apidiscovery.k8s.io/v2"
    plain = await api.get(path)
    assert plain.body["kind"] in {"APIVersions", "APIGroupList"}
    both = await api.get(path, accept=f"{V2},application/json")
    assert both.headers["content-type"] == V2


async def groups(api: Api) -> dict[str, Any]:
    items = (await api.get("/apis", accept=V2)).body["items"]
    return {one["metadata"]["name"]: one for one in items}


async def test_aggregated_discovery_should_show_crds_raw(api: Api, widgets: Widgets) -> None:
    async def found() -> dict[str, Any] | None:
        versions = (await groups(api)).get(GROUP, {}).get("versions") or ()
        return next(
            (
                one
                for version in versions
                for one in version["resources"]
                if one["resource"] == widgets.plural
            ),
            None,
        )

    resource = await eventually(found)
    assert resource is not None
    assert resource["responseKind"]["kind"] == "Widget"
    assert resource["scope"] == "Namespaced"
    assert {one["subresource"] for one in resource["subresources"]} == {"scale", "status"}


async def test_aggregated_discovery_should_tell_what_the_single_documents_tell(api: Api) -> None:
    found = await groups(api)
    for name in ("apps", "batch", "rbac.authorization.k8s.io"):
        for version in found[name]["versions"]:
            listed = (await api.get(f"/apis/{name}/{version['version']}")).body["resources"]
            single = {one["name"] for one in listed}
            merged = {one["resource"] for one in version["resources"]} | {
                f"{one['resource']}/{sub['subresource']}"
                for one in version["resources"]
                for sub in one.get("subresources") or ()
            }
            assert merged == single


async def test_aggregated_discovery_should_tell_of_crds_what_the_single_documents_tell(
    api: Api, widgets: Widgets
) -> None:
    async def same() -> bool:
        listed = (await api.get(f"/apis/{GROUP}/v1")).body.get("resources") or ()
        single = {one["name"]: one for one in listed}
        versions = (await groups(api)).get(GROUP, {}).get("versions") or ()
        merged = {one["resource"]: one for version in versions for one in version["resources"]}
        if widgets.plural not in merged or widgets.plural not in single:
            return False
        mine, theirs = merged[widgets.plural], single[widgets.plural]
        assert sorted(mine["verbs"]) == sorted(theirs["verbs"])
        assert mine["singularResource"] == theirs["singularName"]
        assert mine["shortNames"] == theirs["shortNames"]
        return True

    await eventually(same)
