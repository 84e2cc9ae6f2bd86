"""What all suites share: how hypothesis searches.

Properties say what is true, never how fast: a busy machine must not fail them. In CI the examples are
the same for the same code, so that a landing does not depend on luck; elsewhere they are new each time.
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("manta", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("manta")
