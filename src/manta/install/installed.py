"""Find the objects that `manta install` created, and which installation each belongs to.

Several installations may share a cluster, each with its own namespaces, and their objects have the
same names and labels. The namespace of an object, or of the ServiceAccount that it refers to, tells
them apart.
"""

from __future__ import annotations

from typing import Any

from manta.api.meta import Key
from manta.api.ray.names import OPERATOR_NAME
from manta.api.resources import DEPLOYMENTS, SECRETS, Resource
from manta.api.well_known import LABEL_APP_INSTANCE, LABEL_APP_MANAGED_BY, LABEL_APP_NAME
from manta.install.console_manifests import CONSOLE, KEY
from manta.install.operator_manifests import NAME
from manta.install.plane import OURS, key_of
from manta.install.webhook_manifests import CERTIFICATES, WEBHOOK
from manta.kube.client import Client
from manta.kube.errors import NotFound

Json = dict[str, Any]
Found = tuple[Resource, Key]
LABELS = (
    f"{LABEL_APP_NAME} in ({NAME},{OPERATOR_NAME},{WEBHOOK},{CONSOLE}),"
    f"{LABEL_APP_INSTANCE}={NAME},{LABEL_APP_MANAGED_BY}={NAME}"
)
_SECRETS = {WEBHOOK: CERTIFICATES, CONSOLE: KEY}
"""By the name of the objects that use them."""
Installed = list[tuple[Resource, Json]]


async def installed(client: Client) -> Installed:
    """All objects with our labels, in the order of their deletion."""
    found: Installed = []
    for resource in OURS:
        try:
            listing = await client.list(resource, labels=LABELS)
        except NotFound:  # the API server does not know this kind
            continue
        found += [(resource, one) for one in listing.items]
    return found


def everything(found: Installed) -> list[Found]:
    """The keys of these objects, and of the Secrets of webhooks and consoles."""
    keys = [(resource, key_of(one)) for resource, one in found]
    secrets = {
        Key(key.namespace, _SECRETS[key.name])
        for _, key in keys
        if key.name in _SECRETS and key.namespace
    }
    return [*keys, *((SECRETS, one) for one in sorted(secrets))]


def superseded(found: Installed, namespace: str, wanted: Installed) -> list[Found]:
    """Objects of an earlier installation in this namespace that the new one does not contain."""
    bound = {key_of(one) for _, one in found if "roleRef" in one and _belongs_to(one, namespace)}
    mine = [
        (resource, one)
        for resource, one in found
        if (key_of(one) in bound if "rules" in one else _belongs_to(one, namespace))
    ]
    kept = set(everything(wanted))
    return [one for one in everything(mine) if one not in kept]


def of_namespace(found: Installed, namespace: str) -> list[Found]:
    """All objects of one installation."""
    return superseded(found, namespace, [])


def namespaces_of(found: Installed) -> list[str]:
    """The namespaces with an installed operator."""
    return sorted({key_of(one).namespace for resource, one in found if resource is DEPLOYMENTS})


def _belongs_to(document: Json, namespace: str) -> bool:
    """Whether this object belongs to the installation in that namespace. For Roles see their binding."""
    if "roleRef" in document:
        return any(one.get("namespace") == namespace for one in document.get("subjects") or ())
    if "webhooks" in document:
        services = (one["clientConfig"].get("service") or {} for one in document["webhooks"] or ())
        return any(one.get("namespace") == namespace for one in services)
    return bool(document["metadata"].get("namespace") == namespace)
