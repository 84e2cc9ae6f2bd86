"""Random writes as a real kube-apiserver 1.35 answered them, repeated without it.

The record is written by tools/protobuf/record_histories.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from manta.localplane.apiserver.builtin_kinds.nodes import node_of_custom, node_of_kind
from manta.localplane.apiserver.builtin_kinds.reading import read_object
from manta.localplane.apiserver.patching.apply import conflict_message, server_side_apply
from manta.localplane.apiserver.patching.managed_fields import Manager, track_update
from manta.localplane.apiserver.patching.merge import apply_merge_patch
from manta.localplane.apiserver.patching.strategic import apply_strategic_patch
from manta.localplane.apiserver.schema.compiled import compile_schema
from support.strategies import strategy_of

RECORD = json.loads(Path(__file__).with_name("histories.json").read_bytes())
NODE = node_of_kind("apps/v1", "Deployment")
EMPTY = read_object("apps/v1", "Deployment", {})
STATUS = frozenset({"status"})
NOW = "2026-11-15T06:37:50Z"
SERVERS_OWN = ("uid", "resourceVersion", "creationTimestamp", "generation", "namespace")


def owners(entries: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Who owns what; times, and with them the order, depend on the clock."""
    found = [
        (one["manager"], one["operation"], json.dumps(one["fieldsV1"], sort_keys=True))
        for one in entries
    ]
    return sorted(found)


def in_any_order(causes: list[dict[str, str]]) -> list[dict[str, str]]:
    """The real server walks through maps, which have no order in Go."""
    return sorted(causes, key=json.dumps)


def bare(obj: dict[str, Any]) -> dict[str, Any]:
    meta = {k: v for k, v in obj["metadata"].items() if k not in (*SERVERS_OWN, "managedFields")}
    return {**obj, "metadata": meta}


def applied(step: dict[str, Any], live: dict[str, Any] | None) -> Any:
    return server_side_apply(
        live,
        step["body"],
        manager=Manager(step["manager"], "Apply", "apps/v1"),
        force=step["force"],
        node=NODE,
        now=NOW,
        empty=EMPTY,
        reset=STATUS,
    )


def updated(step: dict[str, Any], live: dict[str, Any] | None) -> tuple[Any, Any]:
    body = step["body"]
    if live is not None and step["verb"] == "strategic":
        assert NODE is not None
        body = apply_strategic_patch(live, body, NODE)
    elif live is not None and step["verb"] == "merge":
        body = apply_merge_patch(live, body)
    if live is not None:
        kept = {name: live["metadata"][name] for name in SERVERS_OWN}
        body = {**body, "metadata": {**body["metadata"], **kept}, "status": live["status"]}
    new = strategy_of("apps/v1", "Deployment").default(body)
    manager = Manager(step["manager"], "Update", "apps/v1")
    old = EMPTY if live is None else live
    return new, track_update(old, new, manager=manager, now=NOW, node=NODE, reset=STATUS)


@pytest.mark.parametrize("history", RECORD["deployments"], ids=range(len(RECORD["deployments"])))
def test_a_history_of_a_deployment_goes_as_recorded(history) -> None:
    live: dict[str, Any] | None = None
    for step in history:
        answer = step["answer"]
        if step["verb"] != "apply":
            new, entries = updated(step, live)
        else:
            result = applied(step, live)
            if step["status"] == 409:
                assert conflict_message(result.conflicts) == answer["message"]
                causes = [conflict.cause.as_json() for conflict in result.conflicts]
                assert in_any_order(causes) == in_any_order(answer["details"]["causes"])
                continue
            new = strategy_of("apps/v1", "Deployment").default(result.object)
            entries = result.object["metadata"]["managedFields"]
        assert bare(new) == bare(answer)
        assert owners(entries) == owners(answer["metadata"]["managedFields"])
        live = answer


SCHEMA = compile_schema(RECORD["schema"])


@pytest.mark.parametrize(
    "step", RECORD["widgets"], ids=lambda step: step["body"]["metadata"]["name"]
)
def test_a_custom_resource_is_kept_or_refused_as_recorded(step) -> None:
    widget = SCHEMA.default(SCHEMA.prune(step["body"]))
    causes = [cause.as_json() for cause in SCHEMA.validate(widget)]
    if step["status"] == 422:
        assert in_any_order(causes) == in_any_order(step["answer"]["details"]["causes"])
        return
    assert step["status"] == 201
    assert causes == []
    assert widget["spec"] == step["answer"]["spec"]
    manager = Manager("m1", "Update", widget["apiVersion"])
    node = node_of_custom(SCHEMA.root)
    entries = track_update(
        {key: widget[key] for key in ("apiVersion", "kind") if key in widget},
        widget,
        manager=manager,
        now=NOW,
        node=node,
    )
    assert owners(entries) == owners(step["answer"]["metadata"]["managedFields"])
