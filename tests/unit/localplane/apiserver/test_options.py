"""Queries, read and checked."""

from __future__ import annotations

import pytest

from manta.httpserver.messages import HttpRequest
from manta.localplane.apiserver.options import (
    DeleteOptions,
    delete_options,
    list_options,
    manager_of,
    write_options,
)
from manta.localplane.apiserver.status_errors import StatusError


def request(**query):
    return HttpRequest("GET", "/", tuple(query.items()), {"user-agent": "kubectl/v1.32 (linux)"})


def test_who_writes_is_said_or_taken_from_the_agent() -> None:
    assert write_options(request(), "CreateOptions").manager == "kubectl"
    assert write_options(request(fieldManager="me"), "CreateOptions").manager == "me"
    assert manager_of("") == "unknown"
    with pytest.raises(StatusError):
        write_options(request(fieldManager="x" * 129), "CreateOptions")


def test_flags_of_a_write() -> None:
    options = write_options(request(dryRun="All", fieldValidation="Strict", force="true"), "X")
    assert (options.dry_run, options.validation, options.force) == (True, "Strict", True)
    assert write_options(request(), "X").validation == "Warn"


@pytest.mark.parametrize(
    ("query", "watch", "code"),
    [
        ({"sendInitialEvents": "true"}, True, 422),
        ({"resourceVersionMatch": "NotOlderThan"}, True, 422),
        ({"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}, False, 422),
        ({"resourceVersionMatch": "Exact", "resourceVersion": "5", "continue": "x"}, False, 422),
        ({"resourceVersion": "-1"}, False, 400),
        ({"resourceVersion": "-1"}, True, 500),
        ({"limit": "many"}, False, 400),
    ],
)
def test_lists_that_make_no_sense_are_refused(query, watch, code) -> None:
    with pytest.raises(StatusError) as refused:
        list_options(request(**query), watch=watch)
    assert refused.value.code == code


def test_a_list_says_what_it_wants() -> None:
    options = list_options(request(limit="5", resourceVersion="7", timeoutSeconds="3"), watch=False)
    assert (options.limit, options.revision, options.timeout) == (5, 7, 3.0)
    assert list_options(request(limit="-5"), watch=False).limit == 0


def test_delete_options_come_from_body_or_query() -> None:
    body = {"preconditions": {"uid": "u"}, "gracePeriodSeconds": 0, "dryRun": ["All"]}
    assert delete_options(request(), body) == DeleteOptions("", 0, "u", None, True)
    reported = delete_options(request(propagationPolicy="Orphan", gracePeriodSeconds="4"), {})
    assert (reported.propagation, reported.grace_seconds) == ("Orphan", 4)


@pytest.mark.parametrize(("orphan", "policy"), [(True, "Orphan"), (False, "Background")])
def test_the_old_word_for_orphans_is_understood(orphan, policy) -> None:
    assert delete_options(request(), {"orphanDependents": orphan}).propagation == policy
