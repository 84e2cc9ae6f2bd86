"""Objects by URL: `file://`, `s3://`, `gs://` and `az://`, through obstore (extra `history`).

Writers only create. A second create of the same key reports that the object exists and changes nothing,
so that a repeated upload is harmless.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from manta.api.usage import UsageError
from manta.rules.history import store_url_problem, without_credentials

_READ_BYTES = 5 * 1024 * 1024


class StoreError(Exception):
    """The store refuses or does not answer. The message names the store and the object."""


class StoredObject(NamedTuple):
    key: str
    size: int
    modified: float
    """Seconds since the epoch."""


class Store:
    def __init__(self, url: str, inner: Any) -> None:
        self.url = url
        self._inner = inner

    def create(self, key: str, content: bytes) -> bool:
        """Create an object. False: one exists already, and is unchanged. Raises StoreError."""
        from obstore.exceptions import AlreadyExistsError, BaseError

        try:
            # Conditional creates cannot be sent in parts.
            self._inner.put(key, content, mode="create", use_multipart=False)
        except AlreadyExistsError:
            return False
        except (BaseError, OSError) as error:
            raise StoreError(f"{self.url}: cannot write {key}: {_cause(error)}") from error
        return True

    def write_derived(self, key: str, path: Path) -> None:
        """Store a file that can be built again, in parts and so in bounded memory. Raises StoreError."""
        from obstore.exceptions import BaseError

        try:
            self._inner.put(
                key, path, use_multipart=True, chunk_size=_READ_BYTES, max_concurrency=2
            )
        except (BaseError, OSError) as error:
            raise StoreError(f"{self.url}: cannot write {key}: {_cause(error)}") from error

    def read(self, key: str) -> bytes | None:
        """The whole object; None if there is none. Raises StoreError."""
        return self.read_range(key, 0, None)

    def read_range(self, key: str, start: int, end: int | None) -> bytes | None:
        """Bytes of an object, to its end if `end` is None; None if there is none. Raises StoreError."""
        from obstore.exceptions import BaseError

        try:
            if end is None:
                return bytes(self._inner.get(key).bytes())
            return bytes(self._inner.get_range(key, start=start, end=end))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (BaseError, OSError) as error:
            raise StoreError(f"{self.url}: cannot read {key}: {_cause(error)}") from error

    def copy_to_file(self, key: str, path: Path) -> bool:
        """Copy an object to a new file in bounded memory. False if there is none. Raises StoreError."""
        from obstore.exceptions import BaseError

        try:
            with path.open("wb") as file:
                for part in self._inner.get(key).stream(min_chunk_size=_READ_BYTES):
                    file.write(part)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except (BaseError, OSError) as error:
            raise StoreError(f"{self.url}: cannot read {key}: {_cause(error)}") from error
        return True

    def objects(self, prefix: str) -> Iterator[StoredObject]:
        """All objects below a prefix, in no particular order. Raises StoreError."""
        from obstore.exceptions import BaseError

        try:
            for batch in self._inner.list(prefix):
                for one in batch:
                    yield StoredObject(one["path"], one["size"], one["last_modified"].timestamp())
        except (BaseError, OSError) as error:
            raise StoreError(f"{self.url}: cannot list {prefix}: {_cause(error)}") from error

    def directories(self, prefix: str) -> list[str]:
        """The last parts of the common prefixes directly below `prefix`. Raises StoreError."""
        from obstore.exceptions import BaseError

        try:
            found = self._inner.list_with_delimiter(prefix)["common_prefixes"]
        except (BaseError, OSError) as error:
            raise StoreError(f"{self.url}: cannot list {prefix}: {_cause(error)}") from error
        return sorted(one.rstrip("/").rpartition("/")[2] for one in found)

    def delete(self, keys: list[str]) -> None:
        """Missing objects are no error. Raises StoreError."""
        from obstore.exceptions import BaseError

        for key in keys:
            try:
                self._inner.delete(key)
            except FileNotFoundError:
                continue
            except (BaseError, OSError) as error:
                raise StoreError(f"{self.url}: cannot delete {key}: {_cause(error)}") from error


def _cause(error: BaseException) -> str:
    """The first line: obstore appends a dump of its own structures."""
    text = str(error).strip().partition("\n")[0]
    return text or type(error).__name__


def check_url(url: str) -> str:
    """The URL. Raises UsageError with a cure."""
    if problem := store_url_problem(url):
        raise UsageError(f"history store {without_credentials(url)}: {problem}")
    return url


def check_store(url: str) -> None:
    """Raises UsageError if the URL is invalid or the extra is not installed. Creates nothing."""
    check_url(url)
    if importlib.util.find_spec("obstore") is None:
        raise UsageError(
            "history needs the extra `history`: pip install 'manta-ray-operator[history]'"
        )


def open_store(url: str, environment: Mapping[str, str]) -> Store:
    """The store of a URL; the environment has the credentials (obstore reads AWS_*, GOOGLE_*, AZURE_*).

    Raises UsageError if the URL is invalid or the extra is not installed.
    """
    check_store(url)
    from obstore import exceptions
    from obstore.store import LocalStore, from_url

    if url.startswith("file://"):
        path = Path(urlsplit(url).path)
        try:
            return Store(url, LocalStore(path, mkdir=True, automatic_cleanup=True))
        except (exceptions.BaseError, OSError) as error:
            raise UsageError(f"history store {url}: {_cause(error)}") from error
    options: dict[str, Any] = {}
    retry = {"max_retries": 2, "retry_timeout": timedelta(seconds=20)}
    if url.startswith("s3://") and environment.get("AWS_ENDPOINT_URL", "").startswith("http://"):
        options["client_options"] = {"allow_http": True}
    try:
        return Store(url, from_url(url, retry_config=retry, **options))  # type: ignore[call-overload]
    except (exceptions.BaseError, ValueError) as error:
        raise UsageError(f"history store {url}: {_cause(error)}") from error
