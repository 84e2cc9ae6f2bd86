"""What all suites share: how hypothesis searches, and that Ctrl-C works.

Properties say what is true, never how fast: a busy machine must not fail them. In CI the examples are
the same for the same code, so that a landing does not depend on luck; elsewhere they are new each time.
"""

from __future__ import annotations

import os
import signal

from hypothesis import settings

settings.register_profile("manta", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("manta")

# A shell starts background jobs with SIGINT ignored, and the commands that tests start inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
