"""What `kubectl ray job submit` reads from files and flags, before anything is created."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from manta.api.documents.limits import DocumentError
from manta.api.documents.reader import read_yaml
from manta.api.usage import UsageError
from manta.cli.server.manifests import read_manifests
from manta.client.runtime_env import LocalEnvironment, resolve

Document = dict[str, Any]


def read_rayjob(args: argparse.Namespace) -> Document:
    """The RayJob of --filename. Raises UsageError unless it is interactive and without retries."""
    where = f"--filename {args.filename}"
    if args.dry_run:
        raise UsageError("--dry-run: only without --filename")
    if args.name:
        raise UsageError("--name and --filename: use only one of them")
    documents = read_manifests([str(args.filename)])
    if len(documents) != 1 or documents[0]["kind"] != "RayJob":
        raise UsageError(f"{where}: expected one RayJob, found {len(documents)} objects")
    job, spec = documents[0], documents[0].get("spec") or {}
    if spec.get("submissionMode") != "InteractiveMode":
        raise UsageError(
            f"{where}: spec.submissionMode: {spec.get('submissionMode', '')!r}: must be InteractiveMode"
        )
    if spec.get("backoffLimit"):
        raise UsageError(f"{where}: spec.backoffLimit: must be 0 in InteractiveMode")
    if args.ttl_seconds_after_finished is not None:
        spec["ttlSecondsAfterFinished"] = args.ttl_seconds_after_finished
        spec["shutdownAfterJobFinishes"] = True
    if spec.get("ttlSecondsAfterFinished") and not spec.get("shutdownAfterJobFinishes"):
        raise UsageError(f"{where}: ttlSecondsAfterFinished needs shutdownAfterJobFinishes: true")
    namespace = job["metadata"].get("namespace")
    if namespace and args.namespace and namespace != args.namespace:
        raise UsageError(f"{where}: namespace {namespace!r} is not --namespace {args.namespace!r}")
    return job


def local_environment(args: argparse.Namespace, rayjob: Document | None) -> LocalEnvironment:
    """The runtime environment, with local files packaged. Raises UsageError without a working dir."""
    if args.runtime_env is not None and args.runtime_env_json:
        raise UsageError("--runtime-env and --runtime-env-json: use only one of them")
    env = _given(args, rayjob)
    if args.working_dir:
        env["working_dir"] = args.working_dir
    if not env.get("working_dir"):
        raise UsageError("--working-dir is missing: name a directory, here or in the runtime env")
    # As in Ray, relative paths start at the current directory.
    return resolve(env, args.command, Path())


def _given(args: argparse.Namespace, rayjob: Document | None) -> Document:
    """The environment of the flags, else of the RayJob."""
    if args.runtime_env is not None:
        try:
            text = args.runtime_env.read_bytes()
        except OSError as error:
            raise UsageError(f"--runtime-env {args.runtime_env}: {error.strerror}") from error
        return _yaml(text, f"--runtime-env {args.runtime_env}")
    if args.runtime_env_json:
        return json_object(args.runtime_env_json, "--runtime-env-json")
    text = ((rayjob or {}).get("spec") or {}).get("runtimeEnvYAML") or ""
    return _yaml(text.encode(), "spec.runtimeEnvYAML")


def _yaml(text: bytes, where: str) -> Document:
    try:
        found = read_yaml(text) or {}
    except DocumentError as error:
        raise UsageError(f"{where} is not valid YAML: {error}") from error
    if not isinstance(found, dict):
        raise UsageError(f"{where}: expected a mapping, found {found!r:.60}")
    return found


def json_object(text: str, flag: str) -> Document:
    """A JSON object of a flag; empty if it is not given. Raises UsageError."""
    if not text:
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise UsageError(f"{flag}: {error}; write a JSON object") from error


def job_body(
    args: argparse.Namespace, submission_id: str, entrypoint: str, env: Mapping[str, Any]
) -> Document:
    """The request to Ray."""
    optional = {
        "metadata": json_object(args.metadata_json, "--metadata-json"),
        "entrypoint_num_cpus": args.entrypoint_num_cpus,
        "entrypoint_num_gpus": args.entrypoint_num_gpus,
        "entrypoint_memory": args.entrypoint_memory,
        "entrypoint_resources": json_object(args.entrypoint_resources, "--entrypoint-resources"),
    }
    return {
        "entrypoint": entrypoint,
        "submission_id": submission_id,
        "runtime_env": dict(env),
        **{name: value for name, value in optional.items() if value},
    }
