"""ControllerRevisions: the numbered history of the Pod templates of a StatefulSet or DaemonSet. Pure.

`kubectl rollout history` and `kubectl rollout undo` read them. The name is that of the owner and a hash of the
template.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from manta.api.meta import ObjectMeta
from manta.api.resources import CONTROLLER_REVISIONS, Resource
from manta.api.revisions import ControllerRevision
from manta.localplane.builtin.deployment.snapshot import template_hash
from manta.reconcile.actions import Create, Delete, Patch
from manta.reconcile.causes import ActionCause
from manta.reconcile.plan import NOTHING, Plan, do

HASH_LABEL = "controller-revision-hash"
DEFAULT_HISTORY_LIMIT = 10
"""The default of `revisionHistoryLimit`."""


def revision_data(template: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a revision: a patch that puts the whole template back."""
    return {"spec": {"template": {**template, "$patch": "replace"}}}


def template_of(revision: ControllerRevision) -> dict[str, Any]:
    template: dict[str, Any] = (revision.data.get("spec") or {}).get("template") or {}
    return {name: value for name, value in template.items() if name != "$patch"}


def revision_name(owner: ObjectMeta, template: Mapping[str, Any]) -> str:
    return f"{owner.name}-{template_hash(template)}"


def find_revision(
    template: Mapping[str, Any], revisions: Sequence[ControllerRevision]
) -> ControllerRevision | None:
    """The newest revision with this template."""
    wanted = template_hash(template)
    same = [one for one in revisions if template_hash(template_of(one)) == wanted]
    return max(same, key=lambda one: one.revision, default=None)


def plan_revision(
    resource: Resource,
    owner: ObjectMeta,
    template: Mapping[str, Any],
    revisions: Sequence[ControllerRevision],
    cause: ActionCause,
) -> Plan:
    """Create the revision of the template, or make it the newest again after a rollback."""
    newest = max((one.revision for one in revisions), default=0)
    found = find_revision(template, revisions)
    if found is None:
        return do(
            Create(CONTROLLER_REVISIONS, _manifest(resource, owner, template, newest + 1), cause)
        )
    if found.revision == newest:
        return NOTHING
    meta = found.metadata
    change = {"revision": newest + 1}
    return do(Patch(CONTROLLER_REVISIONS, meta.key, change, cause, uid=meta.uid))


def plan_history(
    revisions: Sequence[ControllerRevision],
    in_use: Collection[str],
    limit: int | None,
    cause: ActionCause,
) -> Plan:
    """Delete the oldest unused revisions beyond the limit. `in_use`: the names of the revisions that Pods have."""
    unused = [one for one in revisions if one.metadata.name not in in_use]
    surplus = len(unused) - (DEFAULT_HISTORY_LIMIT if limit is None else limit)
    oldest = sorted(unused, key=lambda one: one.revision)[: max(0, surplus)]
    deletes = (
        Delete(CONTROLLER_REVISIONS, one.metadata.key, one.metadata.uid, cause) for one in oldest
    )
    return do(*deletes)


def _manifest(
    resource: Resource, owner: ObjectMeta, template: Mapping[str, Any], number: int
) -> dict[str, Any]:
    labels = (template.get("metadata") or {}).get("labels") or {}
    return {
        "apiVersion": CONTROLLER_REVISIONS.api_version,
        "kind": CONTROLLER_REVISIONS.kind,
        "metadata": {
            "name": revision_name(owner, template),
            "namespace": owner.namespace,
            "labels": {**labels, HASH_LABEL: template_hash(template)},
            "ownerReferences": [resource.controller_reference(owner)],
        },
        "data": revision_data(template),
        "revision": number,
    }
