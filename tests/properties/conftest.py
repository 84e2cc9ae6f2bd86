"""Properties say what is true, never how fast: a busy machine must not fail them."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("manta", deadline=None)
settings.load_profile("manta")
