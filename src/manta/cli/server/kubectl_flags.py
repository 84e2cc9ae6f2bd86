"""The connection flags of kubectl, for every command that talks to an API server.

Their values are in `kube_...` attributes, as `--cluster` also names a RayCluster in `manta submit`.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from manta.api.durations import DurationError, parse_nanoseconds

if TYPE_CHECKING:
    from manta.kube.overrides import Overrides

_PREFIX = "kube_"
_NO_LIMIT_SECONDS = 365 * 24 * 3600.0

FLAGS: Final[Sequence[tuple[tuple[str, ...], dict[str, Any]]]] = (
    (("-s", "--server"), {"metavar": "URL", "help": "address of the API server"}),
    (("--cluster",), {"metavar": "NAME", "help": "use this cluster of the kubeconfig"}),
    (("--user",), {"metavar": "NAME", "help": "use this user of the kubeconfig"}),
    (("--token",), {"help": "bearer token"}),
    (("--as",), {"metavar": "USER", "help": "impersonate this user or service account"}),
    (
        ("--as-group",),
        {"action": "append", "metavar": "GROUP", "help": "impersonate this group; may be repeated"},
    ),
    (("--as-uid",), {"metavar": "UID", "help": "impersonate this UID"}),
    (
        ("--as-user-extra",),
        {"action": "append", "metavar": "KEY=VALUE", "help": "extra field of the user"},
    ),
    (
        ("--certificate-authority",),
        {"type": Path, "metavar": "FILE", "help": "certificate of the API server's authority"},
    ),
    (("--client-certificate",), {"type": Path, "metavar": "FILE", "help": "client certificate"}),
    (("--client-key",), {"type": Path, "metavar": "FILE", "help": "key of the client certificate"}),
    (
        ("--insecure-skip-tls-verify",),
        {"action": "store_true", "help": "do not verify the API server's certificate"},
    ),
    (("--tls-server-name",), {"metavar": "NAME", "help": "name in the server's certificate"}),
    (
        ("--request-timeout",),
        {
            "metavar": "DURATION",
            "help": "limit of one request, such as 10s; 0: none (default: 30s)",
        },
    ),
    (
        ("--disable-compression",),
        {"action": "store_true", "help": "has no effect: responses are never compressed"},
    ),
    (("--cache-dir",), {"metavar": "DIR", "help": "has no effect: nothing is cached"}),
)


def add_kubectl_flags(
    parser: argparse.ArgumentParser,
    group: argparse._ArgumentGroup | None = None,
    *,
    shown: bool = False,
) -> None:
    """Add the flags, except those whose names the command uses itself."""
    taken = parser._option_string_actions  # noqa: SLF001  # argparse has no other way to list them
    for names, options in FLAGS:
        free = [name for name in names if name not in taken]
        if free[-1:] != [names[-1]]:
            continue
        more = {**options, "dest": _PREFIX + names[-1].removeprefix("--").replace("-", "_")}
        if options.get("metavar") is None and "action" not in options:
            more["metavar"] = names[-1].removeprefix("--").upper()
        if names[-1] == "--request-timeout":
            more["type"] = _seconds
        (group or parser).add_argument(
            *free, **(more if shown else {**more, "help": argparse.SUPPRESS})
        )


def _seconds(text: str) -> float:
    """`10`, `10s` or `1m`, as kubectl reads them; `0`: no limit."""
    try:
        nanoseconds = parse_nanoseconds(f"{text}s" if re.fullmatch(r"\d+", text) else text)
    except DurationError as error:
        raise argparse.ArgumentTypeError(f"{error}; write it as 10, 10s or 1m") from error
    if nanoseconds < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is negative")
    return nanoseconds / 10**9 or _NO_LIMIT_SECONDS


def kube_flag(args: argparse.Namespace, name: str) -> str:
    return str(getattr(args, _PREFIX + name, None) or "")


def timeout_of(args: argparse.Namespace) -> float | None:
    """Seconds that one request may take; None: the client's default."""
    value: float | None = getattr(args, f"{_PREFIX}request_timeout", None)
    return value


def overrides_of(args: argparse.Namespace) -> Overrides:
    """The flags that replace parts of the kubeconfig. Raises UsageError."""
    from manta.kube.overrides import Overrides

    def value(name: str) -> Any:
        return getattr(args, _PREFIX + name, None)

    return Overrides(
        server=value("server") or "",
        server_name=value("tls_server_name") or "",
        ca=value("certificate_authority"),
        insecure=bool(value("insecure_skip_tls_verify")),
        token=value("token") or "",
        certificate=value("client_certificate"),
        key=value("client_key"),
        as_user=value("as") or "",
        as_uid=value("as_uid") or "",
        as_groups=tuple(value("as_group") or ()),
        as_extra=_extra(value("as_user_extra") or ()),
    )


def _extra(pairs: Sequence[str]) -> dict[str, tuple[str, ...]]:
    from manta.api.usage import UsageError

    found: dict[str, tuple[str, ...]] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not key or not equals:
            raise UsageError(f"--as-user-extra {pair}: write it as KEY=VALUE")
        found[key] = (*found.get(key, ()), text)
    return found
