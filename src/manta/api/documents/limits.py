"""Limits of JSON and YAML input: size, nesting, and values after alias expansion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


class DocumentError(ValueError):
    """Invalid JSON or YAML, or beyond the limits. The message says where."""


@dataclass(frozen=True, slots=True)
class Limits:
    """`bytes` bounds the text, and the text after YAML aliases are expanded.

    `depth` bounds nesting: code that walks a value may recurse. kube-apiserver takes 10,000 levels;
    the deepest object that is in use, a CRD with a Pod template in its schema, has 38.
    `nodes` bounds keys, scalars, lists and maps of one YAML stream, aliases expanded.
    """

    bytes: int
    depth: int
    nodes: int


FILE: Final = Limits(bytes=64 << 20, depth=100, nodes=4_000_000)
"""A file of the user who runs this process: large sets of manifests are fine."""
REQUEST: Final = Limits(bytes=3 << 20, depth=100, nodes=150_000)
"""A request to the embedded API server (3 MiB as in kube-apiserver): other requests wait while it is parsed."""
FIELD: Final = Limits(bytes=2 << 20, depth=100, nodes=100_000)
"""YAML in a field of an object, such as `runtimeEnvYAML`; an object has at most 1.5 MiB."""
