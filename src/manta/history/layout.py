"""The names of the objects in a store. Nothing is ever rewritten; every object is created once.

    sessions/<namespace>/<kind>/<name>/<session>/
        session.json                                what ran: cluster, owner, Ray version
        pods/<pod>/node-<id>.json                   one for each Ray node that ran in the Pod
        pods/<pod>/events/<from>.jsonl.gz           posted events, one JSON array a line
        pods/<pod>/logs/<path>/<generation>-<inode>-<from>-<to>.gz
        answers/<URI>/<at>.json.gz                  what Ray's dashboard answered, in milliseconds since the epoch
        index/<version>-<fingerprint>.db            derived: may be deleted at any time

`<path>` is the path below the session's `logs`, with unusual characters percent-encoded. A name that would be too
long for a file system or for S3 is cut, and ends with `~` and a hash of all of it. A rotated file is a new inode, and
so a new generation.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

ROOT: Final = "sessions"
KINDS: Final = ("raycluster", "rayjob", "rayservice")
MOVED_LOGS: Final = "old"
"""Where Ray's log monitor moves the logs of dead workers to, once it follows more than 200 files."""
_DNS = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_SESSION = re.compile(r"session_[A-Za-z0-9_.-]{1,200}")
_CHUNK = re.compile(r"(\d{4,9})-(\d{1,20})-(\d{15})-(\d{15})\.gz")
_SAFE = "-_.~@:+=, "
"""obstore keeps '%' as it is, so that the names are the same in every store."""
_MAX_PART = 240
"""Bytes between two slashes: file systems have 255, of which obstore takes some while it writes."""
_MAX_KEY = 1024
"""Bytes of a key in S3."""


class InvalidName(ValueError):  # noqa: N818 - a ValueError with a narrower meaning
    """A name that cannot be part of a key. The message says which, and why."""


class SessionKey(NamedTuple):
    """One Ray session: what one head ran from its start to its end."""

    namespace: str
    kind: str
    """The kind of the owner: `raycluster`, `rayjob` or `rayservice`."""
    name: str
    session: str

    @property
    def prefix(self) -> str:
        return f"{ROOT}/{self.namespace}/{self.kind}/{self.name}/{self.session}"

    @property
    def path(self) -> str:
        """The key as users write it, and as it is in URLs."""
        return f"{self.namespace}/{self.kind}/{self.name}/{self.session}"

    @property
    def metadata(self) -> str:
        return f"{self.prefix}/session.json"

    def checked(self) -> SessionKey:
        """This key. Raises InvalidName unless every part is a name of Kubernetes or Ray."""
        for what, value in (("namespace", self.namespace), ("name", self.name)):
            check_dns_name(what, value)
        if self.kind not in KINDS:
            raise InvalidName(f"kind {self.kind!r}: must be one of {', '.join(KINDS)}")
        if _SESSION.fullmatch(self.session) is None or ".." in self.session:
            raise InvalidName(f"session {self.session!r}: must look like session_2026-01-31_...")
        return self


def check_dns_name(what: str, value: str) -> str:
    """Return the value if it can be the name of an object. Raises InvalidName."""
    if _DNS.fullmatch(value) is None or ".." in value:
        raise InvalidName(f"{what} {value!r}: must be a name of a Kubernetes object")
    return value


def session_of_metadata(key: str) -> SessionKey | None:
    """The session of a `session.json`; None for every other object."""
    parts = key.split("/")
    if len(parts) != 6 or parts[0] != ROOT or parts[5] != "session.json":
        return None
    try:
        return SessionKey(*parts[1:5]).checked()
    except InvalidName:
        return None


class LogChunk(NamedTuple):
    """A range of one log file."""

    pod: str
    path: str
    generation: int
    inode: int
    start: int
    end: int
    key: str


