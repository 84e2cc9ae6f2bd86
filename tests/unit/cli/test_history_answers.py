"""The questions of `manta up --history` to dashboards: one odd head stops no other."""

from __future__ import annotations

import asyncio
import base64
import os
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest

from manta.api.ray import names
from manta.cli.plane.history_answers import AnswerPoller, answers_directory, kept_directory
from manta.kube.transport import Response
from support.history import SESSION, WHO

TOKEN = {"name": names.ENV_AUTH_TOKEN, "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}


class FakeClient:
    """Answers every question with the session; refuses a header with a line break, as transports do."""

    async def get(self, *_: object) -> dict[str, Any]:
        return {"data": {"k": base64.b64encode(b"a\nb").decode()}}

    async def send(self, *_: object, headers: dict[str, str], **__: object) -> Response:
        if any("\n" in value for value in headers.values()):
            raise ValueError("a line break in a header")
        body = b'{"session_name": "%s"}' % SESSION.encode()
        return Response(200, {}, body)


def head(name: str, *env: dict[str, Any]) -> dict[str, Any]:
    annotations = {names.ANNOTATION_HISTORY: f"{WHO.kind}/{WHO.name}/{WHO.cluster}"}
    labels = {names.LABEL_NODE_TYPE: "head", names.LABEL_CLUSTER: WHO.cluster}
    meta = {"namespace": "default", "name": name, "uid": name, "labels": labels}
    container = {"name": "ray", "env": list(env)}
    return {"metadata": {**meta, "annotations": annotations}, "spec": {"containers": [container]}}


def test_a_token_that_is_no_header_stops_no_other_head(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def poll() -> None:
        poller = AnswerPoller(cast("Any", FakeClient()), tmp_path)
        async with asyncio.TaskGroup() as group:
            poller.start(group, [head("odd", TOKEN), head("well")])

    asyncio.run(poll())
    assert "Pod default/odd are not kept: a line break" in capsys.readouterr().err
    kept = [one for one in answers_directory(tmp_path).rglob("*") if one.is_file()]
    assert kept
    assert {one.relative_to(answers_directory(tmp_path)).parts[0] for one in kept} == {"well"}


async def test_a_dashboard_that_hangs_holds_up_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Hanging(FakeClient):
        asked: ClassVar[Counter[str]] = Counter()

        async def list(self, *_: object, **__: object) -> SimpleNamespace:
            running = {"status": {"phase": "Running"}}
            return SimpleNamespace(items=[{**head(name), **running} for name in ("hangs", "well")])

        async def send(self, *words: object, **options: Any) -> Response:
            path = str(words[1])
            name = "hangs" if "/hangs" in path else "well"
            if path.endswith("api/version"):
                self.asked[name] += 1
            elif name == "hangs":
                await asyncio.sleep(3600)
            return await super().send(*words, **options)

    monkeypatch.setattr("manta.history.answers.POLL_SECONDS", 0.01)
    polling = asyncio.create_task(AnswerPoller(cast("Any", Hanging()), tmp_path).run())
    async with asyncio.timeout(20):
        while Hanging.asked["well"] < 3:
            await asyncio.sleep(0.01)
    polling.cancel()
    await asyncio.gather(polling, return_exceptions=True)
    assert Hanging.asked["hangs"] == 1


def test_answers_of_a_pod_that_waits_for_the_store_are_not_removed(tmp_path: Path) -> None:
    """The store may be down for longer than an hour, and a Pod may be set aside."""
    for uid in ("waits", "runs", "gone"):
        place = answers_directory(tmp_path) / uid
        place.mkdir(parents=True)
        os.utime(place, (1, 1))
    (kept_directory(tmp_path) / "waits").mkdir(parents=True)
    AnswerPoller(cast("Any", FakeClient()), tmp_path).remove_old([head("runs")])
    assert sorted(one.name for one in answers_directory(tmp_path).iterdir()) == ["runs", "waits"]
