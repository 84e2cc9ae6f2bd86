"""The page Plan: edit YAML, see what would happen, apply it. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

import msgspec

from manta.api.meta import Key
from manta.api.usage import UsageError
from manta.console.edits import Opened
from manta.console.html import Html, join, tag
from manta.console.pages.forecast import Forecast, forecast_html
from manta.console.pages.page import Page, Section
from manta.console.pages.parts import KINDS, address

EXAMPLE = """\
apiVersion: ray.io/v1
kind: RayCluster
metadata:
  name: demo
  namespace: default
spec:
  rayVersion: 2.52.0
  headGroupSpec:
    rayStartParams: {}
    template:
      spec:
        containers:
          - name: ray-head
            image: rayproject/ray:2.52.0
            resources: {requests: {cpu: "1", memory: 2Gi}, limits: {memory: 2Gi}}
  workerGroupSpecs:
    - groupName: small
      replicas: 1
      minReplicas: 0
      maxReplicas: 5
      rayStartParams: {}
      template:
        spec:
          containers:
            - name: ray-worker
              image: rayproject/ray:2.52.0
              resources: {requests: {cpu: "1", memory: 2Gi}, limits: {memory: 2Gi}}
"""


_FORM = "text-form"


def plan_page(
    text: str = EXAMPLE,
    forecasts: tuple[Forecast, ...] = (),
    opened: Opened | None = None,
    *,
    why: str = "",
) -> Page:
    """The editor, and above it what applying the text would do; with a button if nothing is wrong.

    `opened`: the object that is edited. `why`: what has kept the text from being applied.
    """
    editor = tag(
        "textarea", f"\n{text}", name="yaml", spellcheck="false", aria_label="YAML", rows=28
    )
    fits = bool(forecasts) and not any(one.problems for one in forecasts)
    row = tag(
        "div",
        tag("button", "Plan", name="do", value="plan", class_=None if fits else "primary"),
        tag("span", "Nothing is written before you press Apply.", class_="note"),
        class_="filter",
    )
    kept = {**fields_of(opened), **({"planned": digest_of(text, forecasts)} if fits else {})}
    hidden = [tag("input", type="hidden", name=name, value=value) for name, value in kept.items()]
    form = tag("form", hidden, editor, row, method="post", action="/plan", id=_FORM)
    about = (
        "what the operator would do" if opened is None else f"edit {opened.kind} {opened.key.name}"
    )
    heading = join([tag("h1", "Plan"), tag("p", about, class_="lead")])
    said = tag("p", why, class_="problem", role="alert") if why else None
    shown = join(
        [said, [tag("div", forecast_html(one)) for one in forecasts], _apply() if fits else None]
    )
    result = (Section("result", "What would happen", shown),) if forecasts else ()
    return Page(
        "Plan", heading, (*result, Section("editor", "", form)), crumbs=_crumbs(opened), live=False
    )


def _apply() -> Html:
    """The button of the form, beside what it would write."""
    button = tag("button", "Apply", name="do", value="apply", form=_FORM, class_="primary")
    return tag(
        "p", button, " ", tag("a", "or edit the text below", href=f"#{_FORM}"), class_="apply"
    )


def _crumbs(opened: Opened | None) -> tuple[tuple[str, str], ...]:
    if opened is None:
        return ()
    return (("Fleet", "/"), (str(opened.key), address(opened.kind, opened.key)))


def digest_of(text: str, forecasts: tuple[Forecast, ...]) -> str:
    """Tells whether a person has seen what this text would write."""
    written = ["\n".join(one.changes) for one in forecasts]
    return hashlib.sha256("\0".join((text, *written)).encode()).hexdigest()


# ── the object that is edited, in the form ───────────────────────────────────────────────


def fields_of(opened: Opened | None) -> dict[str, str]:
    if opened is None:
        return {}
    here = address(opened.kind, opened.key)
    metadata = msgspec.json.encode(opened.metadata).decode()
    return {
        "object": here, "uid": opened.uid, "generation": str(opened.generation), "metadata": metadata,
    }  # fmt: skip


def opened_in(fields: Mapping[str, str]) -> Opened | None:
    """None: the form is of no object. Raises UsageError."""
    kind, namespace, name = ([*fields.get("object", "").strip("/").split("/"), "", ""])[:3]
    generation = fields.get("generation", "")
    if kind not in KINDS or not (generation.isascii() and generation.isdigit()):
        return None
    key = Key(unquote(namespace), unquote(name))
    try:
        metadata = msgspec.json.decode(fields.get("metadata", ""), type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise UsageError("the form is of an older console: open the object again") from error
    return Opened(KINDS[kind], key, fields.get("uid", ""), int(generation[:18]), metadata)