def log_key(session: SessionKey, pod: str, path: str, chunk: tuple[int, int, int, int]) -> str:
    """`chunk`: generation, inode, first byte and the byte after the last. Raises InvalidName."""
    generation, inode, start, end = chunk
    name = f"{generation:04d}-{inode}-{start:015d}-{end:015d}.gz"
    place = f"{session.prefix}/pods/{check_dns_name('Pod', pod)}/logs"
    return f"{place}/{quote_path(path, _MAX_KEY - len(f'{place}//{name}'))}/{name}"


def answer_key(session: SessionKey, uri: str, at: int) -> str:
    """`uri`: path and query of a request to Ray's dashboard; `at`: milliseconds since the epoch."""
    return f"{session.prefix}/answers/{quote(uri.strip('/'), safe='')}/{at:015d}.json.gz"


def parse_answer_key(prefix: str, key: str) -> tuple[str, int] | None:
    """URI and time of a stored answer; None for other objects."""
    parts = key.removeprefix(prefix + "/").split("/")
    if len(parts) != 3 or parts[0] != "answers":
        return None
    at = parts[2].removesuffix(".json.gz")
    return (unquote(parts[1]), int(at)) if at.isdecimal() else None


def event_key(session: SessionKey, pod: str, sequence: str) -> str:
    return f"{session.prefix}/pods/{check_dns_name('Pod', pod)}/events/{sequence}.jsonl.gz"


def pod_key(session: SessionKey, pod: str, node_id: str) -> str:
    return f"{session.prefix}/pods/{check_dns_name('Pod', pod)}/node-{node_id or 'unknown'}.json"


def quote_path(path: str, room: int = _MAX_KEY) -> str:
    """A relative path with every unusual character encoded, in at most `room` bytes.

    Raises InvalidName for `..` and the like.
    """
    parts = path.split("/")
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise InvalidName(f"log path {path!r}: must be UTF-8") from error
    if any(part in ("", ".", "..") for part in parts):
        raise InvalidName(f"log path {path!r}: must be relative, without '..'")
    quoted = "/".join(_bounded(part, _MAX_PART) for part in parts)
    return quoted if len(quoted) <= room else _bounded(path, min(room, _MAX_PART))


def _bounded(name: str, limit: int) -> str:
    """The name percent-encoded; of one that is too long the start, and a hash of all of it."""
    quoted = quote(name, safe=_SAFE)
    if len(quoted) <= limit:
        return quoted
    end = "~" + sha256(name.encode()).hexdigest()[:16]
    start = ""
    for character in name:
        part = quote(character, safe=_SAFE)
        if len(start) + len(part) + len(end) > limit:
            break
        start += part
    return start + end


def parse_log_key(prefix: str, key: str) -> LogChunk | None:
    """The chunk of a key below a session's prefix; None for other objects."""
    parts = key.removeprefix(prefix + "/").split("/")
    if len(parts) < 5 or parts[0] != "pods" or parts[2] != "logs":
        return None
    found = _CHUNK.fullmatch(parts[-1])
    if found is None:
        return None
    generation, inode, start, end = map(int, found.groups())
    path = "/".join(unquote(part) for part in parts[3:-1])
    return LogChunk(parts[1], path, generation, inode, start, end, key)


def is_log_chunk(key: str) -> bool:
    """Whether this is a compressed range of a log, and not a whole file of KubeRay's tree."""
    return key.startswith(f"{ROOT}/") and _CHUNK.fullmatch(key.rpartition("/")[2]) is not None


def is_event_key(prefix: str, key: str) -> bool:
    parts = key.removeprefix(prefix + "/").split("/")
    return len(parts) == 4 and parts[0] == "pods" and parts[2] == "events"


def parse_pod_key(prefix: str, key: str) -> tuple[str, str] | None:
    """The Pod and the Ray node id of a `node-<id>.json`."""
    parts = key.removeprefix(prefix + "/").split("/")
    if len(parts) != 3 or parts[0] != "pods" or not parts[2].startswith("node-"):
        return None
    return parts[1], parts[2].removeprefix("node-").removesuffix(".json").replace("unknown", "")
