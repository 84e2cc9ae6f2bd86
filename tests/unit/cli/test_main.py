"""The command's root."""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from manta.cli.main import VERBS, main, module_of


def test_help_names_every_verb_of_this_build(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert all(verb in shown for verb in VERBS if module_of(verb))


def test_an_interrupt_while_the_command_loads_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(_: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("manta.cli.main._module", interrupted)
    assert main(["get", "pods"]) == 130


def test_an_unknown_verb_exits_with_2() -> None:
    with pytest.raises(SystemExit) as ended:
        main(["dance"])
    assert ended.value.code == 2


def test_an_unknown_flag_exits_with_2_and_shows_those_of_the_verb(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["operator", "--watch-namespaces=a"])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "--watch-namespace " in said
    assert "manta operator: error: unrecognized arguments: --watch-namespaces=a" in said


def test_an_unknown_gate_exits_with_2_and_names_the_known_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["operator", "--feature-gates=Nope=true"]) == 2
    assert "RayClusterStatusConditions" in capsys.readouterr().err


def test_a_broken_kubeconfig_exits_with_2(
    tmp_path: object, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = f"{tmp_path}/kubeconfig"
    with open(broken, "w") as file:  # noqa: PTH123  a plain text file
        file.write("clusters: 7")
    assert main(["operator", "--kubeconfig", broken]) == 2
    assert broken in capsys.readouterr().err


def test_a_kubeconfig_that_names_a_broken_file_exits_with_2(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "current-context: c\ncontexts: [{name: c, context: {cluster: c}}]\nclusters:\n"
        "- {name: c, cluster: {server: 'https://127.0.0.1:1', certificate-authority: nowhere.crt}}\n"
    )
    flags = ["--kubeconfig", str(kubeconfig), "--metrics-addr=0", "--health-probe-bind-address=0"]
    command = [sys.executable, "-m", "manta.cli.main", "operator", *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "nowhere.crt: No such file" in done.stderr


def test_a_log_file_that_cannot_be_written_exits_with_2(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "current-context: c\ncontexts: [{name: c, context: {cluster: c}}]\nclusters:\n"
        "- {name: c, cluster: {server: 'https://127.0.0.1:1'}}\n"
    )
    flags = ["--kubeconfig", str(kubeconfig), f"--log-file-path={tmp_path}/none/operator.log"]
    command = [sys.executable, "-m", "manta.cli.main", "operator", *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "none/operator.log: No such file or directory" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_cannot_be_meant_exits_with_2_and_says_what_to_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["delete"]) == 2
    assert "name an object or a file" in capsys.readouterr().err


def test_a_stranger_that_bears_the_same_name_is_not_swallowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stranger = type("UsageError", (Exception,), {})

    def run(_args: argparse.Namespace) -> int:
        raise stranger

    monkeypatch.setattr("manta.cli.crds.run", run)
    with pytest.raises(stranger):
        main(["crds"])


@pytest.mark.parametrize("verb", [verb for verb in VERBS if module_of(verb)])
def test_a_verb_is_run_by_its_module_and_in_no_other_way(verb: str) -> None:
    module = importlib.import_module(f"manta.cli.{verb}")
    parser = argparse.ArgumentParser()
    subparsers = parser.add_subparsers()
    module.add_parser(subparsers)
    assert callable(module.run)
    assert subparsers.choices[verb].get_default("run") is None


def test_asking_for_help_loads_no_verb() -> None:
    """The start of every command must stay fast."""
    code = (
        "import sys; from manta.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: print(sorted(m for m in sys.modules if m.startswith('manta.')))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = shown.stdout.splitlines()[-1]
    output = "'manta.cli.output', 'manta.cli.output.encoding'"
    assert loaded == f"['manta.api', 'manta.api.usage', 'manta.cli', 'manta.cli.main', {output}]"
