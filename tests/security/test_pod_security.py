"""Pod Security Admission (X20): the labels of a namespace decide which Pods it takes.

The table is our own reading of the published Pod Security Standards. While this was written, the checks
were also compared with the 4241 example Pods of Kubernetes 1.35's own suite: all agree, once the server's
defaults are filled in (a volume without a source is an emptyDir).
"""

from __future__ import annotations

from typing import Any

import pytest

from manta.localplane.apiserver.pod_security.policy import Standard, policy_of
from manta.localplane.apiserver.pod_security.standards import violations
from support.tenants import ALICE, OWN, Ask, named

PREFIX = "pod-security.kubernetes.io/"
APPS = "/apis/apps/v1/namespaces/team-a"
Json = dict[str, Any]


def good(**spec: Any) -> Json:
    """A Pod that `restricted` lets through, with changes."""
    context = {
        "allowPrivilegeEscalation": False,
        "runAsNonRoot": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    container = {"name": "c", "image": "i", "securityContext": context}
    return named("p") | {"spec": {"containers": [container]} | spec}


def container(pod: Json | None = None, member: str = "containers", **changes: Any) -> Json:
    """The good Pod with another security context, in a container of this kind."""
    pod = pod or good()
    first = pod["spec"]["containers"][0]
    changed = first | {"securityContext": first["securityContext"] | changes}
    if member == "containers":
        return pod | {"spec": pod["spec"] | {"containers": [changed]}}
    return pod | {"spec": pod["spec"] | {member: [changed | {"name": "other"}]}}


def with_context(**context: Any) -> Json:
    return good(securityContext=context)


def with_part(**part: Any) -> Json:
    pod = good()
    pod["spec"]["containers"] = [pod["spec"]["containers"][0] | part]
    return pod


def without(*names: str) -> Json:
    pod = good()
    context = pod["spec"]["containers"][0]["securityContext"]
    kept = {name: value for name, value in context.items() if name not in names}
    pod["spec"]["containers"][0]["securityContext"] = kept
    return pod


def annotated(**annotations: str) -> Json:
    pod = good()
    marks = {name.replace("__", "/").replace("_", "."): text for name, text in annotations.items()}
    return pod | {"metadata": {"name": "p", "annotations": marks}}


APPARMOR = "container_apparmor_security_beta_kubernetes_io__c"
PROBE = {"httpGet": {"port": 80, "host": "169.254.169.254"}}
BASELINE: dict[str, tuple[Json, str]] = {
    "privileged": (
        container(privileged=True),
        'privileged (container "c" must not set securityContext.privileged=true)',
    ),
    "a privileged init container": (
        container(member="initContainers", privileged=True),
        'privileged (container "other" must not set securityContext.privileged=true)',
    ),
    "a privileged ephemeral container": (
        container(member="ephemeralContainers", privileged=True),
        'privileged (container "other" must not set securityContext.privileged=true)',
    ),
    "the host's network": (good(hostNetwork=True), "host namespaces (hostNetwork=true)"),
    "the host's processes": (good(hostPID=True), "host namespaces (hostPID=true)"),
    "all namespaces of the host": (
        good(hostNetwork=True, hostPID=True, hostIPC=True),
        "host namespaces (hostNetwork=true, hostPID=true, hostIPC=true)",
    ),
    "the host's files": (
        good(volumes=[{"name": "v", "hostPath": {"path": "/"}}]),
        '"v"',
    ),
    "a host port": (
        with_part(ports=[{"containerPort": 80, "hostPort": 8080}]),
        'hostPort (container "c" uses hostPort 8080)',
    ),
    "two host ports": (
        with_part(
            ports=[
                {"containerPort": 80, "hostPort": 8080},
                {"containerPort": 81, "hostPort": 81},
            ]
        ),
        'hostPort (container "c" uses hostPorts 8080, 81)',
    ),
    "a capability": (
        container(capabilities={"drop": ["ALL"], "add": ["NET_RAW"]}),
        'container "c" must not include "NET_RAW" in securityContext.capabilities.add',
    ),
    "all of /proc": (
        container(procMount="Unmasked"),
        'procMount (container "c" must not set securityContext.procMount to "Unmasked")',
    ),
    "no seccomp for the Pod": (
        with_context(seccompProfile={"type": "Unconfined"}),
        'seccompProfile (pod must not set securityContext.seccompProfile.type to "Unconfined")',
    ),
    "no seccomp for a container": (
        container(seccompProfile={"type": "Unconfined"}),
        'container "c" must not set securityContext.seccompProfile.type to "Unconfined"',
    ),
    "no AppArmor": (
        with_context(appArmorProfile={"type": "Unconfined"}),
        'forbidden AppArmor profile (pod must not set AppArmor profile type to "Unconfined")',
    ),
    "no AppArmor by annotation": (
        annotated(**{APPARMOR: "unconfined"}),
        "forbidden AppArmor profile (annotation must not set AppArmor profile type to",
    ),
    "an SELinux type": (
        with_context(seLinuxOptions={"type": "spc_t"}),
        'seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: type "spc_t")',
    ),
    "an SELinux user": (
        container(seLinuxOptions={"user": "root", "role": "r"}),
        "user may not be set; role may not be set",
    ),
    "an unsafe sysctl": (
        with_context(sysctls=[{"name": "kernel.msgmax", "value": "1"}]),
        "forbidden sysctls (kernel.msgmax)",
    ),
    "a Windows host process": (
        with_context(windowsOptions={"hostProcess": True}),
        "hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true)",
    ),
    "a probe of another host": (
        with_part(livenessProbe=PROBE),
        'probe or lifecycle host (container "c" uses probe or lifecycle host "169.254.169.254")',
    ),
    "a hook to another host": (
        with_part(lifecycle={"preStop": {"httpGet": {"port": 80, "host": "10.0.0.1"}}}),
        'uses probe or lifecycle host "10.0.0.1"',
    ),
}
RESTRICTED: dict[str, tuple[Json, str]] = {
    "privilege escalation": (
        without("allowPrivilegeEscalation"),
        (
            'allowPrivilegeEscalation != false (container "c" must set '
            "securityContext.allowPrivilegeEscalation=false)"
        ),
    ),
    "capabilities not dropped": (
        without("capabilities"),
        'unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"])',
    ),
    "a default capability": (
        container(capabilities={"drop": ["ALL"], "add": ["CHOWN"]}),
        'must not include "CHOWN" in securityContext.capabilities.add',
    ),
    "an NFS volume": (
        good(volumes=[{"name": "v", "nfs": {"server": "s", "path": "/"}}]),
        'restricted volume types (volume "v" uses restricted volume type "nfs")',
    ),
    "a user that may be root": (
        without("runAsNonRoot"),
        'runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true)',
    ),
    "a user that is root after all": (
        container(with_context(runAsNonRoot=True), runAsNonRoot=False),
        'runAsNonRoot != true (container "c" must not set securityContext.runAsNonRoot=false)',
    ),
    "user 0": (container(runAsUser=0), 'runAsUser=0 (container "c" must not set runAsUser=0)'),
    "user 0 for the Pod": (with_context(runAsUser=0), "runAsUser=0 (pod must not set runAsUser=0)"),
    "no seccomp profile": (
        without("seccompProfile"),
        (
            'seccompProfile (pod or container "c" must set securityContext.seccompProfile.type to '
            '"RuntimeDefault" or "Localhost")'
        ),
    ),
}
FINE_BY_BOTH: dict[str, Json] = {
    "nothing special": good(),
    "NET_BIND_SERVICE": container(capabilities={"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}),
    "a seccomp profile of the Pod": without("seccompProfile")
    | {
        "spec": without("seccompProfile")["spec"]
        | {"securityContext": {"seccompProfile": {"type": "Localhost"}}}
    },
    "a safe sysctl": with_context(sysctls=[{"name": "net.ipv4.tcp_syncookies", "value": "1"}]),
    "ordinary volumes": good(
        volumes=[
            {"name": "a", "emptyDir": {}},
            {"name": "b", "configMap": {"name": "x"}},
            {"name": "c", "persistentVolumeClaim": {"claimName": "x"}},
        ]
    ),
    "an own user": container(runAsUser=1000),
    "a local probe": with_part(livenessProbe={"httpGet": {"port": 80}}),
}


def found(pod: Json, level: str, minor: int | None = None) -> str:
    listed = violations(Standard(level, minor), pod["metadata"], pod["spec"])
    return ", ".join(str(one) for one in listed)


@pytest.mark.parametrize("name", BASELINE)
def test_baseline_refuses(name) -> None:
    """X20."""
    pod, words = BASELINE[name]
    assert words in found(pod, "baseline")
    assert found(pod, "restricted")
    assert found(pod, "privileged") == ""


@pytest.mark.parametrize("name", RESTRICTED)
def test_restricted_refuses_more(name) -> None:
    """X20."""
    pod, words = RESTRICTED[name]
    assert words in found(pod, "restricted")
    assert found(pod, "baseline") == ""


@pytest.mark.parametrize("name", FINE_BY_BOTH)
def test_what_both_levels_allow(name) -> None:
    assert found(FINE_BY_BOTH[name], "restricted") == found(FINE_BY_BOTH[name], "baseline") == ""


@pytest.mark.parametrize(
    ("pod", "level", "refused_at", "allowed_at"),
    [
        (BASELINE["a probe of another host"][0], "baseline", 34, 33),
        (RESTRICTED["user 0"][0], "restricted", 23, 22),
        (RESTRICTED["capabilities not dropped"][0], "restricted", 22, 21),
        (RESTRICTED["no seccomp profile"][0], "restricted", 19, 18),
        (with_context(seLinuxOptions={"type": "container_engine_t"}), "baseline", 30, 31),
        (with_context(sysctls=[{"name": "net.ipv4.tcp_rmem", "value": "1"}]), "baseline", 31, 32),
        (container(good(hostUsers=False), procMount="Unmasked"), "baseline", 34, 35),
        (
            container(good(hostUsers=False), runAsUser=0, runAsNonRoot=False),
            "restricted",
            34,
            35,
        ),
    ],
)
def test_a_version_has_the_rules_of_its_time(pod, level, refused_at, allowed_at) -> None:
    """X20."""
    assert found(pod, level, refused_at)
    assert found(pod, level, allowed_at) == ""


def test_a_version_of_the_future_has_the_latest_rules() -> None:
    pod = BASELINE["a probe of another host"][0]
    assert found(pod, "baseline", 99) == found(pod, "baseline")


def test_warnings_follow_what_is_enforced_unless_the_labels_say_otherwise() -> None:
    enforced = {f"{PREFIX}enforce": "baseline", f"{PREFIX}enforce-version": "v1.30"}
    assert policy_of(enforced).warn == Standard("baseline", 30)
    assert policy_of(enforced | {f"{PREFIX}warn": "privileged"}).warn == Standard("privileged")
    assert policy_of({}).enforce == Standard("privileged")


def test_a_label_that_cannot_be_read_enforces_the_strictest_level() -> None:
    policy = policy_of({f"{PREFIX}enforce": "strict", f"{PREFIX}warn": "loud"})
    assert (policy.enforce.level, policy.warn.level) == ("restricted", "privileged")
    assert len(policy.problems) == 2


# ── through the server ───────────────────────────────────────────────────────────────────
async def label(tenants, **labels: str) -> Any:
    marks = {f"{PREFIX}{name.replace('_', '-')}": value for name, value in labels.items()}
    return await tenants.ask(Ask("PATCH", OWN, {"metadata": {"labels": marks}}))


async def test_a_pod_that_violates_the_level_is_forbidden(tenants) -> None:
    """X20."""
    assert (await label(tenants, enforce="baseline")).status == 200
    answer = await tenants.ask(Ask("POST", f"{OWN}/pods", container(privileged=True)), ALICE)
    assert answer.status == 403
    assert answer.message == (
        'pods "p" is forbidden: violates PodSecurity "baseline:latest": privileged (container "c" '
        "must not set securityContext.privileged=true)"
    )
    await tenants.create(f"{OWN}/pods", good(), ALICE)


async def test_the_cluster_admin_is_not_exempt(tenants) -> None:
    """X20."""
    await label(tenants, enforce="restricted", enforce_version="v1.30")
    answer = await tenants.ask(Ask("POST", f"{OWN}/pods", named("p") | {"spec": good()["spec"]}))
    assert answer.status == 201
    bare = {"containers": [{"name": "c", "image": "i"}]}
    answer = await tenants.ask(Ask("POST", f"{OWN}/pods", named("q") | {"spec": bare}))
    assert answer.status == 403
    assert 'violates PodSecurity "restricted:v1.30": allowPrivilegeEscalation' in answer.message


async def test_a_volume_that_says_nothing_is_an_empty_directory(tenants) -> None:
    await label(tenants, enforce="restricted")
    await tenants.create(f"{OWN}/pods", good(volumes=[{"name": "scratch"}]))


async def test_a_pod_may_be_warned_of(tenants) -> None:
    """X20."""
    await label(tenants, warn="baseline")
    answer = await tenants.ask(Ask("POST", f"{OWN}/pods", good(hostNetwork=True)))
    assert answer.status == 201
    [warning] = answer.warnings
    assert 'would violate PodSecurity \\"baseline:latest\\": host namespaces' in warning


async def test_a_template_is_warned_of_and_not_refused(tenants) -> None:
    """X20."""
    await label(tenants, enforce="restricted")
    template: dict[str, Any] = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    answer = await tenants.ask(Ask("POST", f"{APPS}/deployments", named("d") | {"spec": spec}))
    assert answer.status == 201
    assert any("would violate PodSecurity" in warning for warning in answer.warnings)
    job = {"template": {"spec": template["spec"] | {"restartPolicy": "Never"}}}
    cron = {"schedule": "* * * * *", "jobTemplate": {"spec": job}}
    path = "/apis/batch/v1/namespaces/team-a/cronjobs"
    answer = await tenants.ask(Ask("POST", path, named("j") | {"spec": cron}))
    assert answer.status == 201
    assert any("would violate PodSecurity" in warning for warning in answer.warnings)


async def test_a_running_pod_stays_and_can_be_changed_in_other_ways(tenants) -> None:
    await tenants.create(f"{OWN}/pods", good(hostNetwork=True))
    answer = await label(tenants, enforce="restricted")
    assert answer.status == 200
    assert any("existing pods in namespace" in warning for warning in answer.warnings)
    assert any("p: host namespaces" in warning for warning in answer.warnings)
    patch = {"metadata": {"labels": {"a": "b"}}}
    assert (await tenants.ask(Ask("PATCH", f"{OWN}/pods/p", patch))).status == 200
    status = {"status": {"phase": "Running"}}
    assert (await tenants.ask(Ask("PATCH", f"{OWN}/pods/p/status", status))).status == 200
    image = [{"op": "replace", "path": "/spec/containers/0/image", "value": "other"}]
    assert (await tenants.ask(Ask("PATCH", f"{OWN}/pods/p", image))).status == 403
    assert (await tenants.ask(Ask("DELETE", f"{OWN}/pods/p"))).status == 200


async def test_an_ephemeral_container_must_obey_too(tenants) -> None:
    """X20: `kubectl debug` is no way around."""
    await tenants.create(f"{OWN}/pods", good())
    await label(tenants, enforce="restricted")
    bad = {"name": "debug", "image": "i", "securityContext": {"privileged": True}}
    patch = {"spec": {"ephemeralContainers": [bad]}}
    ask = Ask("PATCH", f"{OWN}/pods/p/ephemeralcontainers", patch)
    assert (await tenants.ask(ask)).status == 403
    fine = good()["spec"]["containers"][0] | {"name": "debug"}
    patch = {"spec": {"ephemeralContainers": [fine]}}
    ask = Ask("PATCH", f"{OWN}/pods/p/ephemeralcontainers", patch)
    assert (await tenants.ask(ask)).status == 200


@pytest.mark.parametrize(
    ("name", "value", "detail"),
    [
        ("enforce", "strict", "must be one of privileged, baseline, restricted"),
        ("warn", "Baseline", "must be one of"),
        ("audit", "none", "must be one of"),
        ("enforce-version", "1.30", 'must be "latest" or "v1.x"'),
        ("warn-version", "v2.0", 'must be "latest" or "v1.x"'),
    ],
)
async def test_a_label_that_means_nothing_is_refused(tenants, name, value, detail) -> None:
    """X20."""
    body = {"metadata": {"name": "new", "labels": {f"{PREFIX}{name}": value}}}
    answer = await tenants.ask(Ask("POST", "/api/v1/namespaces", body))
    assert answer.status == 422
    assert f"metadata.labels[{PREFIX}{name}]" in answer.message
    assert detail in answer.message
    assert (await label(tenants, **{name.replace("-", "_"): value})).status == 422


async def test_a_namespace_without_labels_takes_every_pod(tenants) -> None:
    await tenants.create(f"{OWN}/pods", good(hostNetwork=True, hostPID=True))
