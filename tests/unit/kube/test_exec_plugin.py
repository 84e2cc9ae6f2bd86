"""Exec plugins: a real script is run; nothing here opens a socket."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from manta.kube import exec_plugin
from manta.kube.cluster import ExecPlugin
from manta.kube.errors import CredentialsError

V1 = "client.authentication.k8s.io/v1"
GOOD = {"apiVersion": V1, "kind": "ExecCredential", "status": {"token": "t"}}


def script(tmp_path: Path, body: str) -> ExecPlugin:
    path = tmp_path / "plugin"
    path.write_text(f"#!{sys.executable} -S\n{body}\n")
    path.chmod(0o755)
    return ExecPlugin(str(path), V1, environment={"PATH": "/nowhere"})


def printing(tmp_path: Path, answer: object) -> ExecPlugin:
    return script(tmp_path, f"print({msgspec.json.encode(answer).decode()!r})")


async def test_a_token_with_its_expiry_is_read(tmp_path: Path) -> None:
    status = {"token": "t", "expirationTimestamp": "2026-11-15T12:00:00Z"}
    got = await exec_plugin.run(printing(tmp_path, GOOD | {"status": status}), "user 'x'")
    assert got.token == "t"
    assert got.expires == datetime(2026, 11, 15, 12, tzinfo=UTC)


async def test_a_certificate_is_read(tmp_path: Path) -> None:
    status = {"clientCertificateData": "C", "clientKeyData": "K"}
    got = await exec_plugin.run(printing(tmp_path, GOOD | {"status": status}), "user 'x'")
    assert (got.token, got.certificate, got.key) == ("", b"C", b"K")


async def test_the_plugin_sees_its_variables_arguments_and_the_exec_info(tmp_path: Path) -> None:
    echo = (
        "import os, json, sys\n"
        "seen = [os.environ['A'], os.environ['HOME'], sys.argv[1], os.environ['KUBERNETES_EXEC_INFO']]\n"
        f"print(json.dumps({{'apiVersion': '{V1}', 'kind': 'ExecCredential',"
        " 'status': {'token': json.dumps(seen)}}))"
    )
    plugin = script(tmp_path, echo)
    full = ExecPlugin(
        plugin.command, V1, ("arg",), {"A": "1"}, {"HOME": "/h"}, {"server": "https://api"}
    )
    got = await exec_plugin.run(full, "user 'x'")
    one, home, argument, info = msgspec.json.decode(got.token)
    assert (one, home, argument) == ("1", "/h", "arg")
    assert msgspec.json.decode(info) == {
        "apiVersion": V1,
        "kind": "ExecCredential",
        "spec": {"interactive": False, "cluster": {"server": "https://api"}},
    }


async def test_a_plugin_that_is_not_installed_tells_how_to_get_it() -> None:
    plugin = ExecPlugin(
        "no-such-plugin", V1, environment={"PATH": "/nowhere"}, install_hint="brew it"
    )
    with pytest.raises(
        CredentialsError, match="'no-such-plugin' of user 'x' was not found: brew it"
    ):
        await exec_plugin.run(plugin, "user 'x'")


async def test_a_plugin_without_a_hint_is_looked_for_in_path() -> None:
    plugin = ExecPlugin("no-such-plugin", V1, environment={"PATH": "/nowhere"})
    with pytest.raises(CredentialsError, match="into PATH"):
        await exec_plugin.run(plugin, "user 'x'")


async def test_a_failing_plugin_is_quoted(tmp_path: Path) -> None:
    plugin = script(
        tmp_path, "import sys; sys.stderr.write('session expired\\nlog in'); sys.exit(3)"
    )
    with pytest.raises(CredentialsError, match="exit status 3: session expired log in"):
        await exec_plugin.run(plugin, "user 'x'")


async def test_a_plugin_that_hangs_is_ended(tmp_path: Path) -> None:
    plugin = script(tmp_path, "import time; time.sleep(60)")
    with pytest.raises(CredentialsError, match="did not finish within"):
        await exec_plugin.run(plugin, "user 'x'", limit=0.01)


async def test_a_plugin_that_needs_a_terminal_is_refused() -> None:
    with pytest.raises(CredentialsError, match="interactiveMode"):
        await exec_plugin.run(ExecPlugin("x", V1, needs_terminal=True), "user 'x'")


async def test_a_file_that_cannot_be_run_is_named(tmp_path: Path) -> None:
    path = tmp_path / "plugin"
    path.write_bytes(b"\x7fELF nonsense")
    path.chmod(0o755)
    with pytest.raises(CredentialsError, match="cannot be run"):
        await exec_plugin.run(ExecPlugin(str(path), V1, environment={"PATH": "/"}), "user 'x'")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"hello", "no ExecCredential"),
        (b"{}", "no ExecCredential"),
        (GOOD | {"kind": "Other"}, "Other"),
        (GOOD | {"apiVersion": V1 + "beta1"}, "v1beta1.*make them agree"),
        (GOOD | {"status": {}}, "neither status.token nor"),
        ({"apiVersion": V1, "kind": "ExecCredential"}, "neither status.token nor"),
        (GOOD | {"status": {"clientCertificateData": "C"}}, "without the other"),
        (GOOD | {"status": {"token": "t", "expirationTimestamp": "soon"}}, "expirationTimestamp"),
    ],
)
def test_an_answer_that_is_no_credential_says_why(answer: object, said: str) -> None:
    raw = answer if isinstance(answer, bytes) else msgspec.json.encode(answer)
    with pytest.raises(CredentialsError, match=said):
        exec_plugin.read_credential(raw, V1, "exec plugin 'p'")
