"""What the API server is and offers, asked once at the start of `manta operator` and `webhook`."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import msgspec

from manta.api.ray.resources import RAY_RESOURCES
from manta.api.resources import Resource
from manta.kube.client import Client
from manta.kube.errors import CredentialsError, MantaError, NotFound
from manta.rules.settings import Settings
from manta.runtime.backoff import Backoff

log = logging.getLogger(__name__)

OPENSHIFT_GROUPS = frozenset({"route.openshift.io", "security.openshift.io", "config.openshift.io"})
INSTALL_HINT = "manta crds | kubectl apply --server-side -f -"
CHECK_AGAIN, CHECK_LATER = 1.0, 5.0
"""Seconds between looks for missing CRDs: in the first minute, and after it."""
GRACE = 5.0
"""Seconds for CRDs that are installed together with the operator, as by Helm: no error until then."""
_PATIENCE = Backoff(base=1.0, cap=30.0)


@dataclass(frozen=True, slots=True)
class Platform:
    version: tuple[int, int]
    openshift: bool
    cert_manager: bool


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


async def recognise(client: Client) -> Platform:
    version = msgspec.json.decode((await client.send("GET", "/version")).body, type=_Version)
    groups = msgspec.json.decode((await client.send("GET", "/apis")).body, type=_Groups).groups
    return Platform(
        version=(_leading_number(version.major), _leading_number(version.minor)),
        openshift=any(group.name in OPENSHIFT_GROUPS for group in groups),
        cert_manager=any(
            group.name == "cert-manager.io" and any(one.version == "v1" for one in group.versions)
            for group in groups
        ),
    )


def _leading_number(text: str) -> int:
    """Some vendors say `27+`."""
    digits = "".join(one for one in text if one.isdecimal())
    return int(digits or 0)


async def recognise_patiently(client: Client, random: Random) -> Platform:
    """Ask until there is an answer: an API server that is gone for minutes comes back.

    What is wrong with our own credentials is raised at once: waiting mends no broken file.
    """
    failures = 0
    while True:
        try:
            return await recognise(client)
        except CredentialsError:
            raise
        except (MantaError, msgspec.MsgspecError) as error:
            failures += 1
            pause = _PATIENCE.delay(failures, random)
            log.warning("cannot begin: %s; asking again in %.0f s", error, pause)
            await asyncio.sleep(pause)


def settings_on(platform: Platform, settings: Settings) -> Settings:
    """What was asked for by flags, completed by what is there."""
    return dataclasses.replace(
        settings, openshift=platform.openshift, cert_manager=platform.cert_manager
    )


async def missing_crds(client: Client) -> tuple[Resource, ...]:
    """The kinds of ours that the server does not serve."""
    try:
        answer = await client.send("GET", "/apis/ray.io/v1")
    except NotFound:
        return RAY_RESOURCES
    served = {one.name for one in msgspec.json.decode(answer.body, type=_Resources).resources}
    return tuple(one for one in RAY_RESOURCES if one.plural not in served)


async def watch_for_crds(client: Client) -> None:
    """Say which CRDs are missing and how to install them, until none is. Never returns."""
    told: Sequence[Resource] = ()
    looks = 0
    while True:
        looks += 1
        try:
            missing = await missing_crds(client)
        except (MantaError, msgspec.MsgspecError) as error:
            log.debug("cannot ask for the CRDs: %s", error)
        else:
            if missing and missing != told and looks > GRACE / CHECK_AGAIN:
                names = ", ".join(one.group_resource for one in missing)
                log.error("not installed: %s. Install with: %s", names, INSTALL_HINT)
                told = missing
            elif told and not missing:
                log.info("all CRDs are installed")
            if not missing:
                await asyncio.Event().wait()
        await asyncio.sleep(CHECK_AGAIN if looks < 60 else CHECK_LATER)
