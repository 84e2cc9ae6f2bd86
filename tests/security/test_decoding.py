"""Bodies that must not cost the server more than their bytes."""

from __future__ import annotations

import json

import pytest

from support.sender import Sender

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
YAML = "application/yaml"


@pytest.mark.parametrize("text", ["a: " + "[" * 40_000, "- " * 40_000, "a: " + "{a: " * 40_000])
async def test_deep_yaml_is_refused_and_the_server_lives_on(tenant: Sender, text: str) -> None:
    """X1: any token could end the process with 40 KB."""
    status, message = await tenant.message("POST", REVIEWS, text, YAML)
    assert status == 400
    assert "nested more than 100 levels deep" in message or "map key" in message
    assert (await tenant.send("GET", CONFIG_MAPS)).status == 200


async def test_an_alias_bomb_is_refused(tenant: Sender) -> None:
    """X3: 364 bytes of YAML were 1 GB."""
    rows = ["a0: &a0 [x,x,x,x,x,x,x,x,x]"]
    rows += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    status, message = await tenant.message("POST", REVIEWS, "\n".join(rows), YAML)
    assert status == 400
    assert "aliases expanded" in message


@pytest.mark.parametrize("content_type", ["application/json", YAML])
async def test_deep_json_is_refused(tenant: Sender, content_type: str) -> None:
    """X18: at depth 950 the decoder succeeded and what came after it did not."""
    body = '{"data":' * 950 + "1" + "}" * 950
    status, message = await tenant.message("POST", CONFIG_MAPS, body, content_type)
    assert status == 400
    assert "nested more than 100 levels deep" in message


async def test_scalars_of_a_yaml_body_are_those_of_kubernetes(tenant: Sender) -> None:
    """P5: `22:22` was 1342, and `1e3` was text."""
    text = "metadata: {name: scalars}\ndata: {a: 22:22, b: 2020-01-01, c: '1e3', d: '0o14'}\n"
    made = await tenant.send("POST", CONFIG_MAPS, text, YAML)
    assert json.loads(made.body)["data"] == {
        "a": "22:22",
        "b": "2020-01-01",
        "c": "1e3",
        "d": "0o14",
    }
    status, message = await tenant.message(
        "POST", CONFIG_MAPS, "metadata: {name: b}\ndata: {a: y}\n", YAML
    )
    assert status == 400
    assert "bool" in message


async def test_a_yaml_key_that_is_given_twice_is_refused_when_asked_to_be_strict(
    tenant: Sender,
) -> None:
    text = "metadata: {name: twice}\ndata: {a: x, a: y1}\n"
    path = f"{CONFIG_MAPS}?fieldValidation=Strict"
    status, message = await tenant.message("POST", path, text, YAML)
    assert status == 400
    assert 'line 2: key "a" already set in map' in message
    assert (await tenant.send("POST", CONFIG_MAPS, text, YAML)).status == 201


@pytest.mark.parametrize("mode", ["Warn", "Strict"])
async def test_what_is_said_of_unknown_fields_is_bounded(tenant: Sender, mode: str) -> None:
    """X12: 20,000 unknown fields were 20,000 headers and 2 s of searching in a list."""
    body = {"metadata": {"name": "odd"}} | {f"field{n}": 1 for n in range(20_000)}
    path = f"{CONFIG_MAPS}?fieldValidation={mode}"
    answer = await tenant.send("POST", path, body)
    if mode == "Strict":
        message = json.loads(answer.body)["message"]
        assert message.count("unknown field") == 100
        return
    assert answer.status == 201
    assert len(answer.headers["warning"]) < 10_000
