"""Ships the files of deleted Pods, which the node agent of `manta up` kept, to the store."""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec

from manta.api.ray import names
from manta.history.answers import ship_all
from manta.history.events import posted_session
from manta.history.layout import InvalidName
from manta.history.ship import Identity, SessionShipper, session_directories, ship_events
from manta.history.store import Store
from manta.localplane.node.host.confined_files import remove_tree
from manta.localplane.node.pod.kept import POSTS, RECORD, VOLUME, KeptPod

log = logging.getLogger(__name__)


def identity(pod: KeptPod) -> Identity | None:
    """Whose Pod it was, from its annotations; None if it was no Pod of a Ray cluster."""
    parts = pod.annotations.get(names.ANNOTATION_HISTORY, "").split("/")
    if len(parts) != 3:
        return None
    kind, name, cluster = parts
    role = pod.labels.get(names.LABEL_NODE_TYPE, "")
    version = pod.annotations.get(names.ANNOTATION_HISTORY_RAY_VERSION, "")
    return Identity(pod.namespace, kind, name, cluster, pod.name, role, version)


def import_pod(store: Store, directory: Path, answers: Path) -> None:
    """Ship one kept directory and remove it. Blocking; can be repeated. Raises StoreError or OSError.

    An error of one log that may pass is raised after the others were shipped; the directory stays.
    `answers`: what the dashboard of this Pod answered.
    """
    failed: OSError | None = None
    who = _identity_of(directory)
    if who is not None:
        for session in session_directories(directory / VOLUME):
            try:
                shipper = SessionShipper(store, who, session, directory / f"{session.name}.state")
                failed = _ship_all_of(shipper) or failed
            except InvalidName as error:
                log.warning("a session of Pod %s is not kept: %s", who.pod, error)
        for name, file in _posts_by_session(directory).items():
            ship_events(store, who, name, file)
        ship_all(store, who, answers)
    if failed is not None:
        raise failed
    remove_tree(answers)
    remove_tree(directory)


def _ship_all_of(shipper: SessionShipper) -> OSError | None:
    """Why some logs could not be read, if that may pass. Raises StoreError."""
    failed: OSError | None = None
    has_more = True
    while has_more:
        done = shipper.ship()
        failed, has_more = done.failed or failed, done.has_more
    return failed


def _identity_of(directory: Path) -> Identity | None:
    try:
        record = msgspec.json.decode((directory / RECORD).read_bytes(), type=KeptPod)
        who = identity(record)
        if who is not None:
            who.session("session_x")
    except (FileNotFoundError, msgspec.MsgspecError, InvalidName) as error:
        log.warning("%s is not a Pod of a Ray cluster and is removed: %s", directory.name, error)
        return None
    return who


def _posts_by_session(directory: Path) -> dict[str, Path]:
    """The posts of each session in a file of its own: a Pod whose Ray restarted has several."""
    found: dict[str, Path] = {}
    skipped = 0
    try:
        posts = (directory / POSTS).open("rb")
    except FileNotFoundError:
        return found
    with posts:
        for line in posts:
            try:
                session = posted_session(line)
                Identity("a", "raycluster", "a", "a", "a", "").session(session)
            except ValueError:  # cut off by a crash, or posted by something else
                skipped += 1
                continue
            fresh = session not in found
            file = found.setdefault(session, directory / f"posts.{session}")
            with file.open("wb" if fresh else "ab") as part:
                part.write(line)
    if skipped:
        log.warning("%s: %d posts that are no events of Ray are not kept", directory.name, skipped)
    return found
