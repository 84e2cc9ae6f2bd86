"""The options of `manta operator`: flags, the environment and a configuration file, as one value.

Names and meanings are KubeRay's. As in KubeRay, a configuration file replaces all flags but the
feature gates and the log encoders.
"""

from __future__ import annotations

import argparse
import dataclasses
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from manta.api.usage import UsageError
from manta.httpserver.address import Address
from manta.manifests.gang import SCHEDULERS
from manta.operator.configuration import API_VERSION, KIND, Configuration, read_configuration
from manta.operator.feature_gates import gate_help, parse_bool, parse_feature_gates
from manta.operator.option_table import ENCODERS, FLAGS, VARIABLES, VARIABLES_WITHOUT_EFFECT, Flag
from manta.rules.history import HISTORY_BY_NODE
from manta.rules.settings import Settings

Encoder = Literal["json", "console"]
_LEVELS: Final[Mapping[str, int]] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
    "panic": logging.CRITICAL,
}


@dataclass(frozen=True, slots=True)
class Options:
    settings: Settings
    metrics: Address | None
    probes: Address | None
    leader_election: bool = True
    leader_election_namespace: str = ""
    concurrency: int | None = None
    """Minimum number of workers of every controller; None: each controller's own number."""
    namespaces: tuple[str, ...] = ()
    qps: float = 0.0
    """0: adapt to the API server's 429s; negative: no limit."""
    burst: int = 200
    stdout_encoder: Encoder = "json"
    file_encoder: Encoder = "json"
    log_file: str = ""
    log_level: int = logging.INFO
    tracing: bool = False
    record: str = ""
    """The folder of the flight recorder; empty: none."""
    record_mib: int = 16
    warnings: tuple[str, ...] = ()


# ── flags ────────────────────────────────────────────────────────────────────────────────


