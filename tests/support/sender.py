"""Raw requests to a server: what no well-behaved client would send."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from manta.kube.client import Client
from manta.kube.transport import Request, Response


@dataclass(frozen=True, slots=True)
class Sender:
    """Raw requests of one user: any body, any content type, the answer as it is."""

    client: Client

    async def send(
        self,
        method: str,
        path: str,
        body: bytes | str | dict[str, Any] | list[Any] = b"",
        content_type: str = "application/json",
    ) -> Response:
        if isinstance(body, dict | list):
            body = json.dumps(body)
        path, _, query = path.partition("?")
        pairs = (pair.partition("=") for pair in query.split("&") if pair)
        return await self.client.transport.send(
            Request(
                method,
                path,
                query=tuple((name, value) for name, _, value in pairs),
                headers={"Content-Type": content_type},
                body=body.encode() if isinstance(body, str) else body,
            )
        )

    async def message(self, *request: Any) -> tuple[int, str]:
        """Status and message of a refusal; a body that is no Status fails."""
        answer = await self.send(*request)
        return answer.status, json.loads(answer.body)["message"]
