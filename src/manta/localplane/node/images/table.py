"""The table that maps image names to environments, read from YAML. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_FIELDS = frozenset(
    "image packages python environment programs command entrypoint workdir env links".split()  # noqa: SIM905 - short
)
_REFERENCE = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._/:@-]*", re.ASCII)


class TableError(ValueError):
    """The table is invalid; the message names the rule and what to change."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to provide an image."""

    image: str
    packages: tuple[str, ...] | None = None
    """None: no virtual environment; empty: a virtual environment without packages."""
    python: str = ""
    """Such as `3.11`; empty: the agent's own."""
    environment: str = ""
    programs: tuple[str, ...] = ()
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    workdir: str = "/"
    env: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rule:
    pattern: re.Pattern[str]
    fields: Mapping[str, Any]

    def recipe(self, image: str, groups: Mapping[str, str]) -> Recipe:
        def fill(text: str) -> str:
            return _fill(text, groups)

        fields = self.fields
        packages = fields.get("packages")
        return Recipe(
            image=image,
            packages=None if packages is None else tuple(fill(one) for one in packages),
            python=python_version(fill(str(fields.get("python", "")))),
            environment=fill(fields.get("environment", "")),
            programs=tuple(fields.get("programs", ())),
            entrypoint=tuple(fields.get("entrypoint", ())),
            command=tuple(fields.get("command", ())),
            workdir=fields.get("workdir", "/"),
            env={name: fill(str(value)) for name, value in fields.get("env", {}).items()},
            links=dict(fields.get("links", {})),
        )


def read_rules(document: Any, source: str) -> tuple[Rule, ...]:
    """The rules of one parsed YAML document. Raises TableError."""
    if document is None:
        return ()
    if not isinstance(document, dict) or not isinstance(document.get("images"), list):
        raise TableError(f"{source}: expected a mapping with a list 'images'")
    return tuple(
        _read_rule(rule, f"{source}: images[{number}]")
        for number, rule in enumerate(document["images"])
    )


def _read_rule(rule: Any, where: str) -> Rule:
    if not isinstance(rule, dict) or not isinstance(rule.get("image"), str):
        raise TableError(f"{where}: expected a mapping with 'image', a regular expression")
    if unknown := sorted(set(rule) - _FIELDS):
        raise TableError(f"{where}: unknown field {unknown[0]!r}; known are {sorted(_FIELDS)}")
    try:
        return Rule(re.compile(rule["image"]), rule)
    except re.error as error:
        words = f"{rule['image']!r} is not a regular expression: {error}"
        raise TableError(f"{where}: {words}") from error


def find_recipe(rules: Iterable[Rule], image: str) -> Recipe | None:
    """The recipe of the first rule that matches the whole name without its digest, or None."""
    name = image.partition("@")[0]
    for rule in rules:
        if match := rule.pattern.fullmatch(name):
            groups = {key: value or "" for key, value in match.groupdict().items()}
            return rule.recipe(image, groups)
    return None


def is_reference(image: str) -> bool:
    """Whether `image` has the form of an image name."""
    return bool(_REFERENCE.fullmatch(image)) and not image.endswith((":", "/", "@"))


def python_version(text: str) -> str:
    """`py311`, `311` and `3.11` all mean 3.11."""
    digits = text.removeprefix("py")
    if digits.isdigit() and len(digits) > 1:
        return f"{digits[0]}.{digits[1:]}"
    return digits


def environment_key(recipe: Recipe, python: str, digest: Sequence[str]) -> str:
    """A readable and unique directory name for the environment."""
    first = (recipe.packages or ("python",))[0]
    readable = re.sub(r"[^a-zA-Z0-9.]+", "-", first).strip("-")
    return "-".join([readable, f"py{python}", *digest])


def _fill(text: str, groups: Mapping[str, str]) -> str:
    for name, value in groups.items():
        text = text.replace(f"{{{name}}}", value)
    return text
