"""Validate one AdmissionReview: bytes in, bytes out.

An update is rejected only for violations that it adds, so an object that is already invalid can still
be labelled or corrected step by step. An object that is being deleted is always allowed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from manta.api.documents import limits
from manta.api.documents.reader import read_json
from manta.api.meta import View
from manta.api.ray.cluster import RayCluster
from manta.api.ray.cronjob import RayCronJob
from manta.api.ray.job import RayJob
from manta.api.ray.resources import RAY_CLUSTERS, RAY_CRON_JOBS, RAY_JOBS, RAY_SERVICES
from manta.api.ray.service import RayService
from manta.api.text import without_credentials
from manta.rules.runtime_env import parse_runtime_env
from manta.rules.settings import Settings
from manta.rules.validation.cluster import cluster_violations
from manta.rules.validation.cronjob import cronjob_violations
from manta.rules.validation.service import service_violations
from manta.rules.validation.violation import Violation, violations_message
from manta.rules.validation.whole_job import job_violations

API_VERSION, KIND = "admission.k8s.io/v1", "AdmissionReview"
VALIDATED = frozenset(("CREATE", "UPDATE"))
_NOTHING = msgspec.Raw(b"null")
_UID = re.compile(rb'"request"\s*:\s*\{\s*"uid"\s*:\s*"([0-9A-Za-z-]{1,64})"')

BugHandler = Callable[[Exception], None]
"""Called with the exception of a rule."""


class InvalidReview(ValueError):  # noqa: N818  named by what it is
    """The body is not a supported AdmissionReview."""


class _Kind(View, frozen=True, kw_only=True):
    kind: str = ""


class Request(View, frozen=True, kw_only=True):
    uid: str
    kind: _Kind = _Kind()
    operation: str = ""
    object: msgspec.Raw = _NOTHING
    old_object: msgspec.Raw = _NOTHING


class _Review(View, frozen=True, kw_only=True):
    api_version: str = ""
    kind: str = ""
    request: Request | None = None


class _Meta(View, frozen=True, kw_only=True):
    deletion_timestamp: str | None = None


class _Deletable(View, frozen=True, kw_only=True):
    metadata: _Meta = _Meta()


def _of_job(job: RayJob, settings: Settings) -> tuple[Violation, ...]:
    return job_violations(job, parse_runtime_env(job.spec.runtime_env_yaml), settings)


Rules = Callable[[Any, Settings], tuple[Violation, ...]]
RULES: dict[str, tuple[type[Any], Rules]] = {
    RAY_CLUSTERS.kind: (RayCluster, cluster_violations),
    RAY_JOBS.kind: (RayJob, _of_job),
    RAY_SERVICES.kind: (RayService, service_violations),
    RAY_CRON_JOBS.kind: (RayCronJob, cronjob_violations),
}


def review(body: bytes, settings: Settings, on_bug: BugHandler = lambda _: None) -> bytes:
    """The response to a review. Raises InvalidReview."""
    try:
        decoded = msgspec.json.decode(body, type=_Review)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        if named := _UID.search(body[:4096]):
            # The review of an object that cannot be read: reject the object.
            return _response(named[1].decode(), f"the object cannot be read: {error}")
        raise InvalidReview(f"not an {KIND}: {error}") from error
    if (decoded.api_version, decoded.kind) != (API_VERSION, KIND) or decoded.request is None:
        raise InvalidReview(f"only an {KIND} of {API_VERSION} with a request is supported")
    why = _rejection_reason_or_bug(decoded.request, settings, on_bug)
    return _response(decoded.request.uid, why)


def _response(uid: str, why: str) -> bytes:
    response: dict[str, Any] = {"uid": uid, "allowed": not why}
    if why:
        response["status"] = {"code": 422, "reason": "Invalid", "message": why}
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": KIND, "response": response})


def _rejection_reason_or_bug(request: Request, settings: Settings, on_bug: BugHandler) -> str:
    """Like `rejection_reason`, but an exception of a rule rejects the object.

    A response with status 500 would admit it under `failurePolicy: Ignore`.
    """
    try:
        return rejection_reason(request, settings)
    except Exception as error:  # noqa: BLE001  the object was not validated
        on_bug(error)
        what = without_credentials(f"{type(error).__name__}: {error}")
        return f"{request.kind.kind}: validation failed, which is a bug in Manta: {what}"


def rejection_reason(request: Request, settings: Settings) -> str:
    """Why the object is rejected; empty if it is not."""
    if request.operation not in VALIDATED or request.kind.kind not in RULES:
        return ""
    if _is_being_deleted(request.object):
        return ""
    found = _violations(request.kind.kind, request.object, settings)
    if request.operation == "UPDATE":
        before = {str(one) for one in _violations(request.kind.kind, request.old_object, settings)}
        found = tuple(one for one in found if str(one) not in before)
    return violations_message(found)


def _is_being_deleted(document: msgspec.Raw) -> bool:
    try:
        found = msgspec.json.decode(document, type=_Deletable)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return found.metadata.deletion_timestamp is not None


def _violations(kind: str, document: msgspec.Raw, settings: Settings) -> tuple[Violation, ...]:
    view, rules = RULES[kind]
    try:
        read_json(bytes(document), limits.REQUEST)  # limits the nesting for the rules
        found = msgspec.json.decode(document, type=view)
    except (msgspec.MsgspecError, limits.DocumentError) as error:
        return (Violation(kind, None, f"cannot be read: {error}"),)
    return rules(found, settings)
