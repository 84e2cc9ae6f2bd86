"""`manta console`: pages on which people see and steer their Ray clusters."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from manta.cli.output.help import examples
from manta.cli.server.connection import add_connection_flags
from manta.cli.server.operator_settings import add_settings_flags

DEFAULT_PORT = 8267
LOGINS = ("link", "token", "oidc", "proxy")


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "console",
        description="Serve the console on this machine, with the rights of the kubeconfig's user, until "
        "Ctrl-C. The printed link logs one browser in. With --login: for many people, each with their own "
        "rights.",
        **examples(
            ("manta console", "print a link that logs one browser in"),
            ("manta console --open", "and open it"),
            ("manta console -n team-a,team-b", "if you may not list all namespaces"),
            (
                "manta console --login token --url https://ray.example",
                "for people who paste a token",
            ),
        ),
    )
    parser.add_argument(
        "--port",
        type=int,
        default=0,
        help=f"port of 127.0.0.1 (default: {DEFAULT_PORT} if it is free)",
    )
    parser.add_argument("--open", action="store_true", help="open the browser")
    parser.add_argument(
        "--dashboard-writes",
        action="store_true",
        help="let Ray dashboards also change things (default: only GET passes)",
    )
    parser.add_argument("--listener", type=int, help=argparse.SUPPRESS)  # for `manta up`
    _add_shared_flags(parser)
    add_connection_flags(parser, namespace=True)
    add_settings_flags(parser)


def run(args: argparse.Namespace) -> int:
    if args.login == "link":
        from manta.cli.server.console_server import serve

        return serve(args)
    from manta.cli.server.console_shared import serve_shared

    return serve_shared(args)


def _add_shared_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "for many people", "In a cluster: the Helm chart sets these (console.enabled)."
    )
    group.add_argument(
        "--login",
        choices=LOGINS,
        default="link",
        help="how people log in: with the printed link, a token of Kubernetes, an OIDC issuer, or at a "
        "proxy in front",
    )
    group.add_argument(
        "--listen",
        default=f"127.0.0.1:{DEFAULT_PORT}",
        metavar="HOST:PORT",
        help="address to serve",
    )
    group.add_argument("--url", default="", help="address of the console in browsers: https://NAME")
    group.add_argument(
        "--dashboards",
        default="",
        metavar="URL",
        help="serve each Ray dashboard one name below this address: https://NAME, of another site than "
        "--url, with DNS and a certificate for *.NAME (default: none)",
    )
    group.add_argument(
        "--history",
        default="",
        metavar="URL",
        help="address of `manta history serve`, for this process and for browsers",
    )
    group.add_argument("--tls-cert", type=Path, metavar="FILE", help="certificate, to serve HTTPS")
    group.add_argument("--tls-key", type=Path, metavar="FILE", help="its key")
    group.add_argument(
        "--cookie-key-file",
        type=Path,
        metavar="FILE",
        help="at least 32 random characters, which encrypt the cookies (default: new ones at each start)",
    )
    _add_login_flags(group)


def _add_login_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--oidc-issuer", default="", metavar="URL")
    group.add_argument("--oidc-client-id", default="", metavar="ID")
    group.add_argument("--oidc-client-secret-file", type=Path, metavar="FILE")
    group.add_argument(
        "--oidc-scopes",
        default="openid email",
        metavar="WORDS",
        help="offline_access: logins are renewed (default: openid email)",
    )
    group.add_argument(
        "--oidc-ca", type=Path, metavar="FILE", help="certificate authority of the issuer"
    )
    group.add_argument(
        "--proxy-secret-file",
        type=Path,
        metavar="FILE",
        help="at least 32 characters, which the proxy sends as X-Manta-Proxy-Secret",
    )
    group.add_argument("--proxy-user-header", default="X-Forwarded-User", metavar="NAME")
    group.add_argument("--proxy-groups-header", default="X-Forwarded-Groups", metavar="NAME")
    group.add_argument(
        "--proxy-logout",
        default="",
        metavar="URL",
        help="path or address at which the proxy logs people out, as /oauth2/sign_out (default: no button)",
    )
    group.add_argument(
        "--proxy-groups",
        default="",
        metavar="A,B",
        help="groups of people that count; others are left out (default: all)",
    )


def key_path(directory: Path) -> Path:
    """The key of the cookies: it outlives a restart, so that open tabs recover."""
    return directory / "console.key"
