"""Where a user may list and watch what the pages show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from manta.api.resources import Resource
from manta.console.rights import EVERYTHING, Rights, ask_rights, may
from manta.kube.client import Client

_ALL: Final = Resource("*", "v1", "*", "")
_VERBS: Final = ("list", "watch")


async def ask_scopes(
    client: Client, resources: Sequence[Resource], namespaces: Sequence[str]
) -> Mapping[str, tuple[str, ...]]:
    """By plural: the namespaces that may be watched, or '' for all of them; nothing where none may be.

    Few questions, because they are repeated: one for an admin, one for each namespace that somebody names. One after
    another, because each connection that was open costs 0.3 MiB. Raises the client's errors.
    """
    if await may(client, EVERYTHING, _ALL):
        return {one.plural: ("",) for one in resources}
    found = {one.plural: ("",) if await _may_see_all(client, one) else () for one in resources}
    others = [one for one in resources if one.namespaced and not found[one.plural]]
    questions = [(verb, one, "") for one in others for verb in _VERBS]
    for namespace in namespaces if others else ():
        rights = await ask_rights(client, namespace, questions)
        for one in others:
            if _may_see(rights, one):
                found[one.plural] = (*found[one.plural], namespace)
    return found


async def _may_see_all(client: Client, resource: Resource) -> bool:
    for verb in _VERBS:
        if not await may(client, verb, resource):
            return False
    return True


def _may_see(rights: Rights, resource: Resource) -> bool:
    return all(rights.allows(verb, resource) for verb in _VERBS)
