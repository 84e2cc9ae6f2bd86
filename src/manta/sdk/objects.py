"""The base of the handles and collections of `Client`: each wraps one of `AsyncClient`."""

from __future__ import annotations

import builtins
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from typing import Any, ClassVar, Generic, Self, TypeVar

from manta.api.ray.manifest import Document, Manifest
from manta.sdk.async_objects import TIMEOUT, AsyncCollection, AsyncObject
from manta.sdk.html import Table
from manta.sdk.loop_thread import LoopThread
from manta.sdk.progress import Progress, reporter

M = TypeVar("M", bound=Manifest)
A = TypeVar("A", bound=AsyncObject[Any])
C = TypeVar("C", bound=AsyncCollection[Any, Any])
H = TypeVar("H", bound="Object[Any, Any]")


class Object(Generic[M, A]):
    """One object on the API server, as it was when it was last read."""

    def __init__(self, loop: LoopThread, core: A) -> None:
        self._loop = loop
        self._core = core

    @property
    def name(self) -> str:
        """The name of the object."""
        return self._core.name

    @property
    def namespace(self) -> str:
        """The namespace of the object."""
        return self._core.namespace

    @property
    def uid(self) -> str:
        """The UID: another object of the same name has another one."""
        return self._core.uid

    @property
    def object(self) -> M:
        """The whole object, typed, as it was last read."""
        found: M = self._core.object
        return found

    @property
    def document(self) -> Document:
        """The whole object as JSON values, with every field, as it was last read."""
        return self._core.document

    def to_yaml(self) -> str:
        """The manifest as YAML, without status and without what the server sets."""
        return self._core.to_yaml()

    def row(self) -> dict[str, str]:
        """The columns of this object in a table."""
        return self._core.row()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.namespace}/{self.name}>"

    def _repr_html_(self) -> str:
        return self._core._repr_html_()  # the protocol of notebooks

    def refresh(self) -> Self:
        """Read the object again. Raises NotFound."""
        return self._done(self._core.refresh())

    def patch(self, body: Mapping[str, Any]) -> Self:
        """Merge this into the object (JSON merge patch): `{"metadata": {"labels": {"a": "b"}}}`."""
        return self._done(self._core.patch(body))

    def delete(self, *, wait: bool = False, timeout: float | None = TIMEOUT) -> None:
        """Delete the object; nothing happens if it is gone. `wait`: until it and its finalizers are gone."""
        self._loop.run(self._core.delete(wait=wait, timeout=timeout))

    def suspend(self) -> Self:
        """Delete its Pods and clusters, or start no further jobs; `resume` undoes it."""
        return self._done(self._core.suspend())

    def resume(self) -> Self:
        """Create what `suspend` deleted again. A job runs from its start, on a new cluster."""
        return self._done(self._core.resume())

    def wait_for(
        self,
        condition: Callable[[M], bool],
        *,
        timeout: float | None = TIMEOUT,
        what: str = "the condition",
    ) -> Self:
        """Wait, by a watch, until the condition is true of the object. Raises WaitTimeout and Deleted."""
        return self._done(self._core.wait_for(condition, timeout=timeout, what=what))

    def _done(self, work: Coroutine[Any, Any, Any]) -> Self:
        self._loop.run(work)
        return self

    def _shown(self, reasons: AsyncGenerator[str, None], progress: Progress) -> None:
        """Show each reason in the caller's thread: outputs of a notebook belong to its cell."""
        report = reporter(progress)
        for why in self._loop.iterate(reasons):
            report(why)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: builtins.object) -> None:
        """Delete the object."""
        self.delete()


class Collection(Generic[M, H, C]):
    """All objects of one kind."""

    handle: ClassVar[type[Object[Any, Any]]]

    def __init__(self, loop: LoopThread, core: C) -> None:
        self._loop = loop
        self._core = core

    def get(self, name: str, *, namespace: str | None = None) -> H:
        """The object of this name. Raises NotFound."""
        return self._handle(self._loop.run(self._core.get(name, namespace=namespace)))

    def list(
        self,
        *,
        namespace: str | None = None,
        all_namespaces: bool = False,
        labels: Mapping[str, str] | str = "",
    ) -> Table[H]:
        """The objects of the namespace, or of all; `labels` selects some."""
        found = self._loop.run(
            self._core.list(namespace=namespace, all_namespaces=all_namespaces, labels=labels)
        )
        return Table([self._handle(one) for one in found], [one.row() for one in found])

    def apply(self, manifest: M | Mapping[str, Any] | str, *, force: bool = False) -> H:
        """Create the object, or change it to this manifest (server-side apply).

        `force` takes over fields that somebody else has set; without it they raise Conflict.
        """
        return self._handle(self._loop.run(self._core.apply(manifest, force=force)))

    def delete(self, name: str, *, namespace: str | None = None) -> bool:
        """Delete the object of this name. Whether it existed."""
        return self._loop.run(self._core.delete(name, namespace=namespace))

    def _handle(self, core: AsyncObject[Any]) -> H:
        return type(self).handle(self._loop, core)  # type: ignore[return-value]
