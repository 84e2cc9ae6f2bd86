from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from manta.manifests.submitter import _json, _shell
from manta.recording.redaction import TOKEN, Redactor

SECRET = "s3cr3t-value-9x"
REDACTOR = Redactor(b"k" * 32)


def clean(value: Any) -> Any:
    body, _ = REDACTOR.encode(value)
    return msgspec.json.decode(body)


@pytest.mark.parametrize(
    "value",
    [
        {"env": [{"name": "A", "value": SECRET}]},
        {"runtime_env": {"env_vars": {"A": SECRET}}},
        {"runtimeEnvYAML": f"env_vars:\n  A: {SECRET}\n"},
        {"runtimeEnvYAML": f"env_vars: [not: valid: {SECRET}"},
        {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": SECRET}},
        {"annotations": {"x/api-token": SECRET}},
        {"annotations": {"x/json": json.dumps({"env": [{"name": "A", "value": SECRET}]})}},
        {"redisPassword": {"value": SECRET}},
        {"rayStartParams": {"redis-password": SECRET}},
        {"kind": "Secret", "data": {"any": SECRET}},
        {"kind": "Secret", "stringData": {"any": SECRET}},
        {"args": ["--token", SECRET]},
        {"args": [f"--api-key={SECRET}"]},
        {"command": [f"export PASSWORD={SECRET}; run"]},
        {"message": f"Authorization: Bearer {SECRET}"},
        {"message": f'{{\\"password\\": \\"{SECRET}\\"}}'},
        {"address": f"redis://user:{SECRET}@host:6379"},
        {"text": f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n-----END RSA PRIVATE KEY-----"},
        {"command": [f"ray start --redis-password '{SECRET}' --head"]},
        {"command": [f'--redis-password "two words {SECRET}"']},
        {"command": [f"--redis-password=first,{SECRET} --head"]},
        {"command": [f"MYSQL_PWD={SECRET} python a.py"]},
        {"command": [f"redis-server --requirepass {SECRET}"]},
        {"message": f"Authorization: Token {SECRET}"},
        {"command": [f"--password=ab,{SECRET},ef"]},
        {"command": [f"--password='a${SECRET}'"]},
        {"command": [f"--password=hun${SECRET}"]},
        {"address": f"redis://:pa@{SECRET}@host"},
        {"text": f"requirepass {SECRET}"},
        {"text": f"password=$2b$12${SECRET}"},
        {"text": f"password=$argon2id$v=19${SECRET}"},
        {"text": f"redis_password   =\t{SECRET}"},
        {"text": f"token:      '{SECRET}'"},
        {"message": f"https://a.blob.core.windows.net/c?sv=2026&sig={SECRET}"},
        {"message": f"SharedAccessSignature=sv=2026&sig={SECRET}"},
        {"message": f"https://bucket/a?X-Amz-Signature={SECRET}"},
        {"default_container_envs": [{"name": "A", "value": SECRET}]},
    ],
)
def test_a_planted_secret_is_removed(value: Any) -> None:
    found = json.dumps(clean(value))
    assert SECRET not in found
    assert TOKEN.search(found)


def test_a_log_loses_a_private_key_of_many_lines_and_keeps_its_other_lines() -> None:
    key = f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n{SECRET}x\n-----END RSA PRIVATE KEY-----"
    found = Redactor(b"salt").log(f"starting\n{key}\nenv_vars: [not: valid\nready")
    assert SECRET not in found
    assert found.splitlines()[0] == "starting"
    assert found.splitlines()[-1] == "ready"


def test_the_beginning_of_a_key_without_its_end_hides_no_other_line() -> None:
    begin = "-----BEGIN PRIVATE KEY-----"
    found = Redactor(b"salt").log(f"{begin}\n{'A' * 64}\nready\nsaid: {begin}\nstopped")
    assert "A" * 64 not in found
    assert [line for line in found.splitlines() if "redacted" not in line] == ["ready", "stopped"]


@pytest.mark.parametrize(
    "text",
    ["A" * 200_000 + "-json", "eyJ" * 60_000, "token" * 40_000, "--" * 90_000 + " password"],
)
@pytest.mark.timeout(20)
def test_a_long_word_takes_no_longer_than_its_length(text: str) -> None:
    """Minutes to hours, when a match could begin at each letter."""
    assert len(Redactor(b"salt").text(text)) <= len(text)


@pytest.mark.parametrize(
    "token",
    [
        "AKIAIOSFODNN7EXAMPLE",
        "ghp_0123456789abcdefghij0123456789abcdef",
        "hf_abcdefghijklmnopqrstuvwx",
        "sk-proj-abcdefghijklmnopqrstuv",
        "xoxb-123456789012-abcdef",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
        "glpat-abcdefghijklmnopqrst",
    ],
)
def test_a_credential_is_known_by_its_shape(token: str) -> None:
    assert token not in json.dumps(clean({"note": f"use {token} for it"}))


@pytest.mark.parametrize(
    "value",
    [
        {"secretName": "my-secret", "tokenPath": "/var/run/token"},
        {"env": [{"name": "RAY_enable_autoscaler_v2", "value": "1"}]},
        {"env": [{"name": "FQ_RAY_IP", "value": "demo-head-svc.default.svc.cluster.local"}]},
        {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "token"}}}]},
        {"env": [{"name": "FLAG", "value": "true"}, {"name": "N", "value": "12"}]},
        {"rayStartParams": {"redis-password": "$REDIS_PASSWORD"}},
        {"command": ["run --token-file=$HOME/token --password $PASSWORD"]},
        {"image": "registry/ray@sha256:0123456789abcdef"},
        {"labels": {"ray.io/cluster": "demo"}, "uid": "0b5e3c1e-0000-4000-8000-000000000000"},
    ],
)
def test_what_decides_plans_stays(value: Any) -> None:
    assert clean(value) == value


def test_equal_secrets_have_equal_digests_and_others_have_others() -> None:
    one, two, three = (
        clean({"env": [{"name": name, "value": value}]})["env"][0]["value"]
        for name, value in (("A", SECRET), ("B", SECRET), ("A", f"{SECRET}!"))
    )
    assert one == two != three
    assert clean({"env": [{"name": "A", "value": one}]})["env"][0]["value"] == one


def test_a_digest_depends_on_the_key() -> None:
    other = Redactor(b"o" * 32).redact({"password": SECRET})
    assert other != clean({"password": SECRET})


def test_the_runtime_environment_in_a_command_is_redacted_like_the_one_in_the_spec() -> None:
    environment = {"env_vars": {"A": SECRET, "B": 'with "quotes" \\ and more'}, "pip": ["x"]}
    command = f"ray job submit --runtime-env-json {_shell(_json(environment))} -- python x.py"
    expected = f"--runtime-env-json {_shell(_json(clean(environment)))} "
    found = clean({"args": [command]})["args"][0]
    assert expected in found
    assert SECRET not in found
