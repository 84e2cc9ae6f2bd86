"""Polls the dashboards of a plane's Ray clusters, and stores the latest answers on disk.

`HistoryImporter` ships the answers with the rest of a Pod that is gone: `answers/<uid of the head>/<session>/<URI>`
in the directory of the plane.
"""

from __future__ import annotations

import asyncio
import base64
import math
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from manta.api.meta import Key
from manta.api.ray import names
from manta.api.resources import PODS, SECRETS
from manta.kube.client import Client
from manta.kube.errors import MantaError, NotFound
from manta.kube.proxy import pod_proxy_path
from manta.localplane.node.host.plane_id import NODE_DIRECTORY

_AT_ONCE: Final = 4
_UNSHIPPED_SECONDS: Final = 3600.0
_TIMEOUT_SECONDS: Final = 10.0
_HEADS: Final = f"{names.LABEL_NODE_TYPE}=head"


def answers_directory(directory: Path) -> Path:
    return directory / "answers"


def kept_directory(directory: Path) -> Path:
    """Where the node agent moves what is kept of a Pod."""
    return directory / NODE_DIRECTORY / "kept"


class AnswerPoller:
    def __init__(self, client: Client, directory: Path) -> None:
        self._client = client
        self._directory = answers_directory(directory)
        self._kept = kept_directory(directory)
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._due: dict[str, float] = {}
        """When the dashboard of a head is polled next, by its UID."""

    async def run(self) -> None:
        """Until cancelled."""
        from manta.history.answers import POLL_SECONDS

        async with asyncio.TaskGroup() as group:
            while True:
                try:
                    heads = await self._heads()
                    self.start(group, heads)
                    await asyncio.to_thread(self.remove_old, heads)
                except (MantaError, OSError) as error:
                    _warn("dashboards", error)
                await asyncio.sleep(POLL_SECONDS)

    def start(self, group: asyncio.TaskGroup, heads: Sequence[Mapping[str, Any]]) -> None:
        """Poll each that is due. One that hangs, or has an error, stops no other."""
        now = time.monotonic()
        uids = {one["metadata"]["uid"] for one in heads}
        self._due = {uid: at for uid, at in self._due.items() if uid in uids}
        for pod in heads:
            uid = pod["metadata"]["uid"]
            if self._due.get(uid, now) <= now:
                self._due[uid] = math.inf  # until its poll has ended
                group.create_task(self._poll_in_turn(pod))

    async def _poll_in_turn(self, pod: Mapping[str, Any]) -> None:
        from manta.history.answers import pause_after

        meta = pod["metadata"]
        async with self._turns:
            began = time.monotonic()
            try:
                await self._poll(pod)
            except Exception as error:  # noqa: BLE001 - such as a token that is not valid in a header
                _warn(f"the dashboard of Pod {meta['namespace']}/{meta['name']}", error)
            ended = time.monotonic()
            self._due[meta["uid"]] = ended + pause_after(ended - began)

    def remove_old(self, heads: Sequence[Mapping[str, Any]]) -> None:
        """Remove the answers of heads that neither run nor wait, with their logs, for the store. Blocking. Raises OSError."""
        from manta.history.answers import remove_old
        from manta.localplane.node.pod.kept import kept_pods

        waiting = [one.name for one in kept_pods(self._kept)]
        uids = [*waiting, *(one["metadata"]["uid"] for one in heads)]
        remove_old(self._directory, uids, time.time() - _UNSHIPPED_SECONDS)

    async def _heads(self) -> list[Mapping[str, Any]]:
        """The running heads of clusters whose history is kept."""
        found = (await self._client.list(PODS, labels=_HEADS)).items
        return [
            one
            for one in found
            if (one.get("status") or {}).get("phase") == "Running"
            and "/" in (one["metadata"].get("annotations") or {}).get(names.ANNOTATION_HISTORY, "")
        ]

    async def _poll(self, pod: Mapping[str, Any]) -> None:
        from manta.history.answers import AnswerFiles, answering_session, keep_answers
        from manta.history.kept_pods import identity
        from manta.localplane.node.pod.kept import KeptPod

        meta = pod["metadata"]
        record = KeptPod(
            meta["namespace"], meta["name"], meta["uid"], meta["labels"], meta["annotations"]
        )
        who = identity(record)
        if who is None:
            return
        loop = asyncio.get_running_loop()
        headers = await self._headers(pod)
        files = AnswerFiles(self._directory / meta["uid"])

        def fetch(uri: str) -> bytes | None:
            answer = self._get(pod, uri, headers)
            return asyncio.run_coroutine_threadsafe(answer, loop).result()

        if session := await asyncio.to_thread(answering_session, fetch, who):
            await asyncio.to_thread(keep_answers, fetch, session, files)

    async def _get(
        self, pod: Mapping[str, Any], uri: str, headers: Mapping[str, str]
    ) -> bytes | None:
        from manta.history.answers import MAX_ANSWER_BYTES

        meta = pod["metadata"]
        url = urlsplit(uri)
        path = pod_proxy_path(meta["namespace"], meta["name"], _port(pod), url.path)
        pairs = tuple(parse_qsl(url.query, keep_blank_values=True))
        try:
            answer = await self._client.send(
                "GET", path, query=pairs, headers=headers, timeout=_TIMEOUT_SECONDS, check=False, limit=MAX_ANSWER_BYTES
            )  # fmt: skip
        except MantaError:
            return None  # it starts, or is gone
        return answer.body if answer.status == 200 else None

    async def _headers(self, pod: Mapping[str, Any]) -> dict[str, str]:
        """With the token of the cluster, if it has one in a Secret."""
        for one in _ray_container(pod).get("env") or ():
            source = (one.get("valueFrom") or {}).get("secretKeyRef")
            if one["name"] == names.ENV_AUTH_TOKEN and source:
                try:
                    key = Key(pod["metadata"]["namespace"], source["name"])
                    data = (await self._client.get(SECRETS, key)).get("data") or {}
                except NotFound:
                    return {}
                token = base64.b64decode(data.get(source["key"], "")).decode(errors="replace")
                return {"x-ray-authorization": f"Bearer {token}"}
        return {}


def _warn(whose: str, error: Exception) -> None:
    words = f"history: answers of {whose} are not kept: {error!s:.300}"
    print(words, file=sys.stderr, flush=True)


def _ray_container(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = pod["spec"]["containers"][0]
    return found


def _port(pod: Mapping[str, Any]) -> int:
    ports = _ray_container(pod).get("ports") or ()
    named = (one["containerPort"] for one in ports if one.get("name") == names.PORT_NAME_DASHBOARD)
    return next(named, names.PORT_DASHBOARD)
