"""A spec as written, put back to a revision: templates change, sizes and unknown fields stay."""

from __future__ import annotations

from typing import Any

from manta.rules.revisions import undone

OLD: dict[str, Any] = {
    "rayVersion": "2.52.0",
    "headGroupSpec": {"template": {"head": 1}},
    "workerGroupSpecs": [{"groupName": "small", "template": {"worker": 1}, "numOfHosts": 2}],
}
LIVE: dict[str, Any] = {
    "rayVersion": "2.53.0",
    "suspend": False,
    "headGroupSpec": {"template": {"head": 2}, "ofTheFuture": True},
    "workerGroupSpecs": [
        {"groupName": "small", "template": {"worker": 2}, "replicas": 5, "ofTheFuture": True},
        {"groupName": "new", "template": {"worker": 3}, "replicas": 1},
    ],
}


def test_the_templates_are_the_old_ones_and_sizes_groups_and_unknown_fields_stay() -> None:
    found = undone(LIVE, {"spec": OLD})
    assert (found["rayVersion"], found["suspend"]) == ("2.52.0", False)
    assert found["headGroupSpec"] == {"template": {"head": 1}, "ofTheFuture": True}
    assert found["workerGroupSpecs"] == [
        {
            "groupName": "small",
            "template": {"worker": 1},
            "numOfHosts": 2,
            "replicas": 5,
            "ofTheFuture": True,
        },
        LIVE["workerGroupSpecs"][1],
    ]


def test_groups_that_the_revision_did_not_have_stay() -> None:
    old = {name: value for name, value in OLD.items() if name != "workerGroupSpecs"}
    assert undone(LIVE, {"spec": old})["workerGroupSpecs"] == LIVE["workerGroupSpecs"]
