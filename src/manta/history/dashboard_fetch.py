"""Fetches from the dashboard of the Pod that a collector runs in."""

from __future__ import annotations

import http.client
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from manta.api.ray import names
from manta.history.answers import MAX_ANSWER_BYTES, Fetch

log = logging.getLogger(__name__)
_SECONDS: Final = 10.0


def dashboard_fetcher(address: str, environment: Mapping[str, str]) -> Fetch:
    """A function that sends GET requests to this URL, with the token of the cluster if it has one. Raises ValueError."""
    parts = urlsplit(address)
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError(f"dashboard {address!r}: write it as http://localhost:8265")
    host, port = parts.hostname, parts.port

    def fetch(uri: str) -> bytes | None:
        connection = http.client.HTTPConnection(host, port, timeout=_SECONDS)
        try:
            connection.request("GET", f"/{uri}", headers=_headers(environment))
            answer = connection.getresponse()
            body = answer.read(MAX_ANSWER_BYTES + 1)
        except (OSError, http.client.HTTPException, ValueError) as error:
            log.debug("%s: %s", uri, error)
            return None
        finally:
            connection.close()
        return body if answer.status == 200 and len(body) <= MAX_ANSWER_BYTES else None

    return fetch


def _headers(environment: Mapping[str, str]) -> dict[str, str]:
    token = environment.get(names.ENV_AUTH_TOKEN, "")
    if not token and environment.get(names.ENV_ENABLE_K8S_TOKEN_AUTH):
        token = (Path(names.MOUNT_TOKEN) / "token").read_text().strip()  # the kubelet renews it
    return {"x-ray-authorization": f"Bearer {token}"} if token else {}
