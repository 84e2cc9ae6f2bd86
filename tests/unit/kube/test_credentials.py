"""Credentials that grow old, by the clock or by a 401."""

from __future__ import annotations

import asyncio
import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from manta.kube import credentials, exec_plugin
from manta.kube.cluster import ExecPlugin, User
from manta.kube.credentials import (
    FileCredentialProvider,
    PluginCredentialProvider,
    credential_provider_for,
    token_expiry,
)
from manta.kube.errors import CredentialsError
from manta.kube.exec_plugin import PluginCredential

START = datetime(2026, 11, 15, 12, tzinfo=UTC)
PLUGIN = ExecPlugin("p", "client.authentication.k8s.io/v1")


def jwt(**claims: object) -> str:
    body = base64.urlsafe_b64encode(msgspec.json.encode(claims)).decode().rstrip("=")
    return f"e30.{body}.sig"


async def bearer(of: credentials.CredentialProvider) -> str:
    return (await of.credential()).headers.get("authorization", "")


# ── files ────────────────────────────────────────────────────────────────────────────────────
async def test_a_token_file_is_read_again_after_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text("one\n")
    mine = FileCredentialProvider(User(token_file=file))
    assert await bearer(mine) == "Bearer one"
    file.write_text("two")
    assert await bearer(mine) == "Bearer one"
    monkeypatch.setattr(credentials, "FILE_LIFETIME_SECONDS", 0.0)
    assert await bearer(mine) == "Bearer two"


async def test_a_refusal_reads_the_file_at_once(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one")
    mine = FileCredentialProvider(User(token_file=file))
    refused = await mine.credential()
    assert await mine.renew(refused) is False
    file.write_text("two")
    assert await mine.renew(refused) is True
    assert await bearer(mine) == "Bearer two"


async def test_a_token_file_in_renewal_keeps_its_last_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "FILE_LIFETIME_SECONDS", 0.0)
    file = tmp_path / "token"
    file.write_text("one")
    mine = FileCredentialProvider(User(token_file=file))
    await mine.credential()
    file.unlink()
    assert await bearer(mine) == "Bearer one"
    file.write_text("")
    assert await bearer(mine) == "Bearer one"


async def test_a_token_file_that_never_was_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match=r"user 'x'.*No such file"):
        await FileCredentialProvider(User("user 'x'", token_file=tmp_path / "none")).credential()


async def test_a_token_of_several_lines_is_refused_without_being_shown() -> None:
    assert await bearer(FileCredentialProvider(User(token="one\n"))) == "Bearer one"
    with pytest.raises(
        CredentialsError, match="token of user 'me' contains a line break"
    ) as caught:
        await FileCredentialProvider(User("user 'me'", token="one\ntwo")).credential()
    assert "two" not in str(caught.value)


async def test_certificate_files_are_read_again_too(tmp_path: Path) -> None:
    certificate, key = tmp_path / "c", tmp_path / "k"
    certificate.write_bytes(b"C1")
    key.write_bytes(b"K1")
    mine = FileCredentialProvider(User(certificate=certificate, key=key))
    refused = await mine.credential()
    assert (refused.certificate, refused.key) == (b"C1", b"K1")
    certificate.write_bytes(b"C2")
    assert await mine.renew(refused) is True
    assert (await mine.credential()).certificate == b"C2"


async def test_impersonation_goes_with_every_request() -> None:
    mine = FileCredentialProvider(User(token="t", headers={"impersonate-user": "bob"}))
    assert dict((await mine.credential()).headers) == {
        "authorization": "Bearer t",
        "impersonate-user": "bob",
    }


# ── plugins ──────────────────────────────────────────────────────────────────────────────────
class Runs:
    """Stands in for the plugin process: counts, and prints a new token at each run."""

    def __init__(self, expires: datetime | None = None) -> None:
        self.count = 0
        self.expires = expires

    async def run(self, plugin: ExecPlugin, origin: str) -> PluginCredential:
        self.count += 1
        await asyncio.sleep(0)
        return PluginCredential(f"t{self.count}", b"", b"", self.expires)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    runs = Runs()
    monkeypatch.setattr(exec_plugin, "run", runs.run)
    return runs


async def test_a_plugin_runs_once_for_all_who_wait(runs: Runs) -> None:
    mine = PluginCredentialProvider(User(), PLUGIN, None)
    assert set(await asyncio.gather(*(bearer(mine) for _ in range(5)))) == {"Bearer t1"}
    assert runs.count == 1


async def test_a_plugin_runs_again_before_its_credential_expires(runs: Runs) -> None:
    now = START
    runs.expires = START + timedelta(minutes=5)
    mine = credential_provider_for(User(plugin=PLUGIN), lambda: now)
    assert await bearer(mine) == "Bearer t1"
    now = START + timedelta(minutes=4)
    assert await bearer(mine) == "Bearer t1"
    now, runs.expires = START + timedelta(minutes=4, seconds=55), START + timedelta(hours=1)
    assert await bearer(mine) == "Bearer t2"


async def test_a_refusal_runs_the_plugin_once_for_all_who_were_refused(runs: Runs) -> None:
    mine = PluginCredentialProvider(User(), PLUGIN, None)
    refused = await mine.credential()
    assert await asyncio.gather(*(mine.renew(refused) for _ in range(2))) == [True, True]
    assert runs.count == 2
    assert await bearer(mine) == "Bearer t2"


# ── what is said about a refusal ─────────────────────────────────────────────────────────────
async def test_an_expired_token_is_named_with_its_end(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(jwt(exp=int(START.timestamp())))
    mine = FileCredentialProvider(User("user 'x' in /k", token_file=file))
    said = mine.explain_refusal(await mine.credential())
    assert said == (
        f"the token of user 'x' in /k (from {file}) was refused; "
        "it is valid until 2026-11-15T12:00:00Z: get a new one"
    )


async def test_other_refusals_name_the_user() -> None:
    nobody = FileCredentialProvider(User("user 'x'"))
    assert "no credentials" in nobody.explain_refusal(await nobody.credential())
    bearer_of_paper = FileCredentialProvider(User("user 'x'", certificate=b"C", key=b"K"))
    assert "client certificate" in bearer_of_paper.explain_refusal(
        await bearer_of_paper.credential()
    )


@pytest.mark.parametrize("token", ["opaque", "a.b.c", f"e30.{'!' * 4}.x", jwt(), jwt(exp="soon")])
def test_tokens_that_say_nothing_of_their_end(token: str) -> None:
    assert token_expiry(token) is None
