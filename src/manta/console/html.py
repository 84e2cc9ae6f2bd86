"""Markup that is escaped by construction. Pure.

`tag` escapes every text that is not `Html`, and only `tag`, `join` and `raw` make `Html`. Names of tags and
attributes are constants of this program; links may only lead to http, https or a path of this server.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from typing import Final

VOID: Final = frozenset(("br", "hr", "img", "input", "link", "meta"))
_ADDRESSES: Final = frozenset(("href", "src", "action"))
_SAFE_STARTS: Final = ("/", "?", "#", "http://", "https://")
_NOT_IN_AN_ADDRESS: Final = re.compile(r"[\x00-\x20\x7f\\]")
"""Browsers drop line breaks and tabs, and take a backslash for a slash: `/\\evil` is another server."""


class Html(str):
    """Markup that may be sent as it is."""

    __slots__ = ()


Child = str | int | float | None | Iterable["Child"]
"""What may stand inside of a tag: text, which is escaped, markup, and sequences of both; None is left out."""
Value = str | int | bool | None
EMPTY: Final = Html("")


def tag(name: str, /, *children: Child, **attributes: Value) -> Html:
    """`<name …>children</name>`. A trailing `_` of an attribute is dropped, other `_` become `-`.

    True: an attribute without a value; None and False: none. Raises ValueError for an unsafe link.
    """
    opened = f"<{name}{''.join(_attribute(key, value) for key, value in attributes.items())}>"
    return Html(opened if name in VOID else f"{opened}{join(children)}</{name}>")


def join(children: Child) -> Html:
    """The children one after the other."""
    if isinstance(children, Html):
        return children
    if children is None:
        return EMPTY
    if isinstance(children, str):
        return Html(escape(children))
    if isinstance(children, int | float):
        return Html(str(children))
    return Html("".join(join(one) for one in children))


def raw(markup: str) -> Html:
    """Declare a constant of this program, such as a style sheet, as markup."""
    return Html(markup)


def _attribute(key: str, value: Value) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    text = str(value)
    if name in _ADDRESSES and (
        not text.startswith(_SAFE_STARTS)
        or text.startswith("//")
        or _NOT_IN_AN_ADDRESS.search(text)
    ):
        raise ValueError(f"{name}={text!r} is neither an address of this server nor http or https")
    return f' {name}="{escape(text)}"'
