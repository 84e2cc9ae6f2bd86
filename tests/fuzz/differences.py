"""Answers whose class differs from kube-apiserver's on purpose: each with its reason.

docs/internals/api-differences.md tells users the same. A difference that no rule here names is a finding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fuzz.requests import Request
from fuzz.wire import Answer

PROTOBUF = "application/vnd.kubernetes.protobuf"


@dataclass(frozen=True)
class Difference:
    reason: str
    holds: Callable[[Request, Answer, Answer], bool]


def _no_protobuf(request: Request, answer: Answer, _: Answer) -> bool:
    return answer.status == 406 and request.headers.get("Accept") == PROTOBUF


def _too_deep(_: Request, answer: Answer, __: Answer) -> bool:
    return answer.status == 400 and b"nested more than 100 levels" in answer.body


def _not_utf8(_: Request, answer: Answer, __: Answer) -> bool:
    return answer.status == 400 and b"is not valid UTF-8" in answer.body


def _nul_in_selector(request: Request, answer: Answer, _: Answer) -> bool:
    return answer.status == 400 and "labelSelector=%00" in request.target


def _respelled_data(request: Request, answer: Answer, other: Answer) -> bool:
    patched = request.verb == "patch" and request.kind.kind == "ControllerRevision"
    return patched and answer.status == 200 and b"data: Invalid value" in other.body


DIFFERENCES = (
    Difference("answers are never protobuf", _no_protobuf),
    Difference("at most 100 levels deep", _too_deep),
    Difference("bodies must be UTF-8", _not_utf8),
    Difference("the spelling of a ControllerRevision's data", _respelled_data),
    Difference("a NUL character in a label selector", _nul_in_selector),
)


def reason_for(request: Request, answer: Answer, other: Answer) -> str:
    """Why this difference is meant; empty: it is not."""
    return next((one.reason for one in DIFFERENCES if one.holds(request, answer, other)), "")
