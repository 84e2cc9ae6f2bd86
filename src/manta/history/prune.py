"""Applies retention to a store."""

from __future__ import annotations

from collections.abc import Iterator

from manta.history.catalog import Catalog
from manta.history.layout import SessionKey
from manta.history.retention import StoredSession
from manta.history.store import StoredObject


def stored_sessions(catalog: Catalog, namespaces: list[str]) -> Iterator[StoredSession]:
    """Size and age of every session. Raises StoreError."""
    for namespace in namespaces:
        for key in catalog.sessions(namespace):
            size, newest = 0, 0.0
            for one in catalog.store.objects(key.prefix):
                size += one.size
                newest = max(newest, _written(key, one))
            if newest:  # without objects of our own it is KubeRay's, and not ours to delete
                yield StoredSession(key, size, newest)


def _written(key: SessionKey, one: StoredObject) -> float:
    """0 for an index: reading makes a session no younger."""
    return 0.0 if one.key.startswith(f"{key.prefix}/index/") else one.modified


def delete_session(catalog: Catalog, session: StoredSession) -> bool:
    """Delete every object of a session; `session.json` last, so that a crash leaves it listed. Raises StoreError.

    False: it was written since, and stays. It takes long to look at all sessions of a large store.
    """
    key = session.key
    found = list(catalog.store.objects(key.prefix))
    if any(_written(key, one) > session.newest for one in found):
        return False
    catalog.store.delete([one.key for one in found if one.key != key.metadata])
    catalog.store.delete([key.metadata])
    return True
