"""Run a command beside a real control plane: etcd, kube-apiserver, kube-controller-manager, kube-scheduler.

    python tools/kubernetes/run.py [--dir DIR] [--without NAME]... -- COMMAND ...
    KUBECONFIG=... python tools/kubernetes/run.py --external -- COMMAND ...

Everything listens on loopback, with TLS and RBAC, on free ports, and ends with the command. The command
gets KUBECONFIG (a member of system:masters) and MANTA_CONTRACT_KUBECONFIG in its environment. Without a
command, it stays up until Ctrl-C and prints the kubeconfig's path. With --external nothing is started: the
command runs on the cluster of KUBECONFIG, and MANTA_EXTERNAL tells it that others use that cluster too.
"""

from __future__ import annotations

import argparse
import base64
import ctypes
import datetime as dt
import ipaddress
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

HERE = Path(__file__).parent
PATIENCE = 120
PR_SET_PDEATHSIG = 1
_prctl = ctypes.CDLL(None).prctl  # looked up before there are children
PARTS = ("kube-controller-manager", "kube-scheduler")


class Authority:
    """A certificate authority of one run, and the files that it signs."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._dir = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "manta-test-ca")])
        self._now = dt.datetime.now(dt.UTC)
        builder = self._builder(self._name, self._key.public_key())
        constraint = x509.BasicConstraints(ca=True, path_length=0)
        certificate = builder.add_extension(constraint, critical=True).sign(
            self._key, hashes.SHA256()
        )
        self.certificate = directory / "ca.crt"
        self.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def _builder(self, subject: x509.Name, key: object) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)  # type: ignore[arg-type]
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - dt.timedelta(hours=1))
            .not_valid_after(self._now + dt.timedelta(days=30))
        )

    def issue(
        self, name: str, *, group: str = "", user: str = "", addresses: Sequence[str] = ()
    ) -> tuple[Path, Path]:
        attributes = [x509.NameAttribute(NameOID.COMMON_NAME, user or name)]
        if group:
            attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName(
            [
                x509.DNSName("localhost"),
                x509.DNSName("kubernetes.default.svc"),
                x509.DNSName("kubernetes.default.svc.cluster.local"),
                *(x509.IPAddress(ipaddress.ip_address(one)) for one in ("127.0.0.1", *addresses)),
            ]
        )
        usage = x509.ExtendedKeyUsage(
            [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        )
        certificate = (
            self._builder(x509.Name(attributes), key.public_key())
            .add_extension(names, critical=False)
            .add_extension(usage, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        paths = self._dir / f"{name}.crt", self._dir / f"{name}.key"
        paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        paths[1].write_bytes(private_pem(key))
        return paths

    def service_account_keys(self) -> tuple[Path, Path]:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        paths = self._dir / "sa.key", self._dir / "sa.pub"
        paths[0].write_bytes(private_pem(key))
        public = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        paths[1].write_bytes(public)
        return paths

    def kubeconfig(self, name: str, url: str, *, group: str, user: str = "") -> Path:
        certificate, key = self.issue(name, group=group, user=user)
        cluster = {"server": url, "certificate-authority-data": encoded(self.certificate)}
        credentials = {
            "client-certificate-data": encoded(certificate),
            "client-key-data": encoded(key),
        }
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": name, "user": credentials}],
            "contexts": [{"name": name, "context": {"cluster": "test", "user": name}}],
        }
        path = self._dir / f"{name}.kubeconfig"
        path.write_text(json.dumps(document))
        path.chmod(0o600)
        return path


def private_pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8
        if isinstance(key, ec.EllipticCurvePrivateKey)
        else serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _end_with_us() -> None:
    """In the child: it ends also when we are killed, and can clean up nothing.

    Killed as well: without its etcd, kube-apiserver is not done with ending for minutes.
    """
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


@contextmanager
def running(
    directory: Path, name: str, command: list[str], env: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    with (directory / f"{name}.log").open("ab") as log:
        process = subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            cwd=directory,
            env=env,
            start_new_session=True,  # a Ctrl-C is for us: what we started ends in order
            preexec_fn=_end_with_us,  # noqa: PLW1509  # one call, which takes no lock
        )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def await_ready(url: str, authority: Authority, directory: Path) -> None:
    context = ssl.create_default_context(cafile=authority.certificate)
    context.load_cert_chain(directory / "pki/admin.crt", directory / "pki/admin.key")
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{url}/readyz", context=context, timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    log = (directory / "kube-apiserver.log").read_text(errors="replace")
    sys.exit(f"kube-apiserver was not ready within {PATIENCE} s:\n{log[-3000:]}")


def apiserver_command(binaries: Path, pki: Path, etcd: str, port: int) -> list[str]:
    return [
        str(binaries / "kube-apiserver"),
        f"--etcd-servers={etcd}",
        "--bind-address=127.0.0.1",
        "--advertise-address=10.99.99.99",
        f"--secure-port={port}",
        f"--client-ca-file={pki}/ca.crt",
        f"--tls-cert-file={pki}/apiserver.crt",
        f"--tls-private-key-file={pki}/apiserver.key",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={pki}/sa.pub",
        f"--service-account-signing-key-file={pki}/sa.key",
        "--authorization-mode=RBAC",
        "--allow-privileged=true",  # as every cluster that runs a CNI or a CSI driver
        "--service-cluster-ip-range=10.96.0.0/16",
        f"--cert-dir={pki}",
    ]


def manager_command(binaries: Path, pki: Path, kubeconfig: Path) -> list[str]:
    return [
        str(binaries / "kube-controller-manager"),
        f"--kubeconfig={kubeconfig}",
        f"--service-account-private-key-file={pki}/sa.key",
        f"--root-ca-file={pki}/ca.crt",
        "--bind-address=127.0.0.1",
        f"--secure-port={free_port()}",
        "--leader-elect=false",
        f"--cert-dir={pki}/manager",
        "--use-service-account-credentials=false",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
    ]


def scheduler_command(binaries: Path, pki: Path, kubeconfig: Path) -> list[str]:
    return [
        str(binaries / "kube-scheduler"),
        f"--kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={free_port()}",
        "--leader-elect=false",
        f"--cert-dir={pki}/scheduler",
    ]


def control_plane(
    stack: ExitStack, binaries: Path, directory: Path, without: set[str], more: Sequence[str] = ()
) -> Path:
    """Start everything; answers with the admin's kubeconfig. `more`: flags of kube-apiserver."""
    port, client, peer = free_port(), free_port(), free_port()
    url, etcd = f"https://127.0.0.1:{port}", f"http://127.0.0.1:{client}"
    pki = directory / "pki"
    authority = Authority(pki)
    authority.issue("apiserver")
    authority.service_account_keys()
    admin = authority.kubeconfig("admin", url, group="system:masters")
    system = authority.kubeconfig(
        "system", url, group="system:masters", user="system:kube-controller-manager"
    )
    etcd_command = [
        str(binaries / "etcd"),
        f"--data-dir={directory}/etcd",
        f"--listen-client-urls={etcd}",
        f"--advertise-client-urls={etcd}",
        f"--listen-peer-urls=http://127.0.0.1:{peer}",
    ]
    stack.enter_context(running(directory, "etcd", etcd_command))
    command = [*apiserver_command(binaries, pki, etcd, port), *more]
    stack.enter_context(running(directory, "kube-apiserver", command))
    await_ready(url, authority, directory)
    for name, build in zip(PARTS, (manager_command, scheduler_command), strict=True):
        if name not in without:
            stack.enter_context(running(directory, name, build(binaries, pki, system)))
    return admin


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--dir", type=Path, help="keep certificates, data and logs here")
    parser.add_argument("--without", action="append", default=[], choices=PARTS)
    parser.add_argument("--external", action="store_true", help="on the cluster of KUBECONFIG")
    parser.add_argument("command", nargs="*")
    args = parser.parse_args()
    if args.external:
        return on_external(args.command)
    build = subprocess.run(
        ["bash", str(HERE / "build.sh")], stdout=subprocess.PIPE, text=True, check=True
    )
    binaries = Path(build.stdout.strip().splitlines()[-1])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # clean up on SIGTERM too
    with ExitStack() as stack:
        directory = args.dir or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        directory.mkdir(parents=True, exist_ok=True)
        kubeconfig = control_plane(stack, binaries, directory.resolve(), set(args.without))
        if not args.command:
            print(f"export KUBECONFIG={kubeconfig}", flush=True)
            stack.callback(print, "stopping", file=sys.stderr)
            with suppress(KeyboardInterrupt, SystemExit):
                signal.pause()
            return 0
        environment = {
            **os.environ,
            "KUBECONFIG": str(kubeconfig),
            "MANTA_CONTRACT_KUBECONFIG": str(kubeconfig),
            "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
        }
        return subprocess.run(args.command, env=environment, check=False).returncode


def on_external(command: list[str]) -> int:
    """Run the command on a cluster that somebody has."""
    kubeconfig = os.environ.get("KUBECONFIG", "")
    if not kubeconfig or not command:
        sys.exit("--external needs KUBECONFIG and a command")
    more = {"MANTA_CONTRACT_KUBECONFIG": kubeconfig, "MANTA_EXTERNAL": "1"}
    return subprocess.run(command, env={**os.environ, **more}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
