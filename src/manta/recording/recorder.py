"""The observer that records: encodes each reconcile, and appends it to the ring.

It never raises and never stops a reconcile: an error is logged, and recording pauses for a while. It keeps
to a share of the process's CPU time: an operator that is busy for long leaves some reconciles out, but none
that failed.
"""

from __future__ import annotations

import logging
import secrets
from datetime import datetime, timedelta
from pathlib import Path
from time import process_time, thread_time
from typing import Final

import msgspec

from manta import __version__
from manta.reconcile.observer import Reconciled
from manta.recording.encoding import encode_reconcile
from manta.recording.redaction import Redactor
from manta.recording.ring import Ring
from manta.recording.values import Values
from manta.runtime.clock import Clock

FORMAT: Final = "manta-recording"
FORMAT_VERSION: Final = 1
PAUSE_AFTER_ERROR: Final = timedelta(minutes=1)
CPU_SHARE: Final = 0.02
"""The share of the process's CPU time that recording may use."""
BURST_SECONDS: Final = 0.03
"""CPU time that recording may use beyond its share: the reconciles of some hundred objects."""
MAX_RECORD_BYTES: Final = 1024 * 1024
"""A larger reconcile is left out, with a line that says so."""

log = logging.getLogger(__name__)


class FlightRecorder:
    def __init__(
        self,
        folder: Path,
        clock: Clock,
        max_bytes: int,
        *,
        cpu_share: float = CPU_SHARE,
        salt: bytes | None = None,
    ) -> None:
        """Raises OSError if the folder cannot be made. `salt`: given by tests only."""
        self._clock = clock
        self._values = Values(Redactor(salt or secrets.token_bytes(32)))
        self._ring = Ring(folder, max_bytes, self._header)
        self._cpu_share = cpu_share
        self._used = 0.0
        self._number = 0
        self._left_out = 0
        self._paused_until: datetime | None = None

    @property
    def values(self) -> Values:
        return self._values

    def __call__(self, one: Reconciled) -> None:
        if self._paused_until is not None:
            if self._clock.now() < self._paused_until:
                return
            self._paused_until = None
        began = thread_time()
        if self._used > self._allowed() and not _has_failed(one):
            self._left_out += 1
            return
        try:
            self._record(one)
        except Exception:
            log.exception("cannot record; trying again in %s", PAUSE_AFTER_ERROR)
            self._ring.close()
            self._paused_until = self._clock.now() + PAUSE_AFTER_ERROR
        self._used += thread_time() - began

    def _allowed(self) -> float:
        """CPU seconds that recording may have used by now."""
        return BURST_SECONDS + self._cpu_share * process_time()

    def close(self) -> None:
        self._ring.close()

    def _record(self, one: Reconciled) -> None:
        if self._ring.needs_new_file:
            self._values.new_segment()
            self._ring.start_file()
        self._number += 1
        lines = encode_reconcile(self._values, self._number, one, self._left_out)
        if sum(map(len, lines)) > MAX_RECORD_BYTES:
            self._values.new_segment()
            self._ring.close()  # the values that it would refer to are not written
            self._left_out += 1
            log.warning("reconcile of %s %s is too large to record", one.controller, one.key)
            return
        self._left_out = 0
        self._ring.append(lines)

    def _header(self) -> bytes:
        header = {
            "line": "header",
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "manta": __version__,
            "started": self._clock.now(),
            "redaction": "secrets are keyed digests: redacted.<16 hex digits>",
        }
        return msgspec.json.encode(header) + b"\n"


def _has_failed(one: Reconciled) -> bool:
    return one.error is not None or (one.outcome is not None and bool(one.outcome.failures))
