"""The version and features of the API server, read when the operator or the webhook starts."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import msgspec

from manta.api.ray.resources import RAY_RESOURCES
from manta.api.resources import WORKLOADS, Resource
from manta.kube.client import Client
from manta.kube.errors import CredentialsError, MantaError, NotFound
from manta.rules.settings import Settings
from manta.runtime.backoff import Backoff

log = logging.getLogger(__name__)

OPENSHIFT_GROUPS = frozenset({"route.openshift.io", "security.openshift.io", "config.openshift.io"})
INSTALL_HINT = "manta crds | kubectl apply --server-side -f -"
FIRST_INTERVAL, LATER_INTERVAL = 1.0, 5.0
"""Seconds between checks for missing CRDs: in the first minute, and later."""
GRACE_SECONDS = 5.0
"""No error during this time: Helm installs the CRDs together with the operator."""
_BACKOFF = Backoff(base=1.0, cap=30.0)


@dataclass(frozen=True, slots=True)
class Platform:
    version: tuple[int, int]
    openshift: bool
    cert_manager: bool
    workloads: bool = False
    """Serves the Workloads and PodGroups that the gate KubernetesWAS uses."""


class _Version(msgspec.Struct):
    major: str = "0"
    minor: str = "0"


class _GroupVersion(msgspec.Struct):
    version: str = ""


class _Group(msgspec.Struct):
    name: str = ""
    versions: list[_GroupVersion] = msgspec.field(default_factory=list)


class _Groups(msgspec.Struct):
    groups: list[_Group] = msgspec.field(default_factory=list)


class _Resource(msgspec.Struct):
    name: str = ""


class _Resources(msgspec.Struct):
    resources: list[_Resource] = msgspec.field(default_factory=list)


async def detect(client: Client) -> Platform:
    """The platform of this API server. Raises MantaError or MsgspecError if it does not answer."""
    version = msgspec.json.decode((await client.send("GET", "/version")).body, type=_Version)
    groups = msgspec.json.decode((await client.send("GET", "/apis")).body, type=_Groups).groups
    return Platform(
        version=(_leading_number(version.major), _leading_number(version.minor)),
        openshift=any(group.name in OPENSHIFT_GROUPS for group in groups),
        cert_manager=_serves(groups, "cert-manager.io", "v1"),
        workloads=_serves(groups, WORKLOADS.group, WORKLOADS.version),
    )


def _serves(groups: Sequence[_Group], name: str, version: str) -> bool:
    return any(
        group.name == name and any(one.version == version for one in group.versions)
        for group in groups
    )


def _leading_number(text: str) -> int:
    """Some vendors write `27+`."""
    digits = "".join(one for one in text if one.isdecimal())
    return int(digits or 0)


async def detect_with_retries(client: Client, random: Random) -> Platform:
    """Like `detect`, but retries until the API server answers.

    Raises CredentialsError at once: a retry does not help against invalid credentials.
    """
    failures = 0
    while True:
        try:
            return await detect(client)
        except CredentialsError:
            raise
        except (MantaError, msgspec.MsgspecError) as error:
            failures += 1
            pause = _BACKOFF.delay(failures, random)
            log.warning("cannot start: %s; retrying in %.0f s", error, pause)
            await asyncio.sleep(pause)


def settings_on(platform: Platform, settings: Settings) -> Settings:
    """The settings, completed with the features of the API server."""
    return dataclasses.replace(
        settings,
        openshift=platform.openshift,
        cert_manager=platform.cert_manager,
        native_sidecars=platform.version >= (1, 29),
    )


async def missing_crds(client: Client) -> tuple[Resource, ...]:
    """The Ray kinds that the API server does not serve."""
    try:
        answer = await client.send("GET", "/apis/ray.io/v1")
    except NotFound:
        return RAY_RESOURCES
    served = {one.name for one in msgspec.json.decode(answer.body, type=_Resources).resources}
    return tuple(one for one in RAY_RESOURCES if one.plural not in served)


async def watch_for_crds(client: Client) -> None:
    """Log missing CRDs and how to install them, until all are installed. Never returns."""
    reported: Sequence[Resource] = ()
    checks = 0
    while True:
        checks += 1
        try:
            missing = await missing_crds(client)
        except (MantaError, msgspec.MsgspecError) as error:
            log.debug("cannot read the served CRDs: %s", error)
        else:
            if missing and missing != reported and checks > GRACE_SECONDS / FIRST_INTERVAL:
                names = ", ".join(one.group_resource for one in missing)
                log.error("not installed: %s. Install with: %s", names, INSTALL_HINT)
                reported = missing
            elif reported and not missing:
                log.info("all CRDs are installed")
            if not missing:
                await asyncio.Event().wait()
        await asyncio.sleep(FIRST_INTERVAL if checks < 60 else LATER_INTERVAL)
