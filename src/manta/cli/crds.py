"""`manta crds [NAME ...]`: print the CustomResourceDefinitions of the Ray kinds."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from manta.api.crds import CRD_NAMES, crd_json
from manta.api.documents.writer import to_yaml
from manta.cli.output.help import examples


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "crds",
        description="Print the CustomResourceDefinitions of the Ray kinds. They are larger than"
        " client-side apply allows: install them with"
        " `manta crds | kubectl apply --server-side -f -`.",
        **examples(
            ("manta crds | kubectl apply --server-side -f -", "install or update them"),
            ("manta crds rayjobs --format json", "one of them as JSON"),
        ),
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"only these of {', '.join(CRD_NAMES)}"
    )
    parser.add_argument("--format", choices=("yaml", "json"), default="yaml")


def run(args: argparse.Namespace) -> int:
    chosen = [_full_name(name) for name in args.names] or list(CRD_NAMES)
    if unknown := [name for name, full in zip(args.names, chosen, strict=False) if not full]:
        print(f"manta: unknown CRD {unknown[0]!r}; known: {', '.join(CRD_NAMES)}", file=sys.stderr)
        return 2
    names = [name for name in chosen if name]
    sys.stdout.write(_as_json(names) if args.format == "json" else _as_yaml(names))
    return 0


def _full_name(name: str) -> str | None:
    """The CRD of `rayjobs.ray.io`, `rayjobs`, `rayjob` or `RayJob`; None if there is none."""
    wanted = name.lower()
    return next(
        (full for full in CRD_NAMES if wanted in (full, full.split(".")[0], full.split("s.")[0])),
        None,
    )


def _as_yaml(names: Sequence[str]) -> str:
    return "".join(f"---\n{to_yaml(msgspec.json.decode(crd_json(name)))}" for name in names)


def _as_json(names: Sequence[str]) -> str:
    """One CRD, or a List of several, as kubectl reads them."""
    documents = [crd_json(name).decode().rstrip() for name in names]
    if len(documents) == 1:
        return documents[0] + "\n"
    return f'{{"apiVersion":"v1","kind":"List","items":[{",".join(documents)}]}}\n'