def add_flags(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    for flag in FLAGS:
        parser.add_argument(f"--{flag.name}", dest=flag.dest, default=None, **_argument(flag))
    parser.add_argument("--config", type=Path, metavar="FILE", help=f"{API_VERSION} {KIND}")
    parser.add_argument("--feature-gates", default="", metavar="A=true,B=false", help=gate_help())
    parser.add_argument(
        "--zap-log-level", default="info", metavar="LEVEL", help="debug, info, error"
    )
    parser.add_argument("--zap-devel", nargs="?", type=parse_bool, const=True, default=False)
    parser.add_argument("--zap-encoder", choices=ENCODERS, default=None)
    parser.add_argument("--zap-stacktrace-level", default=None, help="accepted; no effect")
    parser.add_argument("--zap-time-encoding", default=None, help="accepted; no effect")


def _argument(flag: Flag) -> dict[str, Any]:
    default = "" if flag.default is None else f" (default: {flag.default!r})"
    more: dict[str, Any] = {"help": f"{flag.about}{default}"}
    if flag.type is bool:  # as in Go: --flag, --flag=true, --flag=false
        more |= {"nargs": "?", "const": True, "type": parse_bool, "metavar": "true|false"}
    elif flag.default is None:
        more |= {"type": _count, "metavar": "N"}
    else:
        more |= {"type": flag.type}
    return more | ({"choices": flag.choices} if flag.choices else {})


def _count(text: str) -> int:
    value = int(text)
    if value < 0:
        raise ValueError(text)
    return value


def is_given(args: argparse.Namespace) -> bool:
    """Whether any flag of the operator is on this command line."""
    given = any(getattr(args, flag.dest) is not None for flag in FLAGS)
    return given or bool(args.config or args.feature_gates)


# ── flags, environment and file as one value ─────────────────────────────────────────────


def options_from(
    args: argparse.Namespace,
    environment: Mapping[str, str],
    read: Callable[[Path], Configuration] = read_configuration,
) -> Options:
    """The options of this command line. Raises UsageError, which names the invalid option."""
    configuration = read(args.config) if args.config else None
    given = {flag.name: getattr(args, flag.dest) for flag in FLAGS}
    values = _values(given, configuration)
    gates = parse_feature_gates(args.feature_gates)
    warnings = [*_ignored(given, configuration), *_without_effect(environment)]
    _check_history(values)
    settings = dataclasses.replace(
        settings_from(values, environment, warnings),
        gates=gates,
        **(configuration.settings if configuration else {}),
    )
    _check_one_scheduler(settings)
    fields: dict[str, Any] = {flag.option: values[flag.name] for flag in FLAGS if flag.option}
    fields["stdout_encoder"] = _stdout_encoder(args, values)
    return Options(
        settings=settings, log_level=_log_level(args), warnings=tuple(warnings), **fields
    )


def _check_history(values: Mapping[str, Any]) -> None:
    if values["history-store"] not in ("", HISTORY_BY_NODE) and not values["history-image"]:
        raise UsageError(
            f"--history-store {values['history-store']} needs --history-image IMAGE, an image with"
            " `manta[history]` for the sidecars"
        )


def _values(given: Mapping[str, Any], configuration: Configuration | None) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for flag in FLAGS:
        value = given[flag.name]
        if configuration is not None and not flag.with_config_file:
            value = configuration.flags.get(flag.name)
        values[flag.name] = _converted(flag, flag.default if value is None else value)
    return values


def _converted(flag: Flag, value: Any) -> Any:
    if flag.minimum is not None and value is not None and value < flag.minimum:
        raise UsageError(f"--{flag.name} must be at least {flag.minimum}, not {value}")
    try:
        return value if flag.convert is None else flag.convert(value)
    except ValueError as error:
        raise UsageError(f"--{flag.name}: {error}") from error


def _ignored(given: Mapping[str, Any], configuration: Configuration | None) -> Iterator[str]:
    replaced = (one.name for one in FLAGS if not one.with_config_file)
    unused = [f"--{name}" for name in replaced if given[name] is not None]
    if configuration is not None and unused:
        yield f"{', '.join(unused)}: ignored, because --config is given"


def _without_effect(environment: Mapping[str, str]) -> Iterator[str]:
    for name, why in VARIABLES_WITHOUT_EFFECT.items():
        if environment.get(name) == "true":
            yield f"{name}: ignored; {why}"


def settings_from(
    values: Mapping[str, Any], environment: Mapping[str, str], warnings: list[str]
) -> Settings:
    """Settings of the flags and of KubeRay's environment variables.

    An invalid variable is not used, and adds a warning.
    """
    defaults = Settings()
    fields: dict[str, Any] = {flag.setting: values[flag.name] for flag in FLAGS if flag.setting}
    fields["batch_scheduler"] = _batch_scheduler(values)
    for variable in VARIABLES:
        text, default = environment.get(variable.name, ""), getattr(defaults, variable.setting)
        try:
            fields[variable.setting] = variable.value(text, default)
        except ValueError as error:
            warnings.append(f"{variable.name}={text!r} is ignored: {error}")
    return Settings(**fields)


def _batch_scheduler(values: Mapping[str, Any]) -> str:
    """The gang scheduler. An unknown one is refused: half a gang would wait forever."""
    wanted, legacy = str(values["batch-scheduler"]), values["enable-batch-scheduler"]
    if wanted and wanted not in SCHEDULERS:
        known = ", ".join(SCHEDULERS)
        raise UsageError(
            f"--batch-scheduler: {wanted!r} is none of {known}; Kueue needs no scheduler here"
        )
    if legacy and wanted not in ("", "volcano"):
        raise UsageError(
            f"--enable-batch-scheduler means volcano, but --batch-scheduler is {wanted}: "
            "leave out --enable-batch-scheduler"
        )
    return "volcano" if legacy else wanted


def _check_one_scheduler(settings: Settings) -> None:
    if settings.gates.kubernetes_was and settings.batch_scheduler:
        raise UsageError(
            f"--feature-gates: KubernetesWAS=true and --batch-scheduler={settings.batch_scheduler} "
            "would both schedule the Pods of a gang: leave one of them out"
        )


def _stdout_encoder(args: argparse.Namespace, values: Mapping[str, Any]) -> Encoder:
    if args.zap_encoder:
        return "console" if args.zap_encoder == "console" else "json"
    return "console" if args.zap_devel or values["log-stdout-encoder"] == "console" else "json"


def _log_level(args: argparse.Namespace) -> int:
    if args.zap_devel and args.zap_log_level == "info":
        return logging.DEBUG
    level = _LEVELS.get(args.zap_log_level)
    if level is None and args.zap_log_level.isdecimal():  # zap counts verbosity upwards
        level = logging.DEBUG if int(args.zap_log_level) else logging.INFO
    if level is None:
        raise UsageError(f"--zap-log-level: {args.zap_log_level!r} is none of {', '.join(_LEVELS)}")
    return level
