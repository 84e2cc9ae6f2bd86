"""The condition that is ours: `Blocked` says what keeps a cluster from being whole.

True while there is something to tell; it stays True, with the last known cause, until every
wanted Pod is ready, and after failures until they have been ready for a minute. A healthy cluster
does not have it.
"""

from __future__ import annotations

from typing import Final

BLOCKED: Final = "Blocked"
