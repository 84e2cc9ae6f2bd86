"""Our chart on a cluster with real containers: installed once for a whole run of tests, and taken away.

KUBECONFIG names the cluster. MANTA_E2E_OPERATOR and MANTA_E2E_RAY name images that its nodes have or can pull;
the node of `make e2e-kubernetes` has the defaults.
"""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from pathlib import Path

import pytest

from support.helm import CHART, binary

WANTED = os.environ.get("MANTA_E2E_KUBERNETES", "")
"""`here`: the node of `tools/kubernetes/node`. `external`: a cluster that somebody has. Empty: neither."""
OPERATOR_IMAGE = os.environ.get("MANTA_E2E_OPERATOR", "docker.io/manta/operator:e2e")
RAY_IMAGE = os.environ.get("MANTA_E2E_RAY", "docker.io/rayproject/ray:2.60.0-py311")
OPERATOR = "app.kubernetes.io/component=operator"
GATES = ("GCSFaultToleranceEmbeddedStorage",)
"""As `manta up` has them."""
_INSTALLED = pytest.StashKey[str]()


def kubectl(*arguments: str, check: bool = True, text: str | None = None) -> str:
    done = subprocess.run(
        ["kubectl", *arguments], input=text, capture_output=True, text=True, check=False
    )
    if check and done.returncode:
        raise AssertionError(f"kubectl {' '.join(arguments)}: {done.stdout}{done.stderr}")
    return done.stdout


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([binary(), *arguments], capture_output=True, text=True, check=False)


def release(config: pytest.Config) -> str:
    """The namespace of the operator; it goes when pytest ends."""
    if _INSTALLED not in config.stash:
        if WANTED == "external" and "MANTA_E2E_OPERATOR" not in os.environ:
            pytest.exit(
                "MANTA_E2E_OPERATOR has to name an image of the operator that its nodes can pull"
            )
        namespace = f"manta-e2e-{uuid.uuid4().hex[:6]}"
        config.add_cleanup(lambda: _uninstall(namespace))
        _install(namespace)
        config.stash[_INSTALLED] = namespace
    return config.stash[_INSTALLED]


def with_gates(*names: str) -> tuple[str, str]:
    gates = [{"name": name, "enabled": True} for name in names]
    return "--set-json", f"featureGates={json.dumps(gates)}"


def _install(namespace: str) -> None:
    """Where only Pods may run that meet the strictest of the Pod Security Standards."""
    kubectl("create", "namespace", namespace)
    kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    repository, _, tag = OPERATOR_IMAGE.rpartition(":")
    done = helm(
        *("upgrade", "--install", "manta", str(CHART), "-n", namespace),
        *("--set", f"image.repository={repository}", "--set-string", f"image.tag={tag}"),
        *with_gates(*GATES),
        *("--set", "webhook.enabled=true"),
        *("--wait", "--timeout", "180s"),
    )
    if done.returncode:
        state = kubectl("get", "pods,events", "-n", namespace, check=False)
        raise AssertionError(f"helm: {done.stderr}\n{state}")


def _uninstall(namespace: str) -> None:
    helm("uninstall", "manta", "-n", namespace, "--wait")
    kubectl("delete", "namespace", namespace, check=False)


def new_namespace() -> str:
    name = f"manta-e2e-{uuid.uuid4().hex[:6]}"
    kubectl("create", "namespace", name)
    return name


def end_namespace(name: str) -> None:
    """The operator first: its finalizers are its own to take off."""
    kinds = "raycronjobs,rayjobs,rayservices,rayclusters"
    kubectl("delete", kinds, "--all", "-n", name, "--timeout=180s", check=False)
    kubectl("delete", "namespace", name, check=False)


def kubeconfig_for(namespace: str, path: Path) -> None:
    """The same cluster, with a namespace of our own to begin with."""
    path.write_text(kubectl("config", "view", "--raw", "--minify", "--flatten"))
    path.chmod(0o600)
    where = f"--kubeconfig={path}"
    kubectl("config", where, "set-context", "--current", f"--namespace={namespace}")
