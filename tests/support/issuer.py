"""An OIDC issuer on 127.0.0.1, as strict as the specification."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote_plus, urlencode, urlsplit

from manta.httpserver.handler import Handler
from manta.httpserver.messages import HttpRequest, HttpResponse, json_response
from manta.httpserver.server import HttpServer

CLIENT = "manta"
SECRET = "s3cret/&+"


def jwt(claims: dict[str, Any]) -> str:
    def part(content: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")

    return f"{part({'alg': 'none'})}.{part(claims)}.{secrets.token_urlsafe(8)}"


@dataclass
class FakeIssuer(Handler):
    url: str = ""
    seconds: float = 3600.0
    """How long an id_token lasts."""
    claims: dict[str, Any] = field(default_factory=dict)
    """That replace right ones."""
    renews: bool = True
    asked: list[str] = field(default_factory=list)
    """The grant types of the token requests."""
    _codes: dict[str, dict[str, str]] = field(default_factory=dict)
    _refresh: set[str] = field(default_factory=set)

    def log_in(self, address: str) -> str:
        """What a person does at the issuer; the address that the browser is sent to."""
        parts = urlsplit(address)
        assert f"{parts.scheme}://{parts.netloc}{parts.path}" == f"{self.url}/authorize"
        asked = {name: one[0] for name, one in parse_qs(parts.query).items()}
        assert (asked["response_type"], asked["client_id"]) == ("code", CLIENT)
        assert asked["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe(16)
        self._codes[code] = asked
        return f"{asked['redirect_uri']}?code={code}&state={asked['state']}"

    async def handle(self, request: HttpRequest) -> HttpResponse:
        if request.path == "/.well-known/openid-configuration":
            return json_response(200, {
                "issuer": self.url,
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
            })  # fmt: skip
        if request.path == "/authorize":  # a person who is logged in there already
            to = self.log_in(f"{self.url}/authorize?{urlencode(request.query)}")
            return HttpResponse(302, b"", (("Location", to),))
        if request.path == "/token" and request.method == "POST":
            return self._token(request)
        return json_response(404, {})

    def _token(self, request: HttpRequest) -> HttpResponse:
        basic = base64.b64decode(request.headers["authorization"].removeprefix("Basic ")).decode()
        if [unquote_plus(one) for one in basic.split(":")] != [CLIENT, SECRET]:
            return json_response(401, {"error": "invalid_client"})
        fields = {name: one[0] for name, one in parse_qs(request.body.decode()).items()}
        self.asked.append(fields["grant_type"])
        nonce = ""
        if fields["grant_type"] == "refresh_token":
            if fields["refresh_token"] not in self._refresh:
                return json_response(400, {"error": "invalid_grant"})
            self._refresh.remove(fields["refresh_token"])
        else:
            asked = self._codes.pop(fields["code"], None)
            digest = hashlib.sha256(fields["code_verifier"].encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
            if asked is None or asked["code_challenge"] != challenge:
                return json_response(400, {"error": "invalid_grant"})
            if asked["redirect_uri"] != fields["redirect_uri"]:
                return json_response(400, {"error": "invalid_grant"})
            nonce = asked["nonce"]
        return json_response(200, self._tokens(nonce))

    def _tokens(self, nonce: str) -> dict[str, str]:
        now = time.time()
        held: dict[str, Any] = {"iss": self.url, "sub": "ada", "aud": CLIENT, "iat": now}
        held |= {"exp": now + self.seconds, **({"nonce": nonce} if nonce else {}), **self.claims}
        found = {"id_token": jwt(held), "access_token": "not used"}
        if self.renews:
            found["refresh_token"] = secrets.token_urlsafe(24)
            self._refresh.add(found["refresh_token"])
        return found


@asynccontextmanager
async def running_issuer() -> AsyncIterator[FakeIssuer]:
    issuer = FakeIssuer()
    server = HttpServer(issuer)
    port = await server.start("127.0.0.1", 0)
    issuer.url = f"http://127.0.0.1:{port}"
    try:
        yield issuer
    finally:
        await server.stop(grace_seconds=0.1)
