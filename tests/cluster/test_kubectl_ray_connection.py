"""Every connection flag of kubectl in `kubectl ray` and `manta`; completion as kubectl asks for it."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from manta.cli.completion import SHELLS
from manta.cli.main import main as manta
from manta.cli.plugin.completions import NO_FILES
from manta.cli.plugin.completions import main as complete
from manta.cli.plugin.main import VERBS
from manta.cli.server.kubectl_flags import FLAGS
from support.kubectl_ray import PlaneThread, Ran, plane_thread, run_ours

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def plane() -> Iterator[PlaneThread]:
    with (
        tempfile.TemporaryDirectory() as folder,
        plane_thread(Path(folder) / "plane") as plane,
    ):
        plane.namespace("demo")
        yield plane


@dataclass(frozen=True)
class Server:
    """The parts of the plane's kubeconfig, as files and values for flags."""

    url: str
    ca: Path
    token: str
    tree: dict[str, Any]


@pytest.fixture
def server(plane: PlaneThread, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    for name in ("KUBECONFIG", "MANTA_DIR", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    tree = yaml.safe_load(plane.kubeconfig.read_text())
    cluster, user = tree["clusters"][0]["cluster"], tree["users"][0]["user"]
    ca = tmp_path / "ca.crt"
    if "certificate-authority-data" in cluster:
        ca.write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
    else:
        named = plane.kubeconfig.parent / cluster["certificate-authority"]
        ca.write_bytes(named.read_bytes())
    return Server(cluster["server"], ca, user["token"], tree)


def get(*flags: str) -> Ran:
    return run_ours(*flags, "get", "cluster", "-n", "demo", "-o", "name")


FOUND = "raycluster.ray.io/demo\n"


def test_flags_alone_reach_the_server(server: Server) -> None:
    login, trust = ("--token", server.token), ("--certificate-authority", str(server.ca))
    ran = get("--server", server.url, *trust, *login)
    assert (ran.code, FOUND in ran.out) == (0, True), ran.err
    ran = get("-s", server.url, "--insecure-skip-tls-verify=true", *login)
    assert (ran.code, FOUND in ran.out) == (0, True), ran.err
    assert get("-s", server.url, *login).code == 1  # an unknown authority
    assert get("-s", server.url, *trust, "--tls-server-name", "elsewhere", *login).code == 1
    assert get("-s", server.url, *trust, "--tls-server-name", "localhost", *login).code == 0


def test_a_token_replaces_that_of_the_kubeconfig(plane: PlaneThread, server: Server) -> None:
    ran = get("--kubeconfig", str(plane.kubeconfig), "--token", "wrong")
    assert (ran.code, "--token" in ran.err, "wrong" in ran.err) == (1, True, False), ran.err


def test_a_client_certificate_is_read_from_its_files(
    plane: PlaneThread, server: Server, tmp_path: Path
) -> None:
    (tmp_path / "tls.key").write_text("no key")
    config = ("--kubeconfig", str(plane.kubeconfig), "--client-key", str(tmp_path / "tls.key"))
    ran = get(*config)
    assert (ran.code, "--client-certificate is missing" in ran.err) == (1, True)
    ran = get(*config, "--client-certificate", str(tmp_path / "ca.crt"))
    assert (ran.code, "not a PEM pair" in ran.err) == (1, True), ran.err


def test_context_cluster_and_user_are_of_the_kubeconfig(server: Server, tmp_path: Path) -> None:
    tree = {**server.tree}
    tree["clusters"] = [
        *tree["clusters"],
        {"name": "off", "cluster": {"server": "http://127.0.0.1:1"}},
    ]
    tree["users"] = [*tree["users"], {"name": "nobody", "user": {}}]
    name = tree["contexts"][0]["context"]
    tree["contexts"] = [
        *tree["contexts"],
        {"name": "bad", "context": {"cluster": "off", "user": "nobody"}},
    ]
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(tree))
    config = ("--kubeconfig", str(path))
    assert get(*config).code == 0
    assert get(*config, "--context", "bad").code == 1
    good = ("--cluster", name["cluster"], "--user", name["user"])
    assert get(*config, "--context", "bad", *good).code == 0
    assert get(*config, "--user", "nobody").code == 1
    assert get(*config, "--cluster", "off").code == 1


def test_impersonation_is_judged_by_the_server(plane: PlaneThread, server: Server) -> None:
    config = ("--kubeconfig", str(plane.kubeconfig))
    ran = get(*config, "--as", "jane")
    assert (ran.code, "jane" in ran.err) == (1, True), ran.err
    ran = get(*config, "--as", "jane", "--as-group", "a", "--as-group", "system:masters")
    assert (ran.code, FOUND in ran.out) == (0, True), ran.err
    more = ("--as-uid", "7", "--as-user-extra", "team=a")
    assert get(*config, "--as", "jane", "--as-group=system:masters", *more).code == 0
    assert get(*config, "--as-group", "system:masters").code == 1  # needs --as


def test_the_other_flags_are_accepted(plane: PlaneThread, server: Server) -> None:
    config = ("--kubeconfig", str(plane.kubeconfig))
    more = ("--disable-compression", "--cache-dir", "/nonexistent", "--request-timeout", "20s")
    assert get(*config, *more).code == 0
    assert get(*config, "--request-timeout", "soon").code == 2
    assert get(*config, "--request-timeout", "0").code == 0


def test_manta_takes_the_same_flags(
    plane: PlaneThread, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["get", "clusters", "-n", "demo", "--kubeconfig", str(plane.kubeconfig)]
    assert manta([*words, "--as", "jane", "--as-group", "system:masters"]) == 0
    assert "demo" in capsys.readouterr().out
    assert manta([*words, "--as", "jane"]) == 1


@pytest.mark.parametrize("verb", sorted(set(VERBS) - {"completion"}))
def test_every_command_takes_every_connection_flag(verb: str) -> None:
    from manta.cli.plugin.main import build_parser

    _, verbs = build_parser(verb)
    found = {name for parser in _leaves(verbs.choices[verb]) for name in _missing(parser)}
    assert not found


def _leaves(parser: Any) -> Iterator[Any]:
    children = [one for one in parser._actions if hasattr(one, "choices") and one.nargs == "A..."]
    if not children:
        yield parser
    for child in children:
        yield from child.choices.values()


def _missing(parser: Any) -> set[str]:
    wanted = {names[-1] for names, _ in FLAGS} | {"--kubeconfig", "--context"}
    return wanted - set(parser._option_string_actions)


# ── completion ───────────────────────────────────────────────────────────────────────────


def proposals(capsys: pytest.CaptureFixture[str], *words: str) -> set[str]:
    assert complete(words) == 0
    *found, last = capsys.readouterr().out.split()
    assert last == NO_FILES
    return set(found)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("",), {"get", "create", "job", "session", "log", "suspend"}),
        (("get", ""), {"cluster", "workergroup", "node", "token", "rayservice", "raycronjob"}),
        (("get", "cluster", ""), {"demo", "other"}),
        (("get", "token", ""), {"locked", "named"}),
        (("get", "workergroup", ""), {"gpu", "cpu"}),
        (("get", "workergroup", "-c", ""), {"demo", "other"}),
        (("get", "node", "demo-h"), {"demo-head"}),
        (("get", "rayjob", ""), {"train"}),
        (("get", "cluster", "-o", "j"), {"json", "jsonpath="}),
        (("scale", "cluster", "de"), {"demo"}),
        (("scale", "cluster", "demo", "-w", ""), {"gpu", "cpu"}),
        (("session", "rayservice/"), {"rayservice/web"}),
        (("delete", "rayc"), {"raycluster/demo", "raycronjob/nightly"}),
        (("log", "demo", "--node-type", ""), {"all", "head", "worker"}),
        (("log", "demo", "--link", ""), {"gke"}),
        (("get", "cluster", "-n", ""), {"default", "demo", "kube-system"}),
        (("create", "cluster", "x", "--autoscaler", ""), {"v1", "v2"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_completion_proposes_names(
    plane: PlaneThread,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    wanted: set[str],
) -> None:
    tree = yaml.safe_load(plane.kubeconfig.read_text())
    tree["contexts"][0]["context"]["namespace"] = "demo"
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", dir=plane.kubeconfig.parent) as file:
        yaml.safe_dump(tree, file)
        file.flush()
        monkeypatch.setenv("KUBECONFIG", file.name)
        assert wanted <= proposals(capsys, *words)


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_of_each_shell_names_the_plugin(shell: str) -> None:
    ran = run_ours("completion", shell)
    assert (ran.code, "kubectl-ray" in ran.out) == (0, True)
