"""Names, labels and label values, and the words in which they are refused."""

from __future__ import annotations

import pytest

from manta.api.names import (
    dns1123_label_errors,
    dns1123_subdomain_errors,
    is_dns1035_label,
    label_value_errors,
    qualified_name_errors,
    without_suffixes,
)


@pytest.mark.parametrize(
    ("text", "label", "subdomain", "letter_first"),
    [
        ("a", True, True, True),
        ("my-name", True, True, True),
        ("123-abc", True, True, False),
        ("a" * 63, True, True, True),
        ("a" * 64, False, True, False),
        ("a.b", False, True, False),
        ("A", False, False, False),
        ("-a", False, False, False),
        ("a-", False, False, False),
        ("a..b", False, False, False),
        ("", False, False, False),
        ("a_b", False, False, False),
        ("a\n", False, False, False),
        ("a" * 254, False, False, False),
    ],
)
def test_names_of_objects(text: str, label: bool, subdomain: bool, letter_first: bool) -> None:
    assert (not dns1123_label_errors(text)) is label
    assert (not dns1123_subdomain_errors(text)) is subdomain
    assert is_dns1035_label(text) is letter_first


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("name", True),
        ("My_Name.1", True),
        ("example.com/name", True),
        ("ray.io/cluster", True),
        ("a" * 63, True),
        ("a" * 64, False),
        ("/name", False),
        ("example.com/", False),
        ("a/b/c", False),
        ("Example.com/name", False),
        ("-a", False),
        ("", False),
    ],
)
def test_keys_of_labels(text: str, valid: bool) -> None:
    assert (not qualified_name_errors(text)) is valid


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("", True),
        ("a", True),
        ("My_Value.1", True),
        ("a" * 64, False),
        ("b c", False),
        ("-", False),
    ],
)
def test_values_of_labels(text: str, valid: bool) -> None:
    assert (not label_value_errors(text)) is valid


def test_a_refusal_is_worded_as_the_api_server_words_it() -> None:
    assert dns1123_subdomain_errors("Bad_Name") == (
        (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or"
            " '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex"
            " used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
        ),
    )
    assert label_value_errors("b c") == (
        (
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or"
            " '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or"
            " 'my_value',  or '12345', regex used for validation is"
            " '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
        ),
    )


def test_every_fault_of_a_name_is_reported() -> None:
    assert len(dns1123_subdomain_errors("A" * 300)) == 2
    assert len(qualified_name_errors("/")) == 3


def test_sentences_about_generated_names_are_compared_without_their_random_ends() -> None:
    text = 'cannot create Pod ns/demo-gpu-worker-{}: pods "demo-gpu-worker-{}" is forbidden: used: pods=4'
    assert without_suffixes(text.format("x7k2p", "x7k2p")) == without_suffixes(
        text.format("bcdf5", "bcdf5")
    )
    assert without_suffixes("pods=4") != without_suffixes("pods=5")
    assert without_suffixes("demo-group-worker") == "demo-group-worker"
