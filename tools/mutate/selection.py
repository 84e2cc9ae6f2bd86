"""Which tests to run for a mutant: those that cover its line, fastest first. Pure but for reading sources."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator

from tools.mutate.mutations import Mutant
from tools.mutate.test_map import ROOT, TestMap, sources
from tools.mutate.workers import Work, file_of

FAST_SECONDS = 0.25
"""A test of at most so long is fast."""
MAX_FAST_SECONDS = 10.0
"""Of fast tests for one mutant: a line of the reconciler is covered by thousands of them."""
MAX_SECONDS = 6.0
"""Of slower tests for one mutant. More of either would find more survivors to be killed, never fewer."""
MAX_FRESH_SECONDS = 6.0
"""The same, for a mutant whose process imports everything again."""


def work_for(mutant: Mutant, tests: TestMap, *, inside: bool) -> Work:
    chosen = tests.covering(mutant.path, _lines(mutant))
    if not inside:
        chosen = tests.of_file(mutant.path)
        for importer in _importers().get(_module(mutant.path), ()):
            chosen |= tests.of_file(importer)
    limit = MAX_SECONDS if inside else MAX_FRESH_SECONDS
    fast = {test for test in chosen if tests.seconds[test] <= FAST_SECONDS}
    found = [*_within(MAX_FAST_SECONDS, fast, tests), *_within(limit, chosen - fast, tests)]
    names = tuple(tests.tests[test] for test in found)
    return Work(mutant, names, sum(tests.seconds[test] for test in found))


def _within(seconds: float, chosen: Iterable[int], tests: TestMap) -> Iterator[int]:
    """As many of these tests as run in so many seconds."""
    left = seconds
    for test in _spread(chosen, tests):
        if tests.seconds[test] <= left:
            left -= tests.seconds[test]
            yield test


def runs_at_import(mutant: Mutant, tests: TestMap) -> bool:
    """Whether its statement runs when modules are imported, as that of a function that builds a table."""
    return not set(_lines(mutant)).isdisjoint(tests.imported.get(mutant.path, ()))


def _spread(chosen: Iterable[int], tests: TestMap) -> list[int]:
    """The fastest test of each file, then the second of each: a mutant is soon seen by some file."""
    files: dict[str, list[int]] = {}
    for test in tests.fastest_first(chosen):
        files.setdefault(file_of(tests.tests[test]), []).append(test)
    turns = range(max(map(len, files.values()), default=0))
    return [found[turn] for turn in turns for found in files.values() if turn < len(found)]


def _lines(mutant: Mutant) -> range:
    """The lines of the innermost statement around the mutant, without the body of a block.

    A line in the middle of an expression may have no line event of its own: the statement counts.
    """
    spans = [range(mutant.line, mutant.line + 1)]
    for node in ast.walk(_tree(mutant.path)):
        if not isinstance(node, ast.stmt) or isinstance(node, _DEFINITIONS):
            continue
        body = getattr(node, "body", None)
        end = body[0].lineno if isinstance(body, list) and body else (node.end_lineno or 0) + 1
        if node.lineno <= mutant.line < max(end, node.lineno + 1):
            spans.append(range(node.lineno, max(end, node.lineno + 1)))
    return min(spans[1:] or spans, key=len)


_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@functools.cache
def _tree(path: str) -> ast.Module:
    return ast.parse((ROOT / path).read_text())


def _module(path: str) -> str:
    return path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@functools.cache
def _importers() -> dict[str, frozenset[str]]:
    """By module: the files of the mutated packages that import it."""
    found: dict[str, set[str]] = {}
    for path in sources():
        name = str(path.relative_to(ROOT))
        for node in ast.walk(_tree(name)):
            if isinstance(node, ast.ImportFrom) and node.module:
                found.setdefault(node.module, set()).add(name)
                for alias in node.names:
                    found.setdefault(f"{node.module}.{alias.name}", set()).add(name)
    return {module: frozenset(files) for module, files in found.items()}
