"""Kubernetes' rules for names, labels and label values, with the API server's messages.

Each `*_errors` function returns messages; none means valid.
"""

from __future__ import annotations

import re
from typing import Final

LABEL_LENGTH: Final = 63
SUBDOMAIN_LENGTH: Final = 253
MAX_ANNOTATIONS_BYTES: Final = 256 * 1024
"""All annotations of an object together."""

SUFFIX_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Kubernetes' alphabet for generated names: no vowels and no look-alikes, so no suffix spells a word."""
SUFFIX_LENGTH: Final = 5

_suffix = re.compile(rf"-[{SUFFIX_ALPHABET}]{{{SUFFIX_LENGTH}}}(?![-a-z0-9])")

_LABEL_1123 = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL_1123}(\.{_LABEL_1123})*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = f"({_QUALIFIED})?"

_label_1123 = re.compile(_LABEL_1123)
_subdomain = re.compile(_SUBDOMAIN)
_label_1035 = re.compile(_LABEL_1035)
_qualified = re.compile(_QUALIFIED)
_label_value = re.compile(_LABEL_VALUE)


def dns1123_label_errors(text: str) -> tuple[str, ...]:
    """A Namespace, a container or a port of a Service: `my-name`, `123-abc`."""
    return _check(
        text,
        LABEL_LENGTH,
        _label_1123,
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-',"
        " and must start and end with an alphanumeric character"
        f" (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL_1123}')",
    )


def dns1123_subdomain_errors(text: str) -> tuple[str, ...]:
    """The name of most objects: `example.com`."""
    return _check(
        text,
        SUBDOMAIN_LENGTH,
        _subdomain,
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or"
        " '.', and must start and end with an alphanumeric character"
        f" (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')",
    )


def dns1035_label_errors(text: str) -> tuple[str, ...]:
    """A Service, and every Ray object: a label that starts with a letter."""
    return _check(
        text,
        LABEL_LENGTH,
        _label_1035,
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an"
        " alphabetic character, and end with an alphanumeric character"
        f" (e.g. 'my-name',  or 'abc-123', regex used for validation is '{_LABEL_1035}')",
    )


def label_value_errors(text: str) -> tuple[str, ...]:
    return _check(
        text,
        LABEL_LENGTH,
        _label_value,
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or"
        " '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or"
        f" 'my_value',  or '12345', regex used for validation is '{_LABEL_VALUE}')",
        unit="bytes",
    )


def qualified_name_errors(text: str) -> tuple[str, ...]:
    """The key of a label or annotation: `name`, or `example.com/name`."""
    words = (
        "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an"
        " alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for"
        f" validation is '{_QUALIFIED}')"
    )
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        example = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return (f"a valid label key {words} {example}",)
    errors: list[str] = []
    if slash and not prefix:
        errors.append("prefix part must be non-empty")
    elif slash:
        errors.extend(f"prefix part {error}" for error in dns1123_subdomain_errors(prefix))
    if not name:
        errors.append("name part must be non-empty")
    elif len(name) > LABEL_LENGTH:
        errors.append(f"name part must be no more than {LABEL_LENGTH} bytes")
    if not _qualified.fullmatch(name):
        errors.append(f"name part {words}")
    return tuple(errors)


def without_suffixes(text: str) -> str:
    """The text without the random ends of generated names: equal for equal sentences about other objects."""
    return _suffix.sub("-", text)


def is_dns1035_label(text: str) -> bool:
    return not dns1035_label_errors(text)


def _check(
    text: str, length: int, pattern: re.Pattern[str], words: str, unit: str = "characters"
) -> tuple[str, ...]:
    errors: list[str] = []
    if len(text) > length:
        errors.append(f"must be no more than {length} {unit}")
    if not pattern.fullmatch(text):
        errors.append(words)
    return tuple(errors)
