"""Would the API server take what a plan makes? Every object is created with `dryRun=All`.

The CRD's schema says little about Pod templates: a missing image or a bad container name is found
only when the Pod itself is written. So is a quota, or what a webhook refuses.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from manta.api.meta import Key
from manta.api.ray.names import LABEL_GROUP, LABEL_NODE_TYPE
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS
from manta.kube.client import Client
from manta.kube.errors import AlreadyExists, ApiError, BadRequest, Forbidden, Invalid, NotFound
from manta.reconcile.actions import Action, Create
from manta.reconcile.preview import Preview

Previewer = Callable[[str, Key, Mapping[str, Any] | None], Awaitable[Preview | None]]
"""What the operator would do about the object of this kind and key, or about a manifest of it."""

REFUSED = "it is invalid: the API server refuses it"
MOST_CHECKED = 60
_NESTED = {one.kind: one for one in (RAY_CLUSTERS, RAY_JOBS)}
_STRICT = "strict decoding error: "
_NOT_ALLOWED = "cannot create resource"
"""In a 403 of RBAC; a quota's or Pod Security's 403 says something else."""


async def checked_preview(
    client: Client, previewer: Previewer, kind: str, key: Key, manifest: Mapping[str, Any] | None
) -> Preview | None:
    """The preview, with everything that the server would refuse as violations."""
    try:
        found = await previewer(kind, key, manifest)
    except (Invalid, BadRequest) as error:
        return Preview(REFUSED, violations=tuple(_causes(error)))
    if found is None or found.violations:
        return found
    check = _Check(client, previewer)
    refused = [one async for one in check.refusals(kind, key, found, manifest)]
    if refused:
        found = replace(found, effect=REFUSED, violations=tuple(dict.fromkeys(refused)))
    return replace(found, remarks=(*found.remarks, *check.notes))


def _causes(error: ApiError) -> Iterator[str]:
    """Field by field where the server says so."""
    named = [one for one in error.causes if one.get("field")]
    for cause in named:
        yield f"{cause['field']}: {cause.get('message', '')}"
    _, strict, unknown = error.message.partition(_STRICT)
    if strict:
        yield from (f"{one}: is it spelt correctly?" for one in unknown.split(", "))
    elif not named:
        yield error.message


@dataclass
class _Check:
    client: Client
    previewer: Previewer
    notes: tuple[str, ...] = ()

    async def refusals(
        self, kind: str, key: Key, found: Preview, manifest: Mapping[str, Any] | None
    ) -> AsyncIterator[str]:
        for action in _representatives(found.plan.actions):
            async for one in self._tried(action):
                yield one
        if kind == "RayCronJob" and manifest is not None:
            async for one in self._nested("RayJob", _job_of(key, manifest)):
                yield f"spec.jobTemplate: {one}"

    async def _tried(self, action: Create) -> AsyncIterator[str]:
        if action.resource.kind in _NESTED:
            async for one in self._nested(action.resource.kind, action.manifest):
                yield one
            return
        what = f"{action.resource.kind} {action.key.name}"
        try:
            await self.client.create(
                action.resource, action.key.namespace, action.manifest, dry_run=True
            )
        except AlreadyExists:
            return
        except Forbidden as error:
            if _NOT_ALLOWED not in error.message:
                yield f"{what}: {error.message}"
            else:
                self._note(f"not checked: you may not create {action.resource.plural}")
        except (Invalid, BadRequest, NotFound) as error:
            for cause in _causes(error):
                yield f"{what}: {cause}"

    async def _nested(self, kind: str, manifest: Mapping[str, Any]) -> AsyncIterator[str]:
        """A RayJob makes a RayCluster, which makes Pods: look at these too."""
        meta = manifest["metadata"]
        key = Key(meta["namespace"], meta.get("name") or f"{meta['generateName']}preview")
        named = {**manifest, "metadata": {**meta, "name": key.name}}
        try:
            found = await self.previewer(kind, key, named)
        except (Invalid, BadRequest) as error:
            for cause in _causes(error):
                yield f"{kind} {key.name}: {cause}"
            return
        except Forbidden:
            self._note(f"not checked: you may not create {_NESTED[kind].plural}")
            return
        if found is None:
            return
        for violation in found.violations:
            yield f"{kind} {key.name}: {violation}"
        if not found.violations:
            async for one in self.refusals(kind, key, found, named):
                yield one

    def _note(self, text: str) -> None:
        self.notes = tuple(dict.fromkeys((*self.notes, text)))


def _representatives(actions: Iterable[Action]) -> list[Create]:
    """One Pod of each group stands for all of it."""
    chosen: dict[tuple[str, ...], Create] = {}
    for action in actions:
        if not isinstance(action, Create) or action.secret_data:
            continue
        labels = action.manifest["metadata"].get("labels") or {}
        group = (labels.get(LABEL_NODE_TYPE, ""), labels.get(LABEL_GROUP, ""))
        name = group if action.resource.kind == "Pod" else (action.key.name,)
        chosen.setdefault((action.resource.kind, *name), action)
    return list(chosen.values())[:MOST_CHECKED]


def _job_of(key: Key, cron: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": RAY_JOBS.api_version,
        "kind": RAY_JOBS.kind,
        "metadata": {"name": f"{key.name}-1", "namespace": key.namespace},
        "spec": (cron.get("spec") or {}).get("jobTemplate") or {},
    }
