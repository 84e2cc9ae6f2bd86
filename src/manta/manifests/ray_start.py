"""The `ray start` command line: its parameters and their quoting.

Values are written as KubeRay writes them, expansions included. A value that the shell would split is quoted
(`shell_words.py`), so that Ray gets the text that the user wrote (C84).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from manta.api.documents import limits
from manta.api.documents.reader import read_json
from manta.api.quantity import Quantity
from manta.manifests.shell_words import shell_word, shell_words
from manta.rules.accelerators import RAY_ACCELERATORS, is_gpu_key, ray_accelerator_name

Params = Mapping[str, str]

AGENT_PORT = "52365"
METRICS_PORT = "8080"
ULIMIT = "ulimit -n ${RAY_START_ULIMIT_OPEN_FILES:-65536}"

# These take a value; of all others, `true` is a bare flag and `false` is left out.
_SPELLED_OUT = frozenset({"log-color", "include-dashboard", "include-log-monitor"})


def with_group_resources(params: Params, resources: Mapping[str, str]) -> dict[str, str]:
    """The parameters with those of the group's `resources` field, which wins."""
    merged, custom = dict(params), dict[str, int | float]()
    for name, text in sorted(resources.items()):
        quantity = Quantity.parse_or_none(text)
        if quantity is None:
            continue
        parameter = _resource_parameter(name.lower())
        if parameter:
            merged[parameter] = str(quantity.value())
        else:
            custom[name] = _number(quantity)
    if custom:
        merged["resources"] = _resources_json(custom)
    return merged


def with_group_labels(params: Params, labels: Mapping[str, str]) -> dict[str, str]:
    if not labels:
        return dict(params)
    return {**params, "labels": ",".join(f"{key}={labels[key]}" for key in sorted(labels))}


def complete_head(params: Params, *, autoscaling: bool) -> dict[str, str]:
    """Parameters of a head. `block` is forced: without it the container would exit at once."""
    forced = {"block": "true"} | ({"no-monitor": "true"} if autoscaling else {})
    return {"dashboard-host": "0.0.0.0", **_shared(), **params, **forced}  # noqa: S104


def complete_worker(params: Params, *, head_address: str) -> dict[str, str]:
    return {"address": head_address, **_shared(), **params, "block": "true"}


def _shared() -> dict[str, str]:
    return {"metrics-export-port": METRICS_PORT, "dashboard-agent-listen-port": AGENT_PORT}


def with_container_resources(params: Params, container: Mapping[str, Any]) -> dict[str, str]:
    """The parameters with the node's resources, from its container where the user set none."""
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    merged = dict(params)
    cpu = _nonzero(limits.get("cpu")) or _nonzero(requests.get("cpu"))
    if "num-cpus" not in merged and cpu is not None:
        merged["num-cpus"] = str(cpu.value())
    memory = _nonzero(limits.get("memory"))
    if "memory" not in merged and memory is not None:
        merged["memory"] = str(memory.value())
    gpus = _first_nonzero(limits, is_gpu_key)
    if "num-gpus" not in merged and gpus is not None:
        merged["num-gpus"] = str(gpus[1].value())
    accelerator = _first_nonzero(limits, ray_accelerator_name)
    if accelerator is not None:
        _add_accelerator(merged, accelerator[0], accelerator[1])
    return merged


def _add_accelerator(merged: dict[str, str], key: str, amount: Quantity) -> None:
    """Add a TPU or Neuron count to `resources`, unless the user has one."""
    known = _parse_resources(merged.get("resources", ""))
    if known is None or not RAY_ACCELERATORS.isdisjoint(known):
        return
    merged["resources"] = _resources_json({**known, ray_accelerator_name(key): _number(amount)})


def _parse_resources(text: str) -> dict[str, Any] | None:
    """The custom resources in the user's text, quoted for a shell or not; None if it cannot be parsed."""
    if not text:
        return {}
    for candidate in (text.strip("'\"` "), *shell_words(text)):
        try:
            parsed = read_json(candidate, limits.FIELD)
        except limits.DocumentError:
            continue
        if isinstance(parsed, dict):
            return parsed
    return None


def _resources_json(resources: Mapping[str, Any]) -> str:
    text = json.dumps(resources, sort_keys=True, separators=(",", ":"))
    # Inside single quotes only the single quote is special.
    return "'" + text.replace("'", "\\u0027") + "'"


def _resource_parameter(name: str) -> str:
    if name == "cpu":
        return "num-cpus"
    if name == "memory":
        return "memory"
    return "num-gpus" if is_gpu_key(name) else ""


def _first_nonzero(
    limits: Mapping[str, Any], wanted: Callable[[str], object]
) -> tuple[str, Quantity] | None:
    for key in sorted(limits):
        quantity = _nonzero(limits[key]) if wanted(key) else None
        if quantity is not None:
            return key, quantity
    return None


def _nonzero(value: Any) -> Quantity | None:
    """None if absent or invalid: validation reports that."""
    return Quantity.parse_or_none(value) or None


def _number(quantity: Quantity) -> int | float:
    milli = quantity.milli()
    return milli // 1000 if milli % 1000 == 0 else milli / 1000


# ── writing ──────────────────────────────────────────────────────────────────────────────


def render(params: Params, *, head: bool) -> str:
    """The command, keys sorted. The double spaces are KubeRay's, kept for byte equality."""
    start = "ray start --head " if head else "ray start "
    return start + "".join(_option(key, params[key]) for key in sorted(params))


def _option(key: str, value: str) -> str:
    flag = value.lower()
    if flag in ("true", "false") and key not in _SPELLED_OUT:
        return f" --{shell_word(key)} " if flag == "true" else ""
    return f" --{shell_word(key)}={shell_word(value)} "


def container_args(command: str, user_words: Sequence[str]) -> str:
    """The arguments of bash: first the user's own, then `ray start`, which does not return."""
    generated = f"{ULIMIT}; {command}"
    user = "".join(f" {word} " for word in user_words)
    return f"{user} && {generated}" if user else generated


def bash(*, login: bool = False) -> list[str]:
    return ["/bin/bash", "-cl" if login else "-c", "--"]
