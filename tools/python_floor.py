"""Check that no source uses what the oldest Python of the README lacks: 3.11.0.

    python tools/python_floor.py [FILE ...]

What minor versions added to modules is read from the stubs of the standard library that
mypy has; what maintenance releases of 3.11 added, and new arguments of functions, are
the tables below, from the documentation of the library ("Changed in version 3.11.4").
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FLOOR = (3, 11)
NEWEST = 15  # minor version of Python 3 that the stubs describe
FOLDERS = ("core", "namespaces", "plugins", "examples", "tests", "tools", "benchmarks")
NEW_NAMES = {
    "tarfile.AbsoluteLinkError": "3.11.4",
    "tarfile.AbsolutePathError": "3.11.4",
    "tarfile.FilterError": "3.11.4",
    "tarfile.LinkOutsideDestinationError": "3.11.4",
    "tarfile.OutsideDestinationError": "3.11.4",
    "tarfile.SpecialFileError": "3.11.4",
    "tarfile.data_filter": "3.11.4",
    "tarfile.fully_trusted_filter": "3.11.4",
    "tarfile.tar_filter": "3.11.4",
}
"""Names of modules that a maintenance release added."""
NEW_ARGUMENTS = {
    ("extract", "filter"): "3.11.4",
    ("extractall", "filter"): "3.11.4",
    ("unpack_archive", "filter"): "3.11.4",
    ("getaddresses", "strict"): "3.11.10",
    ("parseaddr", "strict"): "3.11.10",
    ("glob", "case_sensitive"): "3.12",
    ("rglob", "case_sensitive"): "3.12",
    ("relative_to", "walk_up"): "3.12",
    ("rmtree", "onexc"): "3.12",
    ("NamedTemporaryFile", "delete_on_close"): "3.12",
    ("read_text", "newline"): "3.13",
    ("glob", "recurse_symlinks"): "3.13",
}
"""New arguments by keyword, of a function or method of this name."""


def faults(file: Path) -> Iterator[str]:
    """Uses of names and arguments that Python 3.11.0 lacks, by line."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    modules: dict[str, str] = {}  # local name: module
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                modules[name.asname or name.name.partition(".")[0]] = name.name
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            used = [f"{node.module}.{name.name}" for name in node.names]
            yield from _new_names(used, node.lineno)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = modules.get(node.value.id)
            if module is not None:
                yield from _new_names([f"{module}.{node.attr}"], node.lineno)
        elif isinstance(node, ast.Call):
            yield from _new_arguments(node)


def _new_names(used: Iterable[str], line: int) -> Iterator[str]:
    for name in used:
        module, _, attribute = name.rpartition(".")
        since = NEW_NAMES.get(name) or names_added(module).get(attribute)
        if since is not None:
            yield f"{line}: {name} is new in Python {since}"


def _new_arguments(call: ast.Call) -> Iterator[str]:
    function = call.func
    name = getattr(function, "attr", None) or getattr(function, "id", None)
    for keyword in call.keywords:
        since = NEW_ARGUMENTS.get((name or "", keyword.arg or ""))
        if since is not None:
            yield f"{call.lineno}: {name}({keyword.arg}=) is new in Python {since}"


@cache
def names_added(module: str) -> dict[str, str]:
    """Names of a module of the standard library that are newer than the floor."""
    if module.partition(".")[0] not in sys.stdlib_module_names:
        return {}
    place = _stubs() / module.replace(".", "/")
    for file in (place.with_suffix(".pyi"), place / "__init__.pyi"):
        if file.is_file():
            body = ast.parse(file.read_text(encoding="utf-8")).body
            old, added = set(_names(body, FLOOR)), dict[str, str]()
            for minor in range(NEWEST, FLOOR[1], -1):
                new = set(_names(body, (3, minor))) - old
                added.update(dict.fromkeys(new, f"3.{minor}"))
            return added
    return {}


@cache
def _stubs() -> Path:
    spec = find_spec("mypy")
    if spec is None or spec.origin is None:
        raise SystemExit("mypy is not installed; its stubs are read")
    return Path(spec.origin).parent / "typeshed" / "stdlib"


def _names(body: Iterable[ast.stmt], version: tuple[int, int]) -> Iterator[str]:
    """The names that stubs define for a version of Python, on any system."""
    for statement in body:
        if isinstance(statement, ast.If):
            holds = _holds(statement.test, version)
            yield from _names(statement.body, version) if holds is not False else ()
            yield from _names(statement.orelse, version) if not holds else ()
        elif isinstance(
            statement, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef
        ):
            yield statement.name
        elif isinstance(statement, ast.AnnAssign):
            yield ast.unparse(statement.target)
        elif isinstance(statement, ast.Assign):
            yield from map(ast.unparse, statement.targets)
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            yield from (name.asname or name.name for name in statement.names)


def _holds(test: ast.expr, version: tuple[int, int]) -> bool | None:
    """Whether a condition on the version holds; None for other conditions."""
    if (
        not isinstance(test, ast.Compare)
        or ast.unparse(test.left) != "sys.version_info"
    ):
        return None
    limit: tuple[int, ...] = ast.literal_eval(test.comparators[0])
    return version >= limit if isinstance(test.ops[0], ast.GtE) else version < limit


def files() -> Iterator[Path]:
    for folder in FOLDERS:
        yield from sorted((ROOT / folder).rglob("*.py"))
    yield from sorted(ROOT.glob("*.py"))


def main(arguments: Sequence[str]) -> int:
    found = [
        f"{file}:{fault}"
        for file in ([*map(Path, arguments)] or files())
        for fault in faults(file)
    ]
    print(*found, sep="\n", end="\n" if found else "")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
