"""The hours of all clusters on the fleet page: by namespace and user, the most idle first."""

from __future__ import annotations

import re

from manta.console.pages.fleet import Filter, fleet
from manta.console.pages.hours import ROWS
from manta.console.pages.page import Table
from manta.console.snapshot import Item, Snapshot
from support.console import NOW, ready_cluster, snapshot


def watched(name: str, namespace: str, user: str, idle_gpu: int) -> Item:
    usage = f"none 2026-01-01T00:00:00Z 0 0;total 9 9 9 9;{NOW.date()} 8 4 2 {idle_gpu}"
    return ready_cluster(
        name,
        namespace=namespace,
        labels={"manta.ray.io/user": user} if user else {},
        annotations={"manta.ray.io/usage": usage},
    )


def tables(found: Snapshot) -> dict[str, Table]:
    page = fleet(found, Filter())
    return {one.id: one.table for one in page.sections if one.table and "hours" in one.id}


def cells(table: Table) -> list[list[str]]:
    return [re.findall(r">([^<]+)</td>", str(row)) for row in table.rows.values()]


def test_hours_are_added_up_by_namespace_and_by_user() -> None:
    some = snapshot(
        watched("a", "dev", "ada", 1),
        watched("b", "dev", "bob", 5),
        watched("c", "prod", "", 2),
        ready_cluster("unwatched"),
    )
    found = tables(some)
    assert cells(found["hours-namespace"]) == [
        ["dev", "16.0", "8.0", "4.0", "6.0"],
        ["prod", "8.0", "4.0", "2.0", "2.0"],
        ["all 2", "24.0", "12.0", "6.0", "8.0"],
    ]
    assert [row[0] for row in cells(found["hours-user"])] == ["bob", "-", "ada", "all 3"]


def test_of_many_users_the_most_idle_are_shown_and_all_are_added_up() -> None:
    some = snapshot(*(watched(f"c{one}", "dev", f"user{one}", one) for one in range(30)))
    rows = cells(tables(some)["hours-user"])
    assert [row[0] for row in rows] == [*(f"user{29 - one}" for one in range(ROWS)), "all 30"]
    assert rows[-1][-1] == f"{sum(range(30))}.0"


def test_without_a_watched_cluster_there_is_nothing_to_show() -> None:
    assert tables(snapshot(ready_cluster("unwatched"))) == {}
