"""The base of the handles and collections of `AsyncClient`."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any, ClassVar, Final, Generic, Self, TypeVar

import msgspec

from manta.api.documents.limits import DocumentError
from manta.api.documents.reader import read_yaml
from manta.api.documents.writer import to_yaml
from manta.api.meta import Key
from manta.api.ray.manifest import Document, Manifest, manifest_of
from manta.api.resources import Resource
from manta.api.usage import InvalidValue
from manta.client.readiness import judge
from manta.client.watch import watch_object
from manta.client.workload_readiness import Verdict
from manta.sdk.builders import selector_of
from manta.sdk.checking import check
from manta.sdk.errors import Deleted, WaitFailed, WaitTimeout
from manta.sdk.html import Table, card_html
from manta.sdk.progress import Progress, reporter
from manta.sdk.session import Session

M = TypeVar("M", bound=Manifest)
H = TypeVar("H", bound="AsyncObject[Any]")
FIELD_MANAGER: Final = "manta-sdk"
TIMEOUT: Final = 600.0
"""Seconds that a wait takes at most, by default: images may have to be pulled."""


class AsyncObject(Generic[M]):
    """One object on the API server, as it was when it was last read."""

    kind: ClassVar[type[Manifest]]

    def __init__(self, session: Session, document: Document) -> None:
        self._session = session
        self._document = document
        self._object: M | None = None

    # ── what is known ────────────────────────────────────────────────────────────────────

    @property
    def name(self) -> str:
        """The name of the object."""
        return str(self._document["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """The namespace of the object."""
        return str(self._document["metadata"]["namespace"])

    @property
    def uid(self) -> str:
        """The UID: another object of the same name has another one."""
        return str(self._document["metadata"]["uid"])

    @property
    def object(self) -> M:
        """The whole object, typed, as it was last read."""
        if self._object is None:
            raw = msgspec.json.encode(self._document)
            self._object = msgspec.json.decode(raw, type=type(self).kind)  # type: ignore[assignment]
        return self._object  # type: ignore[return-value]

    @property
    def document(self) -> Document:
        """The whole object as JSON values, with every field, as it was last read."""
        copy: Document = msgspec.json.decode(msgspec.json.encode(self._document))
        return copy

    def to_yaml(self) -> str:
        """The manifest as YAML, without status and without what the server sets."""
        return to_yaml(manifest_of(self.document))

    def row(self) -> dict[str, str]:
        """The columns of this object in a table."""
        return {"NAME": self.name, "NAMESPACE": self.namespace, **self._columns()}

    def _columns(self) -> dict[str, str]:
        return {}

    def _waits_for(self) -> str:
        verdict = judge(self._resource.kind, self._document)
        return "" if verdict.ready else verdict.why

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.namespace}/{self.name}>"

    def _repr_html_(self) -> str:
        return card_html(f"{self._resource.kind} {self.namespace}/{self.name}", self._columns())

    # ── requests ─────────────────────────────────────────────────────────────────────────

    async def refresh(self) -> Self:
        """Read the object again. Raises NotFound."""
        return self._take(await self._session.kube.get(self._resource, self._key))

    async def patch(self, body: Mapping[str, Any]) -> Self:
        """Merge this into the object (JSON merge patch): `{"metadata": {"labels": {"a": "b"}}}`."""
        kube = self._session.kube
        return self._take(await kube.patch(self._resource, self._key, body, into=dict))

    async def delete(self, *, wait: bool = False, timeout: float | None = TIMEOUT) -> None:
        """Delete the object; nothing happens if it is gone. `wait`: until it and its finalizers are gone."""
        from manta.kube.errors import Conflict

        try:
            await self._session.kube.delete(self._resource, self._key, uid=self.uid)
        except Conflict:  # another object has the name now
            return
        if wait:
            await self._until_gone(timeout)

    async def suspend(self) -> Self:
        """Delete its Pods and clusters, or start no further jobs; `resume` undoes it."""
        return await self.patch({"spec": {"suspend": True}})

    async def resume(self) -> Self:
        """Create what `suspend` deleted again. A job runs from its start, on a new cluster."""
        return await self.patch({"spec": {"suspend": False}})

    async def wait_for(
        self,
        condition: Callable[[M], bool],
        *,
        timeout: float | None = TIMEOUT,
        what: str = "the condition",
    ) -> Self:
        """Wait, by a watch, until the condition is true of the object. Raises WaitTimeout and Deleted."""
        await self._wait(self._condition(condition, what), timeout, what, progress=False)
        return self

    def _condition(
        self, condition: Callable[[M], bool], what: str
    ) -> Callable[[Document], Verdict]:
        def judged(_: Document) -> Verdict:
            return Verdict(ready=condition(self.object), why=f"not yet: {what}")

        return judged

    async def _wait(
        self,
        judged: Callable[[Document], Verdict],
        timeout: float | None,
        what: str,
        progress: Progress,
    ) -> None:
        report = reporter(progress)
        async with aclosing(self.reasons(judged, timeout, what)) as reasons:
            async for why in reasons:
                report(why)

    async def reasons(
        self, judged: Callable[[Document], Verdict], timeout: float | None, what: str
    ) -> AsyncGenerator[str, None]:
        """A line for each change of what the object waits for; ends when it is ready.

        Raises WaitTimeout, WaitFailed and Deleted.
        """
        who, why = f"{self._resource.kind} {self._key}", ""
        watch = watch_object(self._session.kube, self._resource, self._key, self.uid)
        try:
            async with asyncio.timeout(timeout), aclosing(watch) as changes:
                async for document in changes:
                    if document is None:
                        raise Deleted(f"{who} was deleted before {what}", why)
                    verdict = judged(self._take(document)._document)  # noqa: SLF001
                    if verdict.ready:
                        return
                    if verdict.failed:
                        raise WaitFailed(f"{who} has failed: {verdict.why}", verdict.why)
                    if verdict.why != why:
                        why = verdict.why
                        yield f"{who}: {why}"
        except TimeoutError:
            raise WaitTimeout(
                f"{who}: {what} did not come within {timeout:g} s: {why or 'no answer'}; wait longer "
                f"with timeout=, or see `manta describe {self._resource.kind.lower()}/{self.name}`",
                why,
            ) from None

    async def _until_gone(self, timeout: float | None) -> None:
        try:
            await self._wait(
                lambda _: Verdict(ready=False, why="being deleted"), timeout, "gone", progress=False
            )
        except Deleted:
            return

    # ── `async with` ─────────────────────────────────────────────────────────────────────

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: builtins.object) -> None:
        """Delete the object."""
        await self.delete()

    # ── inside ───────────────────────────────────────────────────────────────────────────

    @property
    def _resource(self) -> Resource:
        return type(self).kind.resource()

    @property
    def _key(self) -> Key:
        return Key(self.namespace, self.name)

    def _take(self, document: Document) -> Self:
        self._document, self._object = document, None
        return self


class AsyncCollection(Generic[M, H]):
    """All objects of one kind."""

    handle: ClassVar[type[AsyncObject[Any]]]
    _build: ClassVar[Callable[..., Manifest]]
    """Makes the manifest of the keyword arguments of `create`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def get(self, name: str, *, namespace: str | None = None) -> H:
        """The object of this name. Raises NotFound."""
        key = Key(namespace or self._session.namespace, name)
        return self._handle(await self._session.kube.get(self._resource, key))

    async def list(
        self,
        *,
        namespace: str | None = None,
        all_namespaces: bool = False,
        labels: Mapping[str, str] | str = "",
    ) -> Table[H]:
        """The objects of the namespace, or of all; `labels` selects some."""
        where = "" if all_namespaces else namespace or self._session.namespace
        kube = self._session.kube
        items = (await kube.list(self._resource, where, labels=selector_of(labels))).items
        found = [self._handle(one) for one in items]
        return Table(found, [one.row() for one in found])

    async def apply(self, manifest: M | Mapping[str, Any] | str, *, force: bool = False) -> H:
        """Create the object, or change it to this manifest (server-side apply).

        `force` takes over fields that somebody else has set; without it they raise Conflict.
        """
        document = self._manifest(manifest)
        key = Key(document["metadata"]["namespace"], document["metadata"]["name"])
        written = await self._session.kube.patch(
            self._resource,
            key,
            document,
            kind="apply",
            field_manager=FIELD_MANAGER,
            force=force,
            field_validation="Strict",
            into=dict,
        )
        return self._handle(written)

    async def delete(self, name: str, *, namespace: str | None = None) -> bool:
        """Delete the object of this name. Whether it existed."""
        key = Key(namespace or self._session.namespace, name)
        return await self._session.kube.delete(self._resource, key)

    async def create_from(
        self, manifest: M | Mapping[str, Any] | str | None, options: Mapping[str, Any]
    ) -> H:
        """Create the object from the one of both that is given. Raises InvalidValue, AlreadyExists."""
        check_one_of(manifest, options)
        built: Any = self._build(**options) if manifest is None else manifest
        return await self._create(built)

    async def _create(self, manifest: M | Mapping[str, Any] | str) -> H:
        document = self._manifest(manifest)
        made = await self._session.kube.create(
            self._resource,
            document["metadata"]["namespace"],
            document,
            field_manager=FIELD_MANAGER,
            field_validation="Strict",
            into=dict,
        )
        return self._made(made)

    def _made(self, document: Document) -> H:
        handle = self._handle(document)
        if self._session.cleanup:
            self._session.made.append(handle)
        return handle

    def _manifest(self, manifest: M | Mapping[str, Any] | str) -> Document:
        """The manifest as JSON values, checked, with its namespace. Raises InvalidValue."""
        kind = type(self).handle.kind
        if isinstance(manifest, str):
            manifest = _of_yaml(kind, manifest)
        document = manifest.to_dict() if isinstance(manifest, Manifest) else manifest_of(manifest)
        name = document.get("kind", self._resource.kind)
        if name != self._resource.kind:
            raise InvalidValue("kind", name, f"must be {self._resource.kind}")
        if not document["metadata"].get("name"):
            raise InvalidValue("metadata.name", None, "give the object a name")
        check(kind, document)
        meta = {"namespace": self._session.namespace, **document["metadata"]}
        api_version = self._resource.api_version
        return {"apiVersion": api_version, "kind": name, **document, "metadata": meta}

    def _handle(self, document: Document) -> H:
        return type(self).handle(self._session, document)  # type: ignore[return-value]

    @property
    def _resource(self) -> Resource:
        return type(self).handle.kind.resource()


def _of_yaml(kind: type[Manifest], text: str) -> Mapping[str, Any]:
    try:
        document = read_yaml(text)
    except DocumentError as error:
        raise InvalidValue("manifest", text, f"not valid YAML: {error}") from error
    if not isinstance(document, dict) or not isinstance(document.get("metadata"), dict):
        raise InvalidValue("manifest", text, f"must be the YAML of a {kind.__name__}")
    return document


def check_one_of(manifest: object, options: Mapping[str, Any]) -> None:
    """Raises InvalidValue unless either a manifest or arguments are given."""
    if manifest is not None and options:
        raise InvalidValue(next(iter(options)), "...", "give either a manifest or arguments")
    if manifest is None and not options.get("name"):
        raise InvalidValue("name", options.get("name"), "give a name, or a manifest")
