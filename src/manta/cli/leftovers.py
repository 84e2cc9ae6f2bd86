"""What `manta install` has made: found again by its labels, and what of it belongs to which installation.

Several operators may share a cluster, each for namespaces of its own, and their objects bear the same names
and labels. Whose an object is, is told by its namespace or by the account that it serves.
"""

from __future__ import annotations

from typing import Any

from manta.api.meta import Key
from manta.api.ray.names import OPERATOR_NAME
from manta.api.resources import DEPLOYMENTS, SECRETS, Resource
from manta.cli.installation import OURS, key_of
from manta.cli.operator_objects import MANAGER, NAME
from manta.cli.webhook_objects import CERTIFICATES, WEBHOOK
from manta.kube.client import Client
from manta.kube.errors import NotFound

Json = dict[str, Any]
Found = tuple[Resource, Key]
LABELS = (
    f"app.kubernetes.io/name in ({NAME},{OPERATOR_NAME},{WEBHOOK}),"
    f"app.kubernetes.io/instance={NAME},{MANAGER}={NAME}"
)
Installed = list[tuple[Resource, Json]]


async def installed(client: Client) -> Installed:
    """Everything that bears our labels, in the order in which it is to go."""
    found: Installed = []
    for resource in OURS:
        try:
            listing = await client.list(resource, labels=LABELS)
        except NotFound:  # a server without such a kind
            continue
        found += [(resource, one) for one in listing.items]
    return found


def everything(found: Installed) -> list[Found]:
    """What an uninstall removes: also the Secret that a webhook has made for itself."""
    keys = [(resource, key_of(one)) for resource, one in found]
    secrets = {key.namespace for _, key in keys if key.name == WEBHOOK and key.namespace}
    return [*keys, *((SECRETS, Key(one, CERTIFICATES)) for one in sorted(secrets))]


def superseded(found: Installed, namespace: str, wished: Installed) -> list[Found]:
    """What an earlier installation in this namespace has made, and the present one does not want."""
    bound = {key_of(one) for _, one in found if "roleRef" in one and _serves(one, namespace)}
    mine = [
        (resource, one)
        for resource, one in found
        if (key_of(one) in bound if "rules" in one else _serves(one, namespace))
    ]
    kept = set(everything(wished))
    return [one for one in everything(mine) if one not in kept]


def of_namespace(found: Installed, namespace: str) -> list[Found]:
    """All of one installation."""
    return superseded(found, namespace, [])


def homes(found: Installed) -> list[str]:
    """The namespaces that operators were installed into."""
    return sorted({key_of(one).namespace for resource, one in found if resource is DEPLOYMENTS})


def _serves(document: Json, namespace: str) -> bool:
    """Whether this object is of the installation in that namespace. A Role tells by its binding."""
    if "roleRef" in document:
        return any(one.get("namespace") == namespace for one in document.get("subjects") or ())
    if "webhooks" in document:
        asked = (one["clientConfig"].get("service") or {} for one in document["webhooks"] or ())
        return any(one.get("namespace") == namespace for one in asked)
    return bool(document["metadata"].get("namespace") == namespace)
