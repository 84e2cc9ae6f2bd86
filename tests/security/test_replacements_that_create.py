"""A PUT that makes an object is a creation: it needs that right, and whatever a creation is checked for."""

from __future__ import annotations

from support.tenants import ALICE, AMY, OWN, RBAC, Ask, Tenants, named

ROLE = f"{RBAC}/namespaces/team-a/roles/made"


def role(*verbs: str, group: str = "", resource: str = "pods") -> dict[str, object]:
    rule = {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}
    return named("made") | {"rules": [rule]}


async def test_a_put_gives_nobody_more_than_he_has(tenants: Tenants) -> None:
    more = await tenants.ask(Ask("PUT", ROLE, role("*", group="*", resource="*")), AMY)
    assert (more.status, "attempting to grant" in more.message) == (403, True)
    assert (await tenants.ask(Ask("GET", ROLE))).status == 404
    same = await tenants.ask(Ask("PUT", ROLE, role("get")), AMY)
    assert same.status == 201


async def test_a_put_that_creates_needs_the_right_to_create(tenants: Tenants) -> None:
    changes = {"apiGroups": [""], "resources": ["limitranges"], "verbs": ["update"]}
    where = f"{RBAC}/namespaces/team-a"
    await tenants.create(f"{where}/roles", named("changes") | {"rules": [changes]})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "changes"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}
    body = named("alice-changes") | {"roleRef": reference, "subjects": [subject]}
    await tenants.create(f"{where}/rolebindings", body)
    limits = named("made") | {"spec": {"limits": []}}
    made = await tenants.ask(Ask("PUT", f"{OWN}/limitranges/made", limits), ALICE)
    assert made.status == 403
    assert 'cannot create resource "limitranges"' in made.message


async def test_whoever_edits_binds_no_pods(tenants: Tenants) -> None:
    target = named("web") | {"target": {"kind": "Node", "name": "node-1"}}
    for user in (ALICE, AMY):
        assert (await tenants.ask(Ask("POST", f"{OWN}/bindings", target), user)).status == 403
