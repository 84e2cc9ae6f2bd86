"""Reads the tree that KubeRay's collector writes.

    cluster-history/raycluster/<namespace>/<cluster>/<session>/
    cluster-history/{rayjob,rayservice}/<namespace>/<owner>/<cluster>/<session>/
        <node id>/logs/<path>                                    one object for each file, as it is
        <node id>/node_events/*.jsonl[.gz]                       one event a line
        <node id>/job_events/<job id>/*.jsonl[.gz]
        fetched_endpoints/restful__<URI>                         `/` is `__`

The Ray node takes the place of the Pod, whose name is not in this tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from manta.history.layout import KINDS, MOVED_LOGS, InvalidName, LogChunk, SessionKey
from manta.history.store import Store, StoredObject

ROOT: Final = "cluster-history"
_RANGE_BYTES: Final = 1024 * 1024


def namespaces(store: Store) -> set[str]:
    return {name for kind in KINDS for name in store.directories(f"{ROOT}/{kind}")}


def sessions(store: Store, namespace: str, kind: str = "", name: str = "") -> Iterator[SessionKey]:
    """The sessions of a namespace. Raises StoreError."""
    for one_kind in KINDS:
        if kind not in ("", one_kind):
            continue
        base = f"{ROOT}/{one_kind}/{namespace}"
        for one_name in store.directories(base) if not name else [name]:
            for place in _clusters(store, one_kind, f"{base}/{one_name}"):
                for session in store.directories(place):
                    try:
                        yield SessionKey(namespace, one_kind, one_name, session).checked()
                    except InvalidName:
                        continue


def _clusters(store: Store, kind: str, place: str) -> list[str]:
    if kind == "raycluster":
        return [place]
    return [f"{place}/{cluster}" for cluster in store.directories(place)]


def prefix_of(store: Store, key: SessionKey) -> str | None:
    """Where the objects of a session are; None if this tree does not have it."""
    base = f"{ROOT}/{key.kind}/{key.namespace}/{key.name}"
    for place in _clusters(store, key.kind, base):
        if key.session in store.directories(place):
            return f"{place}/{key.session}"
    return None


def cluster_of(prefix: str) -> str:
    return prefix.split("/")[-2]


def log_ranges(prefix: str, one: StoredObject) -> Iterator[LogChunk]:
    """A log file as ranges of its object, so that it is never read as a whole."""
    node, _, rest = one.key.removeprefix(f"{prefix}/").partition("/")
    if not rest.startswith("logs/"):
        return
    found = rest.removeprefix("logs/")
    path = found.removeprefix(f"{MOVED_LOGS}/")  # as tasks name it
    generation = int(path != found)
    for start in range(0, one.size, _RANGE_BYTES):
        end = min(start + _RANGE_BYTES, one.size)
        yield LogChunk(node, path, generation, 0, start, end, one.key)


def is_event_file(prefix: str, key: str) -> bool:
    parts = key.removeprefix(f"{prefix}/").split("/")
    return len(parts) >= 3 and parts[1] in ("node_events", "job_events")


def answered_uri(prefix: str, key: str) -> str:
    """The URI of a stored answer of Ray's dashboard; empty for other objects."""
    place, _, name = key.removeprefix(f"{prefix}/").partition("/")
    if place != "fetched_endpoints" or not name.startswith("restful__"):
        return ""
    return name.removeprefix("restful__").replace("__", "/").strip("/")


def node_of(prefix: str, key: str) -> str:
    """The Ray node of an object; empty for those of the whole session."""
    node, slash, _ = key.removeprefix(f"{prefix}/").partition("/")
    return node if slash and len(node) == 56 else ""
