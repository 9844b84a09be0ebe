"""Plug-ins import faces only, and nobody uses the private names of another room.

A face is the `__init__` of a package with its `__all__`. What stands below a face, and
every name with a leading underscore, belongs to its room: a package of the core, or a
whole plug-in.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from source_trees import import_statements

pytestmark = pytest.mark.install_independent

ROOT = Path(__file__).resolve().parent.parent
SPEC = spec_from_file_location("face_table", ROOT / "tools" / "face_table.py")
assert SPEC is not None
assert SPEC.loader is not None
TABLE = module_from_spec(SPEC)
SPEC.loader.exec_module(TABLE)
FACES = TABLE.FACES
OWNERS = {face.partition(".")[0] for face in FACES}
"""The core, and the plug-ins that others may import."""


def needs(*packages: str) -> pytest.MarkDecorator:
    missing = [name for name in packages if find_spec(name) is None]
    reason = f"not installed: {', '.join(missing)}"
    return pytest.mark.skipif(bool(missing), reason=reason)


needs_plugins = needs(*OWNERS)
NAMED_TUPLE = {"_asdict", "_field_defaults", "_fields", "_make", "_replace"}


def sources(root: Path) -> Iterator[tuple[Path, Path]]:
    """Every source file with its `src` folder."""
    folders = [root / "core" / "src", root / "namespaces" / "src"]
    folders += [*root.glob("plugins/[!_]*/src"), *root.glob("examples/*/src")]
    for folder in folders:
        yield from ((folder, file) for file in sorted(folder.rglob("*.py")))


def below_faces(root: Path) -> Iterator[str]:
    """Imports of plug-ins that are not a name of a face."""
    for folder, file in sources(root):
        package = file.relative_to(folder).parts[0]
        if package == "amanda":
            continue
        for node, _ in import_statements(file.read_text(encoding="utf-8")):
            for line, module, name in imported(node):
                top = module.partition(".")[0]
                if top == package or top not in OWNERS:
                    continue
                if why := fault(module, name):
                    yield f"{file.relative_to(root)}:{line}: {why}"


def imported(node: ast.AST) -> Iterator[tuple[int, str, str]]:
    """Line, module and name of what an import statement binds."""
    match node:
        case ast.Import(names=names):
            yield from ((node.lineno, alias.name, "") for alias in names)
        case ast.ImportFrom(module=str(module), names=names):
            yield from ((node.lineno, module, alias.name) for alias in names)


def fault(module: str, name: str) -> str:
    full = f"{module}.{name}" if name else module
    if full in FACES:
        return ""
    if module not in FACES:
        return f"{full} is below a face"
    return "" if name in names_of(module) else f"{module}.__all__ has no {name}"


@cache
def names_of(face: str) -> frozenset[str]:
    module = import_module(face)
    return frozenset(getattr(module, "__all__", dir(module)))


def private_uses(root: Path) -> Iterator[str]:
    """Uses of names with a leading underscore that another room defines."""
    rooms: dict[str, list[Path]] = {}
    for folder, file in sources(root):
        parts = file.relative_to(folder).with_suffix("").parts
        rooms.setdefault(room_of(".".join(parts)), []).append(file)
    defined: dict[str, set[str]] = {room: set() for room in rooms}
    used: list[tuple[str, str, str]] = []
    for room, files in rooms.items():
        for file in files:
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                defined[room].update(filter(is_private, definitions(node)))
                for name in used_names(node, room):
                    place = f"{file.relative_to(root)}:{node.lineno}"  # type: ignore[attr-defined]
                    used.append((room, place, name))
    every = set().union(*defined.values()) - NAMED_TUPLE
    for room, place, name in used:
        if "." in name or name in every - defined[room]:
            yield f"{place}: {name}"


def room_of(module: str) -> str:
    """`amanda.graph` of `amanda.graph._op`; `amanda_std` of `amanda_std.ops.math`."""
    parts = module.split(".")
    return ".".join(parts[:2] if parts[0] == "amanda" else parts[:1])


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def definitions(node: ast.AST) -> Iterator[str]:
    """The name that a node defines or spells as a string."""
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Name(id=name, ctx=ast.Store()) | ast.keyword(arg=str(name)):
            yield name
        case ast.Attribute(attr=name, ctx=ast.Store()):
            yield name
        case ast.Constant(value=str(name)):
            yield name


def used_names(node: ast.AST, room: str) -> Iterator[str]:
    """Private attributes that are read; private names imported from other rooms."""
    match node:
        case ast.Attribute(value=ast.Name(id="self")):
            return  # of a base class, which is there to be inherited
        case ast.Attribute(attr=name) if is_private(name):
            yield name
        case ast.ImportFrom(module=str(module), names=names):
            if module.startswith("amanda") and room_of(module) != room:
                for alias in names:
                    if any(map(is_private, [*module.split("."), alias.name])):
                        yield f"{module}.{alias.name}"


@needs_plugins
def test_plugins_import_faces_only() -> None:
    assert list(below_faces(ROOT)) == []


def test_nobody_uses_private_names_of_another_room() -> None:
    assert list(private_uses(ROOT)) == []


@pytest.mark.parametrize(
    "face",
    [pytest.param(face, marks=needs(face.partition(".")[0])) for face in FACES],
)
def test_every_face_lists_its_names(face: str) -> None:
    module = import_module(face)
    names = module.OPS if face == "amanda_std.ops" else module.__all__
    assert names
    assert [name for name in names if not hasattr(module, name)] == []
    assert module.__doc__


@needs_plugins
def test_the_page_of_the_faces_is_current() -> None:
    """`python tools/face_table.py` writes it."""
    assert TABLE.PAGE.read_text(encoding="utf-8") == TABLE.page_text()


PLANTED = {
    "from amanda.graph._op import Op": "amanda.graph._op.Op is below a face",
    "import amanda.graph._op": "amanda.graph._op is below a face",
    "from amanda.graph import Nothing": "amanda.graph.__all__ has no Nothing",
    "def f():\n    import amanda.text.x": "amanda.text.x is below a face",
}


@pytest.mark.parametrize(("text", "why"), PLANTED.items())
def test_planted_import_below_a_face(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "plugins" / "amanda-one" / "src" / "amanda_one" / "x.py"
    file.parent.mkdir(parents=True)
    file.write_text(f"from amanda.graph import Op\nimport amanda_one.y\n{text}\n")
    line = 2 + len(text.splitlines())
    where = f"plugins/amanda-one/src/amanda_one/x.py:{line}"
    assert list(below_faces(tmp_path)) == [f"{where}: {why}"]


def test_planted_use_of_a_private_name(tmp_path: Path) -> None:
    one, two = (tmp_path / f"plugins/amanda-{n}/src/amanda_{n}" for n in ("one", "two"))
    one.mkdir(parents=True)
    two.mkdir(parents=True)
    (one / "x.py").write_text("class X:\n    def _hidden(self): ...\n")
    (two / "y.py").write_text(
        "from amanda_one.x import X, _y\nX()._hidden()\nX()._own\n_own = 1\n"
    )
    place = "plugins/amanda-two/src/amanda_two/y.py"
    assert list(private_uses(tmp_path)) == [
        f"{place}:1: amanda_one.x._y",
        f"{place}:2: _hidden",
    ]
