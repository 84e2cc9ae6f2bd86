"""`manta replay FILE|DIR`: what the operator saw and did, and whether this version would do the same."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from manta import __version__
from manta.cli.output.help import examples


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "replay",
        description="Show each reconcile that `manta operator --record` recorded, compute its plan "
        "again with this version, and compare. Exit code 1: a plan differs.",
        **examples(
            ("manta replay DIR", "the story of every recorded reconcile"),
            ("manta replay DIR --differences", "only reconciles that this version plans otherwise"),
            ("manta replay FILE --object default/demo", "only those of one object"),
            ("manta replay DIR -o json", "for programs"),
        ),
    )
    parser.add_argument("paths", nargs="+", type=Path, metavar="FILE|DIR")
    parser.add_argument("--object", metavar="NAMESPACE/NAME", default="", help="only this object")
    parser.add_argument("--controller", metavar="NAME", default="", help="such as raycluster")
    parser.add_argument("--last", type=int, metavar="N", default=0, help="only the last N")
    parser.add_argument(
        "--differences", action="store_true", help="only those with another plan now"
    )
    parser.add_argument("-o", "--output", choices=("json",), default="", help="json: for programs")


@dataclass
class _Totals:
    reconciles: int = 0
    same: int = 0
    different: int = 0
    unreadable: int = 0
    versions: set[str] = field(default_factory=set)


def run(args: argparse.Namespace) -> int:
    from manta.recording.replay import replay
    from manta.recording.report import ReplayReport

    totals, report = _Totals(), ReplayReport()
    for recorded in _chosen(args):
        replayed = replay(recorded)
        totals.versions.add(str(recorded.segment.header.get("manta", "?")))
        totals.reconciles += 1
        totals.same += replayed.same
        totals.unreadable += bool(replayed.unreadable)
        totals.different += bool(replayed.differences)
        lines = list(report.lines(replayed))  # also for those that are not shown: it remembers
        if args.differences and replayed.same:
            continue
        if args.output == "json":
            print(json.dumps(_document(replayed)))
        else:
            print("\n".join(lines))
    _summary(args, totals)
    return 1 if totals.different or totals.unreadable else 0


def _chosen(args: argparse.Namespace) -> Iterator[Any]:
    from manta.recording.reader import files_of, read_recording

    found = []
    for path in files_of(args.paths):
        for one in read_recording(path):
            if isinstance(one, str):
                print(f"manta replay: {one}", file=sys.stderr)
            elif _is_wanted(args, one):
                if not args.last:
                    yield one
                found.append(one) if args.last else None
                del found[: -args.last or len(found)]
    yield from found


def _is_wanted(args: argparse.Namespace, one: Any) -> bool:
    if args.object and one.key != args.object:
        return False
    return not args.controller or one.controller.startswith(args.controller.lower())


def _document(replayed: Any) -> dict[str, Any]:
    recorded = replayed.recorded
    return {
        "number": recorded.number,
        "file": recorded.segment.name,
        "controller": recorded.controller,
        "object": recorded.key,
        "same": replayed.same,
        "differences": list(replayed.differences),
        "notes": list(replayed.notes),
        "unreadable": replayed.unreadable,
    }


def _summary(args: argparse.Namespace, totals: _Totals) -> None:
    by = ", ".join(sorted(totals.versions)) or "nothing"
    text = (
        f"{totals.reconciles} reconciles of manta {by}, replayed by {__version__}: "
        f"{totals.same} with the same plan, {totals.different} with another one"
    )
    if totals.unreadable:
        text += f", {totals.unreadable} that cannot be replayed"
    print(text, file=sys.stderr if args.output else sys.stdout)
