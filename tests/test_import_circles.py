"""Modules do not import each other in large circles, at the top or inside functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest
from source_trees import import_statements

pytestmark = pytest.mark.install_independent

ROOT = Path(__file__).resolve().parents[1]
SOURCES = [
    ROOT / "core/src",
    ROOT / "namespaces/src",
    *sorted(ROOT.glob("plugins/[!_]*/src")),
]
MOST = 5
"""Modules in the largest circle."""

Imports = Mapping[str, set[str]]


def modules() -> dict[str, Path]:
    found = {}
    for source in SOURCES:
        for path in source.rglob("*.py"):
            parts = path.relative_to(source).with_suffix("").parts
            found[".".join(p for p in parts if p != "__init__")] = path
    return found


def imported(text: str) -> Iterator[tuple[str, str]]:
    """(module, name) of each import that runs; not those for type checkers only."""
    for node, runs in import_statements(text):
        if not runs:
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif node.module and node.level == 0:
            yield from ((node.module, alias.name) for alias in node.names)


@cache
def import_graph() -> Imports:
    """The modules of this repository that each of them imports."""
    paths = modules()
    graph: dict[str, set[str]] = {}
    for module, path in paths.items():
        names = imported(path.read_text(encoding="utf-8"))
        wanted = {f"{m}.{n}" if f"{m}.{n}" in paths else m for m, n in names}
        graph[module] = (wanted & paths.keys()) - {module}
    return graph


def reachable(graph: Imports, start: str) -> set[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for module in graph[waiting.pop()] - seen:
            seen.add(module)
            waiting.append(module)
    return seen


def circles(graph: Imports) -> list[list[str]]:
    """The strongly connected components of more than one module, largest first."""
    reach = {module: reachable(graph, module) for module in graph}
    found = {
        tuple(sorted(m for m in reach[module] if module in reach[m]))
        for module in graph
        if module in reach[module]
    }
    return sorted(map(list, found), key=len, reverse=True)


def test_import_circles_are_small() -> None:
    largest = circles(import_graph())[0]
    assert len(largest) <= MOST, largest


def test_no_import_circle_crosses_distributions() -> None:
    for circle in circles(import_graph()):
        assert len({module.partition(".")[0] for module in circle}) == 1, circle


def test_a_planted_circle_is_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()}
    assert circles(graph) == [["a", "b", "c"]]
