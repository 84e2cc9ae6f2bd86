"""When a rolling update last made progress: recorded on the newest revision, so that it survives the operator."""

from __future__ import annotations

from datetime import datetime

import msgspec

from manta.api.meta import View
from manta.api.ray import names
from manta.api.revisions import ControllerRevision
from manta.api.times import parse_time


class Progress(View, frozen=True, kw_only=True):
    to: str
    """The name of the revision that the Pods get."""
    outdated: int = 0
    """Pods that are left to replace."""
    available: int = 0
    """Updated replicas that are available."""
    paused: bool = False
    at: str = ""

    @property
    def time(self) -> datetime:
        return parse_time(self.at)

    def is_behind(self, now: Progress) -> bool:
        """Whether `now` is worth recording: something was replaced, or the update is another one."""
        if (self.to, self.paused) != (now.to, now.paused):
            return True
        return now.outdated < self.outdated or now.available > self.available


def recorded_progress(revision: ControllerRevision) -> Progress | None:
    """None: none was recorded, or somebody wrote nonsense."""
    text = revision.metadata.annotations.get(names.ANNOTATION_ROLLOUT_PROGRESS, "")
    try:
        found = msgspec.json.decode(text, type=Progress)
        parse_time(found.at)
    except ValueError:
        return None
    return found


def written(progress: Progress) -> str:
    return msgspec.json.encode(progress).decode()
