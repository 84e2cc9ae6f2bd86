"""Which error an answer becomes."""

from __future__ import annotations

import msgspec
import pytest

from manta.kube import errors
from manta.kube.errors import error_from, error_from_status


def status(code: int, reason: str = "", message: str = "no", **details: object) -> bytes:
    fields = {"kind": "Status", "code": code, "reason": reason, "message": message}
    return msgspec.json.encode(fields | ({"details": details} if details else {}))


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (404, "NotFound", errors.NotFound),
        (409, "Conflict", errors.Conflict),
        (409, "AlreadyExists", errors.AlreadyExists),
        (410, "Expired", errors.Gone),
        (410, "Gone", errors.Gone),
        (422, "Invalid", errors.Invalid),
        (403, "Forbidden", errors.Forbidden),
        (401, "Unauthorized", errors.Unauthorized),
        (429, "TooManyRequests", errors.TooManyRequests),
        (400, "BadRequest", errors.BadRequest),
        (500, "InternalError", errors.Unavailable),
        (504, "Timeout", errors.Unavailable),
        (405, "MethodNotAllowed", errors.ApiError),
    ],
)
def test_the_reason_decides(code: int, reason: str, kind: type[errors.ApiError]) -> None:
    assert type(error_from(code, {}, status(code, reason))) is kind


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (404, errors.NotFound),
        (409, errors.Conflict),
        (503, errors.Unavailable),
        (418, errors.ApiError),
    ],
)
def test_without_a_reason_the_code_decides(code: int, kind: type[errors.ApiError]) -> None:
    assert type(error_from(code, {}, status(code))) is kind


def test_an_answer_of_a_load_balancer_keeps_its_first_words() -> None:
    error = error_from(502, {}, b"<html>\n  Bad   gateway\n</html>")
    assert isinstance(error, errors.Unavailable)
    assert error.message == "<html> Bad gateway </html>"


def test_json_that_is_no_status_is_not_taken_for_one() -> None:
    error = error_from(404, {}, b'{"reason":"Conflict","code":409,"message":"of another kind"}')
    assert type(error) is errors.NotFound


def test_a_missing_type_differs_from_a_missing_object() -> None:
    missing_type = error_from(404, {}, b"404 page not found\n")
    missing_object = error_from(404, {}, status(404, "NotFound", name="x", kind="pods"))
    assert isinstance(missing_type, errors.NotFound)
    assert isinstance(missing_object, errors.NotFound)
    assert (missing_type.of_type, missing_object.of_type) == (True, False)


def test_the_time_to_wait_comes_from_the_body_or_else_from_the_header() -> None:
    body = error_from(429, {"retry-after": "9"}, status(429, retryAfterSeconds=3))
    assert body.retry_after == 3
    assert error_from(429, {"retry-after": "9"}, b"slow down").retry_after == 9
    assert error_from(429, {}, b"slow down").retry_after is None


def test_only_lost_replies_and_5xx_leave_a_write_unknown() -> None:
    assert errors.Unreachable("lost", sent=True).unknown
    assert not errors.Unreachable("refused", sent=False).unknown
    assert error_from(504, {}, b"").unknown
    assert not error_from(409, {}, b"").unknown


def test_an_error_inside_a_watch_is_read_from_its_status() -> None:
    error = error_from_status(status(410, "Expired", "too old resource version: 1 (120)"))
    assert isinstance(error, errors.Gone)
    assert str(error) == "too old resource version: 1 (120) (410 Expired)"


def test_what_we_know_is_added_to_what_the_server_says() -> None:
    error = error_from(401, {}, status(401, "Unauthorized", "Unauthorized"), "the token expired")
    assert error.message == "Unauthorized; the token expired"


def test_field_causes_are_at_hand() -> None:
    cause = {"reason": "FieldValueInvalid", "field": "spec.x"}
    assert error_from(422, {}, status(422, "Invalid", causes=[cause])).causes == (cause,)
