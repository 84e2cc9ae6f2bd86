"""Whose session it is says its key: what is stored below one key never leads to another's."""

from __future__ import annotations

import json
import os
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from manta.history.catalog import Catalog
from manta.history.layout import SessionKey
from manta.history.logs import LogReader
from manta.history.prune import delete_session, stored_sessions
from support.history import SESSION, WHO, recorded_session

THEIRS = WHO.session(SESSION)
OURS = SessionKey("team-a", "rayjob", "evil", SESSION)


def files(catalog: Catalog, key: SessionKey) -> list[str]:
    database = catalog.open_index(key)
    assert database is not None
    return [one.path for one in LogReader(catalog.store, database).files()]


@pytest.mark.parametrize(
    "named",
    [
        {"namespace": "default", "kind": "rayjob", "name": "train", "session": SESSION},
        {**OURS._asdict(), "prefix": f"{THEIRS.prefix}/pods"},
    ],
    ids=["another session", "another place"],
)
def test_a_session_json_that_names_another_session_does_not_open_it(
    tmp_path: Path, named: dict[str, str]
) -> None:
    catalog = recorded_session(tmp_path)
    content = json.dumps({**named, "cluster": "evil-abc", "rayVersion": "2.60.0"})
    catalog.store.create(OURS.metadata, content.encode())
    info = catalog.info(OURS)
    assert info is not None
    assert (info.key, info.cluster, info.ray_version) == (OURS, "evil-abc", "2.60.0")
    assert files(catalog, OURS) == []


def test_a_session_that_is_written_after_retention_looked_at_it_stays(tmp_path: Path) -> None:
    catalog = recorded_session(tmp_path)
    [seen] = stored_sessions(catalog, [THEIRS.namespace])
    catalog.open_index(THEIRS)  # reading makes it no younger
    late = f"{THEIRS.prefix}/pods/{WHO.pod}/logs/late.log/0000-1-000000000000000-000000000000001.gz"
    catalog.store.create(late, b"")
    os.utime(tmp_path / "store" / late, (seen.newest + 1, seen.newest + 1))
    assert not delete_session(catalog, seen)
    assert files(catalog, THEIRS)
    [again] = stored_sessions(catalog, [THEIRS.namespace])
    assert delete_session(catalog, again)
    assert list(catalog.store.objects(THEIRS.prefix)) == []


@pytest.mark.parametrize("trick", ["", "CREATE VIEW v AS SELECT 1"])
def test_an_index_that_names_the_logs_of_another_session_is_not_used(
    tmp_path: Path, trick: str
) -> None:
    """Whoever may write below a session may also write its index."""
    catalog = recorded_session(tmp_path)
    own = recorded_session(tmp_path, replace(WHO, namespace="team-a", name="evil"), catalog.store)
    info = own.info(OURS)
    assert info is not None
    planted = own.make_index(info)
    with sqlite3.connect(planted) as database:
        if trick:
            database.execute(trick)
        else:
            database.execute("UPDATE logs SET key = replace(key, ?, ?)", (OURS.prefix, THEIRS.prefix))  # fmt: skip
            database.execute("UPDATE logs SET path = 'planted.log' WHERE path = 'raylet.out'")
    [stored] = [one.key for one in own.store.objects(f"{OURS.prefix}/index")]
    own.store.write_derived(stored, planted)
    fresh = Catalog(own.store, tmp_path / "other")
    assert "raylet.out" in files(fresh, OURS)
    [made] = (tmp_path / "other").glob("*.db")
    assert made.read_bytes() != planted.read_bytes()


def test_a_damaged_session_json_costs_only_what_it_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    catalog = recorded_session(tmp_path)
    catalog.store.delete([THEIRS.metadata])
    catalog.store.create(THEIRS.metadata, b"{trunc")
    info = catalog.info(THEIRS)
    assert info is not None
    assert (info.key, info.cluster) == (THEIRS, "")
    assert "raylet.out" in files(catalog, THEIRS)
    assert "session.json is damaged" in caplog.text
