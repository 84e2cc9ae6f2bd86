"""A story: everything that happens in one simulation, as data. The same story always runs the same way.

A story is drawn from a seed, shortened by taking steps away, printed as text, and kept as JSON.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from manta.rules.settings import FeatureGates, Settings

KEPT = Path(__file__).parent / "stories"


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that the user, the operator, the network, a node or Ray does."""

    at: float
    """Virtual seconds after the start."""
    do: str
    """A name in the table of `actions`."""
    args: dict[str, Any] = {}

    def __str__(self) -> str:
        said = ", ".join(f"{name}={_brief(value)}" for name, value in self.args.items())
        return f"{self.at:7.2f} s  {self.do}{': ' if said else ''}{said}"


class Story(msgspec.Struct, frozen=True, kw_only=True):
    seed: int
    profile: str
    steps: tuple[Step, ...]
    about: str = ""
    """Of a kept story: what went wrong when it was told first."""
    replicas: int = 1
    """Of the operator."""
    nodes: int = 3
    latency: float = 0.0
    """The longest delay of a request of the operator, in seconds."""
    job_seconds: float = 20.0
    job_status: str = "SUCCEEDED"
    settings: dict[str, Any] = {}
    """Settings of the operator that differ from the defaults; `gates` is a list of gates to turn on."""

    def with_steps(self, steps: tuple[Step, ...]) -> Story:
        return msgspec.structs.replace(self, steps=steps)

    def __str__(self) -> str:
        """The story as a person would tell it."""
        head = f"seed {self.seed}, profile {self.profile}: {self.replicas} operator(s), {self.nodes} nodes"
        if self.latency:
            head += f", requests take up to {self.latency:.2f} s"
        return "\n".join([head, *(f"  {step}" for step in self.steps)])


def settings_from(given: dict[str, Any]) -> Settings:
    """The operator's settings from those of a story."""
    given = dict(given)
    gates = replace(FeatureGates(), **dict.fromkeys(given.pop("gates", ()), True))
    return replace(Settings(), gates=gates, **given)


def _brief(value: Any) -> str:
    if isinstance(value, dict) and "kind" in value and "metadata" in value:
        return f"{value['kind']} {value['metadata']['name']} {msgspec.json.encode(value.get('spec')).decode()}"
    return msgspec.json.encode(value).decode() if isinstance(value, dict | list) else str(value)


def save(story: Story, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(story), indent=1) + b"\n")


def load(path: Path) -> Story:
    return msgspec.json.decode(path.read_bytes(), type=Story)
