"""Each resource has the strategy of its kind, and one entry registers a built-in kind."""

from __future__ import annotations

import json
from typing import Any

import pytest

from manta.httpserver.messages import HttpRequest, HttpResponse
from manta.localplane.apiserver.app import App
from manta.localplane.apiserver.auth.authenticator import ADMIN
from manta.localplane.apiserver.builtin_kinds.messages import message_of
from manta.localplane.apiserver.builtin_resources import builtin_resources
from manta.localplane.apiserver.builtin_resources.registration import builtin
from manta.localplane.store.store import Store
from manta.runtime.clock import SystemClock
from support.contract import widget_definition

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture
def app() -> App:
    return App(Store(), clock=SystemClock().now)


async def call(
    app: App, method: str, path: str, body: dict[str, Any] | None = None
) -> HttpResponse:
    sent = json.dumps(body).encode() if body else b""
    headers = {"content-type": "application/json"}
    return await app.handle(HttpRequest(method, path, headers=headers, body=sent, user=ADMIN))


def definition(kind: str, plural: str, **version: Any) -> dict[str, Any]:
    crd = widget_definition("")
    crd["metadata"]["name"] = f"{plural}.t.example.com"
    crd["spec"]["scope"] = "Cluster"
    crd["spec"]["names"] = {"kind": kind, "plural": plural}
    crd["spec"]["versions"][0] |= version
    return crd


def test_every_built_in_kind_has_fields() -> None:
    for one in builtin_resources():
        assert message_of(one.api_version, one.kind), one.plural


def test_one_entry_registers_a_kind() -> None:
    one = builtin("storage.k8s.io/v1/csidrivers", "CSIDriver", namespaced=False, status=True)
    assert (one.group, one.version, one.plural) == ("storage.k8s.io", "v1", "csidrivers")
    assert one.has_status
    assert one.strategy.default({"spec": {}})["spec"] == {}
    assert [column["name"] for column in one.strategy.table.columns] == ["Name", "Age"]


async def test_a_custom_kind_named_job_is_deleted_like_any_custom_resource(app: App) -> None:
    await call(app, "POST", DEFINITIONS, definition("Job", "jobs"))
    job = {"apiVersion": "t.example.com/v1", "kind": "Job", "metadata": {"name": "j"}}
    job["spec"] = {"mode": "a"}
    assert (await call(app, "POST", "/apis/t.example.com/v1/jobs", job)).status == 201
    response = await call(app, "DELETE", "/apis/t.example.com/v1/jobs/j")
    assert response.headers == ()
    assert (await call(app, "GET", "/apis/t.example.com/v1/jobs/j")).status == 404


async def test_each_answer_of_a_deprecated_version_has_a_warning(app: App) -> None:
    crd = definition("Widget", "widgets", deprecated=True)
    assert (await call(app, "POST", DEFINITIONS, crd)).status == 201
    response = await call(app, "GET", "/apis/t.example.com/v1/widgets")
    assert response.headers == (("Warning", '299 - "t.example.com/v1 Widget is deprecated"'),)
