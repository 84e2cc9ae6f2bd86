"""The console of the chart beside a real kube-apiserver, with logins at a certified OIDC issuer, in Chromium.

The chart is installed with Helm. There is no node, so the console runs as a process: with the command of its Deployment,
the files of its volumes, and no rights of its own. Not collected by `make test`; `make console` runs it (one minute).
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from base64 import b64decode
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tools.kubernetes.run import Authority, control_plane, running

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS, RAY_RESOURCES
from manta.api.resources import CONFIG_MAPS, DEPLOYMENTS, NAMESPACES, SECRETS
from manta.kube.client import Client
from manta.kube.config import load
from manta.kube.connect import connect
from manta.kube.errors import NotFound
from support.axe import violations
from support.browser import CHROMIUM, Page, browser
from support.console_api import ray_cluster
from support.helm import CHART, helm
from support.shared_console import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, NAME, RBAC, READ, WRITE

CACHE = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "manta"
BINARIES = sorted(CACHE.glob("kubernetes/*-etcd-*/bin/kube-apiserver"))
MODULES = sorted(CACHE.glob("oidc-provider/*/done"))
SCRIPT = Path(__file__).parents[1] / "support/oidc_provider.mjs"
SPACE = "manta-system"
CLIENT, SECRET = "manta", "a secret of the client"
ID_TOKEN_SECONDS = 80
"""The console renews a token a minute before its end."""
pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(not CHROMIUM, reason="needs Chromium: apt-get install chromium"),
    pytest.mark.skipif(
        not BINARIES, reason="needs Kubernetes: run `bash tools/kubernetes/build.sh`"
    ),
    pytest.mark.skipif(not MODULES, reason="needs oidc-provider: run `make oidc`"),
]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True)
class Site:
    directory: Path
    admin: Path
    """The kubeconfig."""
    issuer: str
    ca: Path
    tls: tuple[Path, Path]
    port: int

    @property
    def url(self) -> str:
        return f"https://{NAME}:{self.port}"

    def said(self) -> str:
        """What the issuer has logged."""
        return (self.directory / "issuer.log").read_text()


@contextmanager
def site(directory: Path) -> Iterator[Site]:
    """An issuer, and Kubernetes, which trusts it."""
    authority = Authority(directory / "issuer")
    cert, key = authority.issue("issuer")
    port, issuer_port = free_port(), free_port()
    settings = {
        "port": issuer_port, "cert": str(cert), "key": str(key), "client": CLIENT, "secret": SECRET,
        "redirect": f"https://{NAME}:{port}/login/callback", "seconds": ID_TOKEN_SECONDS,
    }  # fmt: skip
    (directory / "issuer.json").write_text(json.dumps(settings))
    issuer = f"https://localhost:{issuer_port}"
    trust = [
        f"--oidc-issuer-url={issuer}", f"--oidc-client-id={CLIENT}", f"--oidc-ca-file={authority.certificate}",
        "--oidc-username-claim=sub", "--oidc-username-prefix=oidc:",
    ]  # fmt: skip
    command = ["node", str(SCRIPT), str(MODULES[-1].parent / "node_modules"), "issuer.json"]
    with ExitStack() as stack:
        stack.enter_context(running(directory, "issuer", command))
        bin_ = BINARIES[-1].parent
        admin = control_plane(stack, bin_, directory / "kubernetes", {"kube-scheduler"}, trust)
        yield Site(directory, admin, issuer, authority.certificate, (cert, key), port)


async def installed(at: Site, client: Client) -> None:
    """The chart, with what its console needs."""
    await client.create(NAMESPACES, "", {"metadata": {"name": SPACE}})
    files = {"tls.crt": at.tls[0], "tls.key": at.tls[1]}
    texts = {name: file.read_text() for name, file in files.items()}
    tls = {"metadata": {"name": "tls"}, "type": "kubernetes.io/tls", "stringData": texts}
    await client.create(SECRETS, SPACE, tls)
    login = {"metadata": {"name": "login"}, "stringData": {"client-secret": SECRET}}
    await client.create(SECRETS, SPACE, login)
    ca = {"metadata": {"name": "issuer"}, "data": {"ca.crt": at.ca.read_text()}}
    await client.create(CONFIG_MAPS, SPACE, ca)
    values = {
        "enabled": True, "url": at.url, "login": "oidc", "tlsSecret": "tls",
        "oidc": {
            "issuer": at.issuer, "clientId": CLIENT, "clientSecret": "login", "caConfigMap": "issuer",
            "scopes": "openid offline_access",
        },
    }  # fmt: skip
    file = at.directory / "values.json"
    file.write_text(json.dumps({"console": values}))
    where = ("-n", SPACE, "-f", file)
    await asyncio.to_thread(helm, "install", "manta", CHART, *where, kubeconfig=at.admin)


async def served(client: Client) -> None:
    """Wait until the API server knows the kinds of the chart."""
    async with asyncio.timeout(300):
        while True:
            try:
                for one in RAY_RESOURCES:
                    await client.list(one)
            except NotFound:
                await asyncio.sleep(0.2)
            else:
                return


async def mounted(at: Site, client: Client, pod: dict[str, Any]) -> Path:
    """A directory with what the kubelet would mount below /etc/manta."""
    root = at.directory / "mounts"
    volumes = {one["name"]: one for one in pod["volumes"]}
    for mount in pod["containers"][0]["volumeMounts"]:
        volume = volumes[mount["name"]]
        if "emptyDir" in volume:
            continue
        if "secret" in volume:
            found = await client.get(SECRETS, Key(SPACE, volume["secret"]["secretName"]), into=dict)
            files = {name: b64decode(text) for name, text in found["data"].items()}
        else:
            name = volume["configMap"]["name"]
            found = await client.get(CONFIG_MAPS, Key(SPACE, name), into=dict)
            files = {name: text.encode() for name, text in found["data"].items()}
        folder = root / str(mount["mountPath"]).removeprefix("/etc/manta/")
        folder.mkdir(parents=True)
        for name, content in files.items():
            (folder / name).write_bytes(content)
    return root


@asynccontextmanager
async def console(at: Site, client: Client) -> AsyncIterator[None]:
    """The command of the Deployment as a process; only addresses of the Pod's network are others."""
    deployment = await client.get(DEPLOYMENTS, Key(SPACE, "manta-console"), into=dict)
    pod = deployment["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    root = await mounted(at, client, pod)
    here = {
        "/etc/manta/": f"{root}/",
        "https://kubernetes.default.svc": load(at.admin).server,
        "0.0.0.0:8267": f"127.0.0.1:{at.port}",
    }
    words = pod["containers"][0]["args"]
    for there, found in here.items():
        assert any(there in word for word in words), there
        words = [word.replace(there, found) for word in words]
    command = [str(Path(sys.executable).with_name("manta")), "console", *words]
    bare = {"PATH": os.environ["PATH"], "HOME": str(at.directory / "nobody")}
    with running(at.directory, "console", command, bare):
        yield


async def binding(client: Client, user: str, verbs: tuple[str, ...]) -> None:
    rules = [
        {"apiGroups": ["ray.io"], "resources": ["*"], "verbs": list(verbs)},
        {"apiGroups": [""], "resources": ["pods", "events", "nodes"], "verbs": list(READ)},
    ]
    await client.create(CLUSTER_ROLES, "", {"metadata": {"name": user}, "rules": rules})
    bound = {
        "metadata": {"name": user},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": user},
        "subjects": [{"kind": "User", "apiGroup": RBAC, "name": f"oidc:{user}"}],
    }
    await client.create(CLUSTER_ROLE_BINDINGS, "", bound)


async def log_in(page: Page, at: Site, name: str) -> None:
    """As a person: from the console to the issuer, there name, password and consent, and back."""
    await page.open(f"{at.url}/", "You log in at", 120)
    await page.click("Log in")
    await page.shows("Sign-in")
    await page.fill("[name=login]", name)
    await page.fill("[name=password]", "any")
    await page.click("Sign-in")
    await page.shows("Continue")
    await page.click("Continue")
    await page.shows(f"oidc:{name}")
    assert await page.run("location.href") == f"{at.url}/"


async def cookie(page: Page) -> str:
    found = await page.call("Network.getAllCookies")
    [one] = [one for one in found["cookies"] if one["name"] == "__Host-manta-console"]
    assert (one["secure"], one["httpOnly"], one["sameSite"]) == (True, True, "Strict")
    return str(one["value"])


async def kept(page: Page, name: str) -> None:
    assert await violations(page) == []
    assert [one for one in page.failures if NAME in one] == []
    if folder := os.environ.get("MANTA_SCREENSHOTS"):
        await page.screenshot(Path(folder) / f"{name}.png")


async def ada(at: Site, client: Client, directory: Path) -> None:
    """May edit: she deletes a cluster, and her login is renewed while she looks."""
    async with browser(directory, {}) as [page]:
        await page.call("Security.setIgnoreCertificateErrors", ignore=True)
        await log_in(page, at, "ada")
        await page.shows("demo")
        await kept(page, "oidc-fleet")
        first = await cookie(page)
        await page.open(f"{at.url}/rayclusters/default/demo", "demo")
        await page.click("Delete")
        await page.shows("This cannot be undone.")
        await page.click("Delete")
        await page.shows("Deleted.")
        with pytest.raises(NotFound):
            await client.get(RAY_CLUSTERS, Key("default", "demo"))
        await asyncio.sleep(ID_TOKEN_SECONDS - 60 + 2)
        await page.open(f"{at.url}/", "oidc:ada")
        assert await cookie(page) != first
        assert "grant refresh_token" in at.said()
        assert [one for one in page.failures if NAME in one] == []
        # No token in an address; what the issuer sends back is a code, which works once.
        assert not [one for one in page.requests if NAME in one and "eyJ" in one]


async def bob(at: Site, directory: Path) -> None:
    """May only look."""
    async with browser(directory, {}) as [page]:
        await page.call("Security.setIgnoreCertificateErrors", ignore=True)
        await log_in(page, at, "bob")
        await page.open(f"{at.url}/rayclusters/default/other", "other")
        assert "Delete" not in await page.text()
        await kept(page, "oidc-view")
        sent = "fetch(location.pathname + '/delete', {method: 'POST', body: new URLSearchParams({uid: 'x'})}).then((one) => one.status)"
        assert await page.run(sent) == 400


def may_the_console_list(at: Site) -> str:
    """What Kubernetes says of the rights of the chart's ServiceAccount."""
    account = f"--as=system:serviceaccount:{SPACE}:manta-console"
    asked = ("auth", "can-i", "list", "rayclusters.ray.io", account, f"--kubeconfig={at.admin}")
    command = [str(BINARIES[-1].with_name("kubectl")), *asked]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


async def test_the_console_of_the_chart_with_a_certified_issuer(tmp_path: Path) -> None:
    with site(tmp_path) as at:
        client = await connect(load(at.admin))
        await installed(at, client)
        await served(client)
        for name in ("demo", "other"):
            await client.create(RAY_CLUSTERS, "default", ray_cluster(name))
        await binding(client, "ada", WRITE)
        await binding(client, "bob", READ)
        assert await asyncio.to_thread(may_the_console_list, at) == "no"
        try:
            async with console(at, client):
                await ada(at, client, tmp_path / "ada")
                await bob(at, tmp_path / "bob")
        finally:
            await client.close()
        log = (tmp_path / "console.log").read_text()
        assert "eyJ" not in log
        assert SECRET not in log
