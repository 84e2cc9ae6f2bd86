"""The progress of a RayService upgrade, as text with bars. Pure."""

from __future__ import annotations

from manta.client.upgrade_state import WORDS, Side, View

WIDTH = 20
FULL, EMPTY = "█", "░"


def line(view: View) -> str:
    """The view in one line, for logs."""
    sides = [
        f"{one.cluster} ({one.role}) traffic {one.traffic} % capacity {one.capacity} %"
        for one in view.sides
    ]
    waits = [f"waits for: {view.waits_for}"] if view.waits_for else []
    return "; ".join([f"rayservice/{view.name} {WORDS[view.stage]}", *sides, *waits])


def picture(view: View, elapsed: float) -> list[str]:
    """The view in a few lines, for a terminal."""
    minutes, seconds = divmod(int(elapsed), 60)
    lines = [f"rayservice/{view.name} {WORDS[view.stage]}   {minutes:02}:{seconds:02}"]
    wide = max((len(one.cluster) for one in view.sides), default=0)
    lines += [_bars(one, wide) for one in view.sides]
    if view.waits_for:
        lines.append(f"  waits for: {view.waits_for}")
    return lines


def _bars(side: Side, wide: int) -> str:
    bars = f"traffic {bar(side.traffic)}   capacity {bar(side.capacity)}"
    more = f"   {side.applications}" if side.applications else ""
    return f"  {side.cluster:<{wide}}  {side.role:<7}  {bars}{more}"


def bar(percent: int) -> str:
    filled = round(WIDTH * min(max(percent, 0), 100) / 100)
    return f"{FULL * filled}{EMPTY * (WIDTH - filled)} {percent:>3} %"
