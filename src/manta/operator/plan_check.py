"""Check the objects of a plan with the API server: each is created with `dryRun=All`.

The CRDs do not validate Pod templates: only the creation of the Pod itself finds a missing image, an
invalid container name, an exceeded quota or the refusal of a webhook.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from manta.api.meta import Key
from manta.api.ray.names import LABEL_GROUP, LABEL_NODE_TYPE
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS
from manta.api.resources import SERVICE_ACCOUNTS
from manta.kube.client import Client
from manta.kube.errors import AlreadyExists, ApiError, BadRequest, Forbidden, Invalid, NotFound
from manta.reconcile.actions import Action, Create
from manta.reconcile.preview import Preview

Previewer = Callable[[str, Key, Mapping[str, Any] | None], Awaitable[Preview | None]]
"""The preview of the object of this kind and key, or of a manifest of it."""

REJECTED = "it is invalid: the API server rejects it"
MAX_CHECKED = 60
_NESTED = {one.kind: one for one in (RAY_CLUSTERS, RAY_JOBS)}
_STRICT = "strict decoding error: "
_NOT_ALLOWED = "cannot create resource"
"""The text of a 403 of RBAC; quotas and Pod Security use another one."""


async def checked_preview(
    client: Client,
    previewer: Previewer,
    kind: str,
    key: Key,
    manifest: Mapping[str, Any] | None,
    accounts: frozenset[Key] = frozenset(),
) -> Preview | None:
    """The preview, with every rejection of the API server as a violation. `accounts` are ServiceAccounts that are
    applied together with the object."""
    try:
        found = await previewer(kind, key, manifest)
    except (Invalid, BadRequest) as error:
        return Preview(REJECTED, violations=tuple(_causes(error)))
    if found is None or found.violations:
        return found
    check = _Check(client, previewer, accounts)
    rejected = [one async for one in check.rejections(kind, key, found, manifest)]
    if rejected:
        found = replace(found, effect=REJECTED, violations=tuple(dict.fromkeys(rejected)))
    return replace(found, remarks=(*found.remarks, *check.notes))


def _causes(error: ApiError) -> Iterator[str]:
    """The causes of a rejection, by field if the API server names them."""
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
    accounts: frozenset[Key]
    """ServiceAccounts that will exist before the Pods."""
    notes: tuple[str, ...] = ()

    async def rejections(
        self, kind: str, key: Key, found: Preview, manifest: Mapping[str, Any] | None
    ) -> AsyncIterator[str]:
        self.accounts |= {one.key for one in found.plan.actions if _creates_account(one)}
        for action in _representatives(found.plan.actions):
            async for one in self._created(action):
                yield one
        if kind == "RayCronJob" and manifest is not None:
            async for one in self._nested("RayJob", _job_of(key, manifest)):
                yield f"spec.jobTemplate: {one}"

    async def _created(self, action: Create) -> AsyncIterator[str]:
        if action.resource.kind in _NESTED:
            async for one in self._nested(action.resource.kind, action.manifest):
                yield one
            return
        what = f"{action.resource.kind} {action.key.name}"
        try:
            manifest = self._with_existing_account(action)
            await self.client.create(action.resource, action.key.namespace, manifest, dry_run=True)
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
        """Check the objects of an object: a RayJob creates a RayCluster, which creates Pods."""
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
            async for one in self.rejections(kind, key, found, named):
                yield one

    def _with_existing_account(self, action: Create) -> Mapping[str, Any]:
        """A dry run creates no ServiceAccount, and the API server refuses a Pod whose account does not exist."""
        spec = dict(action.manifest.get("spec") or {})
        account = Key(action.key.namespace, spec.pop("serviceAccountName", ""))
        if action.resource.kind != "Pod" or account not in self.accounts:
            return action.manifest
        return {**action.manifest, "spec": spec}

    def _note(self, text: str) -> None:
        self.notes = tuple(dict.fromkeys((*self.notes, text)))


def _creates_account(action: Action) -> bool:
    return isinstance(action, Create) and action.resource == SERVICE_ACCOUNTS


def _representatives(actions: Iterable[Action]) -> list[Create]:
    """The creations to check: one Pod stands for its whole group."""
    chosen: dict[tuple[str, ...], Create] = {}
    for action in actions:
        if not isinstance(action, Create) or action.secret_data:
            continue
        labels = action.manifest["metadata"].get("labels") or {}
        group = (labels.get(LABEL_NODE_TYPE, ""), labels.get(LABEL_GROUP, ""))
        name = group if action.resource.kind == "Pod" else (action.key.name,)
        chosen.setdefault((action.resource.kind, *name), action)
    return list(chosen.values())[:MAX_CHECKED]


def _job_of(key: Key, cron: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": RAY_JOBS.api_version,
        "kind": RAY_JOBS.kind,
        "metadata": {"name": f"{key.name}-1", "namespace": key.namespace},
        "spec": (cron.get("spec") or {}).get("jobTemplate") or {},
    }
