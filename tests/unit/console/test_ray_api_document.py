"""The OpenAPI document describes the routes that are answered, and no others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from manta.console.api.openapi import document
from manta.console.api.routes import ROUTES, match
from support.console import running_console

DOCUMENT = document("1.2.3")


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, found in DOCUMENT["paths"].items():
        for method, operation in found.items():
            yield method.upper(), path, operation


def test_every_operation_is_answered() -> None:
    for method, path, _ in operations():
        match(method, path.replace("{", "").replace("}", ""))


def test_every_route_is_described() -> None:
    found = {
        match(method, path.replace("{", "").replace("}", "")).route
        for method, path, _ in operations()
    }
    assert found == set(ROUTES)


def test_every_part_of_a_path_is_a_parameter() -> None:
    for _, path, operation in operations():
        named = [one["name"] for one in operation["parameters"] if one["in"] == "path"]
        assert named == re.findall(r"\{(\w+)\}", path)


def test_every_reference_leads_to_a_schema() -> None:
    text = msgspec.json.encode(DOCUMENT).decode()
    for name in set(re.findall(r"#/components/schemas/(\w+)", text)):
        assert name in DOCUMENT["components"]["schemas"]


async def test_everybody_may_read_the_document_and_its_page() -> None:
    async with running_console(kinds=False, log_in=False) as console:
        for path in ("/openapi.json", "/swagger/apiserver.swagger.json"):
            answer = await console.get(path)
            assert isinstance(answer.body, bytes)
            assert msgspec.json.decode(answer.body)["openapi"] == "3.0.3"
        page = await console.get("/swagger-ui/")
        assert isinstance(page.body, bytes)
        assert b"/apis/ray.io/v1/{rest...}" in page.body


async def test_requests_are_counted_by_route_and_code() -> None:
    async with running_console(kinds=False, log_in=False) as console:
        await console.get("/apis/ray.io/v1/rayclusters")
        await console.get("/api/v1/secrets")
        answer = await console.get("/metrics")
        assert isinstance(answer.body, bytes)
        text = answer.body.decode()
        assert 'manta_console_api_requests_total{code="401",route="forward"} 1.0' in text
        assert 'manta_console_api_requests_total{code="404",route="none"} 1.0' in text
        assert "manta_console_api_open_requests 0.0" in text
