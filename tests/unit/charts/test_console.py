"""The console in the chart: off unless asked for, and without a right of its own unless a proxy needs it."""

from __future__ import annotations

from typing import Any

import pytest

from manta.cli.main import parse
from support.helm import CHART, helm, rendered

Json = dict[str, Any]
NAME = "manta-console"
PROXY = "console.login=proxy,console.url=https://a.example,console.proxy.secret=shared"
OIDC = "console.login=oidc,console.url=https://a.example,console.oidc.issuer=https://i.example,console.oidc.clientId=c"


def objects(values: str = "") -> dict[str, Json]:
    """The console's, by kind."""
    options = f"console.enabled=true,{values}".rstrip(",")
    found = rendered("--set", "installCRDs=false", "--set", options)
    return {one["kind"]: one for one in found if one["metadata"]["name"].startswith(NAME)}


def pod(values: str = "") -> Json:
    return dict(objects(values)["Deployment"]["spec"]["template"]["spec"])


def arguments(values: str = "") -> Any:
    [container] = pod(values)["containers"]
    return parse([*container["command"][1:], *container["args"]])


def test_nothing_of_it_is_there_unless_asked_for() -> None:
    assert "console" not in str(rendered("--set", "installCRDs=false")).replace("-encoder", "")


@pytest.mark.parametrize("values", ["", OIDC])
def test_it_has_no_rights_and_no_token_of_its_own(values: str) -> None:
    found = objects(values)
    assert not {"ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding"} & set(found)
    assert found["ServiceAccount"]["automountServiceAccountToken"] is False
    spec = pod(values)
    assert spec["automountServiceAccountToken"] is False
    assert not [one for one in spec["volumes"] if "projected" in one]
    args = arguments(values)
    assert str(args.kube_certificate_authority) == "/etc/manta/ca/ca.crt"


def test_behind_a_proxy_it_may_impersonate_and_nothing_else() -> None:
    rules = objects(f"{PROXY},console.proxy.groups={{a,b}}")["ClusterRole"]["rules"]
    assert [(one["resources"], one["verbs"], one.get("resourceNames")) for one in rules] == [
        (["users"], ["impersonate"], None),
        (["groups"], ["impersonate"], ["a", "b"]),
    ]
    assert arguments(f"{PROXY},console.proxy.groups={{a,b}}").proxy_groups == "a,b"


def test_the_logout_of_the_proxy_is_known() -> None:
    logout = "console.proxy.logout=/oauth2/sign_out?rd=/"
    assert arguments(f"{PROXY},{logout}").proxy_logout == "/oauth2/sign_out?rd=/"
    assert not arguments(PROXY).proxy_logout


def test_its_pod_is_restricted() -> None:
    spec = pod()
    [container] = spec["containers"]
    assert spec["securityContext"]["runAsNonRoot"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False


def test_secrets_are_files_and_never_arguments() -> None:
    spec = pod(f"{OIDC},console.oidc.clientSecret=s")
    assert {"name": "login", "secret": {"secretName": "s"}} in spec["volumes"]
    args = arguments(f"{OIDC},console.oidc.clientSecret=s")
    assert str(args.oidc_client_secret_file) == "/etc/manta/login/client-secret"
    assert str(args.cookie_key_file) == "/etc/manta/console/key"


def test_the_authority_of_an_issuer_is_a_file_of_a_config_map() -> None:
    values = f"{OIDC},console.oidc.caConfigMap=authority"
    assert {"name": "issuer", "configMap": {"name": "authority"}} in pod(values)["volumes"]
    assert str(arguments(values).oidc_ca) == "/etc/manta/issuer/ca.crt"
    assert arguments(OIDC).oidc_ca is None


def test_a_key_of_the_user_is_used_and_none_is_made() -> None:
    found = objects("console.cookieKeySecret=mine")
    assert "Secret" not in found
    volumes = found["Deployment"]["spec"]["template"]["spec"]["volumes"]
    assert {"name": "key", "secret": {"secretName": "mine", "optional": True}} in volumes


def test_each_installation_has_a_random_key() -> None:
    first, second = (objects()["Secret"]["data"]["key"] for _ in range(2))
    assert first != second
    assert len(first) >= 64


def test_the_probe_asks_under_the_name_that_is_served() -> None:
    [container] = pod("console.url=https://ray.example:8443,console.tlsSecret=t")["containers"]
    probe = container["readinessProbe"]["httpGet"]
    assert probe["scheme"] == "HTTPS"
    assert probe["httpHeaders"] == [{"name": "Host", "value": "ray.example"}]


def test_the_ingress_ends_tls_for_the_host_of_the_console() -> None:
    found = objects("console.url=https://ray.example,console.ingress.enabled=true")["Ingress"]
    assert found["spec"]["tls"] == [{"hosts": ["ray.example"]}]
    assert found["spec"]["rules"][0]["host"] == "ray.example"


def test_dashboards_have_names_of_their_own() -> None:
    values = "console.url=https://ray.example,console.dashboards.url=https://dash.example"
    found = objects(f"{values},console.ingress.enabled=true")["Ingress"]["spec"]
    assert [one["host"] for one in found["rules"]] == ["ray.example", "*.dash.example"]
    assert found["tls"] == [{"hosts": ["ray.example", "*.dash.example"]}]
    args = arguments(values)
    assert (args.dashboards, args.dashboard_writes) == ("https://dash.example", False)


def test_it_reaches_the_api_server_alone() -> None:
    policy = objects("networkPolicy.enabled=true")["NetworkPolicy"]["spec"]
    ports = [one["port"] for rule in policy["egress"] for one in rule["ports"]]
    assert ports == [53, 53, 443, 6443]
    more = objects("networkPolicy.enabled=true,console.history=https://h.example:8443")
    ports = [one["port"] for one in more["NetworkPolicy"]["spec"]["egress"][1]["ports"]]
    assert ports == [443, 6443, 8443]


@pytest.mark.parametrize(
    ("issuer", "port"),
    [
        ("https://i.example", 443),
        ("https://i.example:8443/realms/a", 8443),
        ("https://10.0.0.8", 443),
        ("https://[fd00::8]:8443", 8443),
    ],
)
def test_it_also_reaches_the_issuer(issuer: str, port: int) -> None:
    values = "networkPolicy.enabled=true,networkPolicy.apiServerPorts={6443}"
    policy = objects(f"{values},{OIDC},console.oidc.issuer={issuer}")["NetworkPolicy"]["spec"]
    assert [one["port"] for one in policy["egress"][1]["ports"]] == [6443, port]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ("console.login=link", "value must be one of"),
        ("console.url=https://a.example/path", "does not match pattern"),
        ("console.ingress.enabled=true", "console.url must be https://NAME"),
        ("console.login=oidc", "console.oidc.issuer"),
        ("console.login=proxy,console.url=https://a.example", "console.proxy.secret"),
    ],
)
def test_values_that_make_no_sense_are_refused(values: str, words: str) -> None:
    done = helm("template", "manta", CHART, "--set", f"console.enabled=true,{values}", check=False)
    assert done.returncode
    assert words in done.stderr
