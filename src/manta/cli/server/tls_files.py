"""The certificate of a server that people reach: files of `--tls-cert` and `--tls-key`."""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path

from manta.api.usage import UsageError

log = logging.getLogger(__name__)

RELOAD_SECONDS = 60.0
"""Interval at which the files are checked, because others renew them."""


def tls_context(cert: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """None without both. Raises UsageError."""
    if (cert is None) != (key is None):
        raise UsageError("--tls-cert and --tls-key: give both, or none of them")
    if cert is None or key is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(cert, key)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"--tls-cert {cert}: {error}") from error
    return context


async def keep_current(context: ssl.SSLContext, cert: Path, key: Path) -> None:
    """Load the files again when they change: new connections get the new certificate. Until cancelled."""
    loaded = _changed(cert)
    while True:
        await asyncio.sleep(RELOAD_SECONDS)
        try:
            found = _changed(cert)
            if found != loaded:
                context.load_cert_chain(cert, key)
                loaded = found
        except (OSError, ssl.SSLError) as error:
            log.warning("the certificate %s cannot be loaded: %s", cert, error)


def _changed(file: Path) -> int:
    return file.stat().st_mtime_ns
