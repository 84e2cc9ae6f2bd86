"""Values as Go prints them with `%v`: kube-apiserver shows invalid patches so."""

from __future__ import annotations

from typing import Any


def go_text(value: Any) -> str:
    match value:
        case dict():
            members = " ".join(f"{name}:{go_text(value[name])}" for name in sorted(value))
            return f"map[{members}]"
        case list():
            return f"[{' '.join(go_text(item) for item in value)}]"
        case None:
            return "<nil>"
        case bool():
            return "true" if value else "false"
        case float():
            return repr(int(value)) if value.is_integer() and abs(value) < 1e21 else repr(value)
        case _:
            return str(value)
