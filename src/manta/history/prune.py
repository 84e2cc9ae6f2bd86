"""Applies retention to a store."""

from __future__ import annotations

from collections.abc import Iterator

from manta.history.catalog import Catalog
from manta.history.layout import SessionKey
from manta.history.retention import StoredSession


def stored_sessions(catalog: Catalog, namespaces: list[str]) -> Iterator[StoredSession]:
    """Size and age of every session. Raises StoreError."""
    for namespace in namespaces:
        for key in catalog.sessions(namespace):
            size, newest = 0, 0.0
            for one in catalog.store.objects(key.prefix):
                size += one.size
                if not one.key.startswith(
                    f"{key.prefix}/index/"
                ):  # reading makes a session no younger
                    newest = max(newest, one.modified)
            if newest:  # without objects of our own it is KubeRay's, and not ours to delete
                yield StoredSession(key, size, newest)


def delete_session(catalog: Catalog, key: SessionKey) -> None:
    """Delete every object of a session; `session.json` last, so that a crash leaves it listed. Raises StoreError."""
    keys = [one.key for one in catalog.store.objects(key.prefix)]
    catalog.store.delete([one for one in keys if one != key.metadata])
    catalog.store.delete([key.metadata])
