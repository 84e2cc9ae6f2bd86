"""The screens of `manta top`: the fleet, one object, the GPUs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import ClassVar, Final

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Footer, Input, Static
from textual.worker import Worker

from manta.client.gpus import GpuRow
from manta.console.pages.fleet import TONES, Filter, items, nothing, waits_for
from manta.console.pages.parts import SHORT
from manta.console.snapshot import Item, Snapshot
from manta.console.terminal import tables
from manta.console.terminal.grid import Grid, text_of
from manta.console.terminal.source import Source
from manta.console.terminal.tables import Cell, Row, cell
from manta.kube.errors import MantaError

REFRESH: Final = 5.0
"""Seconds after which a screen without changes is shown again: ages grow, GPUs change."""
PAUSE: Final = 0.25
"""Seconds between two changes of the screen."""
_SORTS: Final = tuple(order for _, order in tables.FLEET if order)
_KINDS: Final = ("", *SHORT)
_TONES: Final = ("", *TONES)


class LiveScreen(Screen[None]):
    """A screen that shows a snapshot, again after each change."""

    source: Source

    def __init__(self, source: Source) -> None:
        super().__init__()
        self.source = source

    def on_mount(self) -> None:
        self._worker: Worker[None] = self.run_worker(self._follow, exclusive=True)

    async def _follow(self) -> None:
        while True:
            version = self.source.version
            if self.is_current:
                await self.show(self.source.snapshot())
            await self.source.wait_newer(version, REFRESH)
            await asyncio.sleep(PAUSE)

    async def show(self, snapshot: Snapshot) -> None:
        raise NotImplementedError

    async def on_screen_resume(self) -> None:
        await self.show(self.source.snapshot())


class FleetGrid(Grid):
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "select_cursor", "Open")]


class FleetScreen(LiveScreen):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("s", "sort", "Sort"),
        Binding("r", "reverse", "Reverse"),
        Binding("k", "kind", "Kind"),
        Binding("t", "state", "State"),
        Binding("g", "gpus", "GPUs"),
        Binding("escape", "clear", "Clear", show=False),
        Binding("q", "app.quit", "Quit"),
    ]

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.chosen = Filter()

    def compose(self) -> ComposeResult:
        yield Static(id="headline", markup=False)
        yield Static(id="capacity", markup=False)
        yield Static(id="notes", markup=False)
        yield Input(placeholder="name, state or reason", id="filter")
        yield FleetGrid([name for name, _ in tables.FLEET], id="fleet")
        yield Static(id="nothing", markup=False)
        yield Static(id="why", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        self.query_one(Input).display = False
        self.query_one(Grid).focus()  # Textual calls `on_mount` of the base class too

    async def show(self, snapshot: Snapshot) -> None:
        found = items(snapshot, self.chosen)
        self.query_one("#headline", Static).update(line(tables.headline(snapshot)))
        self.query_one("#capacity", Static).update(Text("   ".join(tables.capacity(snapshot))))
        notes = self.query_one("#notes", Static)
        notes.update(Text("\n".join(tables.notes(snapshot)), style="yellow"))
        notes.display = bool(snapshot.hidden)
        grid = self.query_one(Grid)
        grid.show({one.uid: tables.fleet_row(one, snapshot.now) for one in found})
        empty = self.query_one("#nothing", Static)
        empty.update(text_of(cell(nothing(snapshot))))
        empty.display = not found
        self._explain(found)
        grid.border_title = Text(self._title(len(found), len(snapshot.items)))
        grid.border_subtitle = text_of(cell(f"{snapshot.user or 'you'} on {self.source.server}"))

    def _title(self, shown: int, there: int) -> str:
        parts = [SHORT.get(self.chosen.kind, ""), TONES.get(self.chosen.tone, "")]
        if self.chosen.text:
            parts.append(repr(self.chosen.text))
        words = ", ".join(one for one in parts if one)
        counted = f"{shown} of {there} ({words})" if words else f"{there} objects"
        return f"{counted}, by {self.chosen.sort} {'↓' if self.chosen.down else '↑'}"

    def _explain(self, found: Sequence[Item]) -> None:
        """The whole sentence of the object under the cursor: its column may be too narrow."""
        chosen = self.query_one(Grid).chosen
        now = self.source.snapshot().now
        said = next((waits_for(one, now) for one in found if one.uid == chosen), "")
        self.query_one("#why", Static).update(text_of(cell(said)))

    def on_data_table_row_highlighted(self) -> None:
        self._explain(self.source.snapshot().items)

    # ── keys ─────────────────────────────────────────────────────────────────────────────

    async def on_data_table_row_selected(self) -> None:
        uid = self.query_one(Grid).chosen
        snapshot = self.source.snapshot()
        one = next((one for one in snapshot.items if one.uid == uid), None)
        if one is not None:
            await self.app.push_screen(ObjectScreen(self.source, one))

    def action_filter(self) -> None:
        box = self.query_one(Input)
        box.display = True
        box.focus()

    async def on_input_changed(self, event: Input.Changed) -> None:
        await self._choose(replace(self.chosen, text=event.value.strip()[:200]))

    def on_input_submitted(self) -> None:
        box = self.query_one(Input)
        box.display = bool(box.value)
        self.query_one(Grid).focus()

    async def action_clear(self) -> None:
        box = self.query_one(Input)
        box.value, box.display = "", False
        self.query_one(Grid).focus()
        await self._choose(replace(self.chosen, text="", kind="", tone=""))

    async def action_sort(self) -> None:
        after = _SORTS[(_SORTS.index(self.chosen.sort) + 1) % len(_SORTS)]
        await self._choose(replace(self.chosen, sort=after, down=False))

    async def action_reverse(self) -> None:
        await self._choose(replace(self.chosen, down=not self.chosen.down))

    async def action_kind(self) -> None:
        after = _KINDS[(_KINDS.index(self.chosen.kind) + 1) % len(_KINDS)]
        await self._choose(replace(self.chosen, kind=after))

    async def action_state(self) -> None:
        after = _TONES[(_TONES.index(self.chosen.tone) + 1) % len(_TONES)]
        await self._choose(replace(self.chosen, tone=after))

    async def action_gpus(self) -> None:
        await self.app.push_screen(GpuScreen(self.source))

    async def _choose(self, chosen: Filter) -> None:
        self.chosen = chosen
        await self.show(self.source.snapshot())


class ObjectScreen(LiveScreen):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace", "app.pop_screen", "Back"),
        Binding("g", "gpus", "GPUs"),
        Binding("q", "app.quit", "Quit"),
    ]

    def __init__(self, source: Source, one: Item) -> None:
        super().__init__(source)
        self._one = one

    def compose(self) -> ComposeResult:
        yield Static(id="headline", markup=False)
        yield Static(id="why", markup=False)
        yield Grid(tables.CONDITIONS, id="conditions")
        yield Grid(tables.PODS, id="pods")
        yield Grid(tables.EVENTS, id="events")
        yield Footer()

    async def show(self, snapshot: Snapshot) -> None:
        found = snapshot.get(self._one.kind, self._one.key)
        gone = found is None
        one = self._one = found or self._one
        row = tables.fleet_row(one, snapshot.now)
        state = cell("deleted", "bad") if gone else row[3]
        name = cell(f"{one.kind} {one.key}")
        self.query_one("#headline", Static).update(line((name, state, cell(f"{row[8].text} old"))))
        self.query_one("#why", Static).update(text_of(cell(waits_for(one, snapshot.now))))
        gpus, _ = await gpus_of(self.source, snapshot)
        self._fill("conditions", "Conditions", tables.condition_rows(one, snapshot.now))
        self._fill(
            "pods", "Pods", tables.pod_rows(snapshot, one, gpus), snapshot.hidden.get("pods")
        )
        rows = tables.event_rows(snapshot, one)
        self._fill("events", "Events", rows, snapshot.hidden.get("events"))

    def _fill(
        self, name: str, title: str, rows: tuple[Row, ...], hidden: str | None = None
    ) -> None:
        grid = self.query_one(f"#{name}", Grid)
        grid.show({f"{number} {row[0].text}": row for number, row in enumerate(rows)})
        grid.border_title = Text(f"{title}: {hidden}" if hidden else f"{title} ({len(rows)})")

    async def action_gpus(self) -> None:
        await self.app.push_screen(GpuScreen(self.source))


class GpuScreen(LiveScreen):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace,g", "app.pop_screen", "Back"),
        Binding("q", "app.quit", "Quit"),
    ]

    def compose(self) -> ComposeResult:
        yield Static(id="headline", markup=False)
        yield Grid(tables.GPUS, id="gpus")
        yield Footer()

    async def show(self, snapshot: Snapshot) -> None:
        gpus, why = await gpus_of(self.source, snapshot)
        rows = tables.gpu_rows(snapshot, gpus) or tables.requested_gpus(snapshot)
        busy = sum(1 for one in gpus if one.pod)
        words = f"{len(gpus)} GPUs, {busy} of them held by Pods"
        if not gpus:
            why = why or "nodes of `manta up` do"
            words = f"No node tells about its GPUs ({why}); Pods that request some:"
        self.query_one("#headline", Static).update(text_of(cell(words)))
        grid = self.query_one(Grid)
        grid.show({f"{number} {row[0].text}": row for number, row in enumerate(rows)})
        grid.border_title = "GPUs"


class TopApp(App[None]):
    TITLE = "manta top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Static { padding: 0 1; height: auto; }
    #headline { text-style: bold; }
    #capacity, #why { color: $text-muted; }
    Grid { height: 1fr; border: round $primary; scrollbar-size: 0 1; }
    #conditions { height: auto; max-height: 35%; }
    #events { min-height: 6; }
    #filter { border: round $accent; }
    """

    def __init__(self, source: Source) -> None:
        super().__init__()
        self._source = source

    def get_default_screen(self) -> Screen[None]:
        return FleetScreen(self._source)


def line(cells: Iterable[Cell]) -> Text:
    return Text("   ").join(text_of(one) for one in cells)


async def gpus_of(source: Source, snapshot: Snapshot) -> tuple[tuple[GpuRow, ...], str]:
    """The GPUs, or none and the reason: what Pods request is shown then."""
    try:
        return await source.gpus(snapshot), ""
    except MantaError as error:
        return (), str(error)
