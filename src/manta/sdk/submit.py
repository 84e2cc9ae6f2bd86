"""A command and its options as a job to submit: the same code as `manta submit`."""

from __future__ import annotations

import asyncio
import os
import shlex
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from manta.api.ray.job import RayJob
from manta.api.usage import InvalidValue
from manta.client.package import Package, pack
from manta.client.submission import Submission, build_job, check_size, job_name
from manta.sdk.builders import SHAPE, shape_of
from manta.sdk.checking import check
from manta.sdk.errors import as_invalid_value


async def prepare(
    namespace: str, cluster: str, command: str | Sequence[str], options: Mapping[str, Any]
) -> tuple[Submission, Package | None]:
    """The job and its files. Raises InvalidValue; reads files in a thread."""
    submission = submission_of(namespace, cluster, command, options)
    package = await asyncio.to_thread(_package, submission, options)
    check(RayJob, build_job(submission, package))
    return submission, package


def submission_of(
    namespace: str, cluster: str, command: str | Sequence[str], options: Mapping[str, Any]
) -> Submission:
    """The job without its files. Raises InvalidValue."""
    words = _words(command)
    suffix = os.urandom(3).hex()[:5]
    shape = {} if cluster else {"image": options["image"]} if "image" in options else {}
    return Submission(
        name=options.get("name") or job_name(words, suffix),
        namespace=namespace,
        command=words,
        entrypoint=command if isinstance(command, str) else "",
        cluster=cluster,
        cluster_spec={} if cluster else shape_of(_shape(options)),
        runtime_env=_runtime_env(options),
        retries=_count("retries", options.get("retries", 0)),
        deadline=options.get("deadline"),
        keep=options.get("keep_cluster", False),
        labels=dict(options.get("labels", {})),
        **shape,
    )


def _shape(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name in SHAPE}


def _words(command: str | Sequence[str]) -> list[str]:
    try:
        words = shlex.split(command) if isinstance(command, str) else list(command)
    except ValueError as error:
        raise InvalidValue("command", command, f"{error}: close the quotes") from None
    if not words:
        raise InvalidValue("command", command, "give a command such as 'python train.py'")
    return words


def _count(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidValue(name, value, "must be a whole number, 0 or more")
    return value


def _runtime_env(options: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(options.get("runtime_env") or {})
    if _is_local(found.get("working_dir")):
        del found["working_dir"]
    for name, key in (("env", "env_vars"), ("pip", "pip")):
        if not (value := options.get(name)):
            continue
        if key in found:
            raise InvalidValue(name, value, f"runtime_env has {key} already; use one of them")
        found[key] = dict(value) if isinstance(value, Mapping) else list(value)
    return found


def _working_dir(options: Mapping[str, Any]) -> Path | None:
    """As Ray does, a directory of this machine in `runtime_env` is sent too."""
    inside = (options.get("runtime_env") or {}).get("working_dir")
    chosen = options.get("working_dir")
    if chosen is not None and inside is not None:
        cure = "runtime_env has working_dir already; use one of them"
        raise InvalidValue("working_dir", str(chosen), cure)
    if chosen is None and _is_local(inside):
        chosen = inside
    return None if chosen is None else Path(chosen).expanduser()


def _is_local(working_dir: Any) -> bool:
    return isinstance(working_dir, str | os.PathLike) and "://" not in str(working_dir)


def _package(submission: Submission, options: Mapping[str, Any]) -> Package | None:
    directory = _working_dir(options)
    if "working_dir" in submission.runtime_env:  # a URI that Ray downloads
        return None
    with as_invalid_value("command", " ".join(submission.command)):
        package = pack(
            submission.command,
            directory,
            tuple(options.get("exclude", ())),
            include_ignored=options.get("include_ignored", False),
        )
        if package is not None:
            check_size(submission, package)
    if package is not None and package.secrets:
        warnings.warn(
            "these files look like secrets; everyone who may read ConfigMaps in namespace "
            f"{submission.namespace} can read them: {', '.join(package.secrets)} (exclude them with "
            ".rayignore or exclude=)",
            stacklevel=2,
        )
    return package
