"""Imports go down only: the floors of the house, walked over every source file.

Every import counts, at the top of a module, inside a function and under
`TYPE_CHECKING` alike, `import_module` of a literal name too: an import that is made
late, or for types only, ties two floors together just the same, and a reader of the
lower one has to know the higher.
"""

from __future__ import annotations

import ast
import re
import shutil
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from source_trees import import_statements

pytestmark = pytest.mark.install_independent

ROOT = Path(__file__).resolve().parent.parent

# Lowest first. Modules of one floor do not know each other; inside one name (a package)
# they may. What is not named here has no floor, which is a fault.
FLOORS = [
    ("amanda.__version__",),
    ("amanda.errors", "amanda.addons", "amanda.html_tables"),
    ("amanda.current_host",),
    ("amanda.argument_checks",),
    ("amanda.types", "amanda.files.mapped_file"),
    ("amanda.files.atomic",),
    ("amanda.tensors", "amanda.comparison"),
    ("amanda.graph",),
    ("amanda.formatkit",),
    ("amanda.files",),
    ("amanda.dictionary",),
    ("amanda.mapping",),
    ("amanda.passes",),
    ("amanda.backend", "amanda.protocols"),
    ("amanda.hookspecs",),
    ("amanda.host",),
    ("amanda.feeds",),
    ("amanda.api",),
    ("amanda.frontend",),
    ("amanda.session", "amanda.instrument"),
    ("amanda",),
    ("amanda.scoreboard",),
    ("amanda.cli", "amanda.testing"),
    ("amanda.__main__",),
]
FLOOR = {name: floor for floor, names in enumerate(FLOORS) for name in names}

FRAMEWORKS = {
    "ai_edge_litert",
    "coremltools",
    "flax",
    "jax",
    "jaxlib",
    "keras",
    "mxnet",
    "onnx",
    "onnxruntime",
    "openvino",
    "paddle",
    "tensorflow",
    "tensorrt",
    "tflite",
    "tflite_runtime",
    "torch",
    "torchvision",
    "tvm",
}
# Distributions whose import name is another one than theirs.
IMPORTED_AS = {"pillow": "PIL", "protobuf": "google", "pyyaml": "yaml"}
HUB = "amanda_std"
IMPORTED = {HUB, "amanda_native"}
"""The plug-ins that others may import: they map to the hub, and register libraries."""


def faults(root: Path) -> list[str]:
    """Every import that goes where it must not, as `file:line: why`."""
    return [*core_faults(root), *plugin_faults(root)]


def core_faults(root: Path) -> Iterator[str]:
    source = root / "core" / "src"
    modules = {module_name(file, source): file for file in source.rglob("*.py")}
    modules = {name: file for name, file in modules.items() if "_template" not in name}
    allowed = declared(root / "core" / "pyproject.toml") | sys.stdlib_module_names
    for module, file in sorted(modules.items()):
        if place(module) is None:
            yield f"{file.relative_to(root)}: {module} has no floor"
            continue
        for line, target in imports(file, module, set(modules)):
            if why := core_fault(module, target, allowed):
                yield f"{file.relative_to(root)}:{line}: {why}"


def core_fault(module: str, target: str, allowed: set[str] | frozenset[str]) -> str:
    top = target.partition(".")[0]
    if top in FRAMEWORKS:
        return f"{module} imports the framework {top}"
    if top != "amanda":
        return "" if top in allowed else f"{module} imports {top}, not a requirement"
    here, there = place(module), place(target)
    if there is None:
        return f"{module} imports {target}, which has no floor"
    assert here is not None
    if here == there or FLOOR[there] < FLOOR[here]:
        return ""
    return f"{module} imports {target}, which is not below it"


def plugin_faults(root: Path) -> Iterator[str]:
    sources = [
        *root.glob("plugins/*/src"),
        *root.glob("examples/*/src"),
        *root.glob("namespaces/src"),
    ]
    owner = {package.name: src for src in sources for package in src.iterdir()}
    for source in sources:
        for file in sorted(source.rglob("*.py")):
            module = module_name(file, source)
            for line, target in imports(file, module, set()):
                top = target.partition(".")[0]
                if owner.get(top, source) != source and top not in IMPORTED:
                    why = f"{module} imports the plug-in {top}; ask the host for it"
                    yield f"{file.relative_to(root)}:{line}: {why}"


def place(module: str) -> str | None:
    """The longest name in the table that this module is, or is inside of."""
    parts = module.split(".")
    prefixes = [".".join(parts[:n]) for n in range(len(parts), 1, -1)]
    named = [name for name in prefixes if name in FLOOR]
    return named[0] if named else ("amanda" if module == "amanda" else None)


def module_name(file: Path, source: Path) -> str:
    parts = file.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(file: Path, module: str, modules: set[str]) -> Iterator[tuple[int, str]]:
    """Line and full name of everything imported, however late."""
    for node in importing(file.read_text(encoding="utf-8")):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=name, names=names, level=level):
                base = absolute(name, level, file, module)
                for alias in names:
                    inner = f"{base}.{alias.name}"
                    yield node.lineno, inner if inner in modules | set(FLOOR) else base
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__")
                | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield node.lineno, name


@cache
def importing(text: str) -> tuple[ast.AST, ...]:
    """The nodes that may import; a text is parsed once for all the copies of it."""
    if "import_module" not in text and "__import__" not in text:
        return tuple(each.node for each in import_statements(text))
    kinds = ast.Import | ast.ImportFrom | ast.Call
    return tuple(n for n in ast.walk(ast.parse(text)) if isinstance(n, kinds))


def absolute(name: str | None, level: int, file: Path, module: str) -> str:
    """`from ..x import y` as a full name; ruff refuses these, a plug-in may not."""
    if not level:
        return name or ""
    package = module.split(".")
    if file.name != "__init__.py":
        package = package[:-1]
    package = package[: len(package) - level + 1]
    return ".".join([*package, *([name] if name else [])])


def declared(pyproject: Path) -> set[str]:
    """Import names of what a distribution requires."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    optional = project.get("optional-dependencies", {})
    wanted = [*project["dependencies"], *optional.get("images", ()),
              *optional.get("text", ())]  # fmt: skip
    names = [re.split(r"[^A-Za-z0-9._-]", d, maxsplit=1)[0] for d in wanted]
    return {IMPORTED_AS.get(name, name.replace("-", "_")) for name in names}


def test_imports_go_down_only() -> None:
    assert faults(ROOT) == []


def test_no_requirement_of_the_core_is_a_framework() -> None:
    assert not declared(ROOT / "core" / "pyproject.toml") & FRAMEWORKS


class House:
    """A copy of the sources, to plant faults in."""

    def __init__(self, root: Path) -> None:
        self.root = root
        leave = shutil.ignore_patterns("__pycache__", "tests", "_template")
        shutil.copytree(ROOT / "core", root / "core", ignore=leave)
        for name in ("amanda-one", "amanda-two", "amanda-std"):
            package = root / "plugins" / name / "src" / name.replace("-", "_")
            package.mkdir(parents=True)
            (package / "__init__.py").write_text("import amanda\n")
        self.before = set(faults(root))

    def planted(self, file: str, text: str) -> list[str]:
        """The faults that come with this text in this file."""
        path = self.root / file
        path.write_text(text)
        found = [fault for fault in faults(self.root) if fault not in self.before]
        assert all(fault.startswith(file) for fault in found)
        return [fault.removeprefix(file) for fault in found]


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


LOW = "core/src/amanda/errors.py"
UPWARD = {
    "at the top": "from amanda.host import Host",
    "module by from": "from amanda import host",
    "inside a function": "def late():\n    import amanda.host",
    "for types only": "if TYPE_CHECKING:\n    from amanda.host import Host",
    "by name": "import_module('amanda.host')",
    "relative": "from .host import Host",
    "the public face": "from amanda import Host",
}


@pytest.mark.parametrize("text", UPWARD.values(), ids=UPWARD)
def test_planted_upward_import(house: House, text: str) -> None:
    line = text.count("\n") + 1
    target = "amanda" if text == UPWARD["the public face"] else "amanda.host"
    why = f"amanda.errors imports {target}, which is not below it"
    assert house.planted(LOW, text) == [f":{line}: {why}"]


def test_planted_sideways_import(house: House) -> None:
    found = house.planted("core/src/amanda/testing/__init__.py", "import amanda.cli")
    assert found == [":1: amanda.testing imports amanda.cli, which is not below it"]


def test_planted_framework_imports(house: House) -> None:
    names = sorted(FRAMEWORKS)
    text = "\n".join(f"def f(): from {name}.x import y" for name in names)
    whys = [f"amanda.errors imports the framework {name}" for name in names]
    assert house.planted(LOW, text) == [f":{i}: {why}" for i, why in enumerate(whys, 1)]


def test_planted_import_of_what_is_no_requirement(house: House) -> None:
    found = house.planted(LOW, "import requests")
    assert found == [":1: amanda.errors imports requests, not a requirement"]


def test_planted_module_without_a_floor(house: House) -> None:
    found = house.planted("core/src/amanda/utils.py", "")
    assert found == [": amanda.utils has no floor"]


@pytest.mark.parametrize("late", [False, True])
def test_planted_plugin_to_plugin_import(house: House, late: bool) -> None:
    text = "def f():\n    import amanda_two.x" if late else "\nfrom amanda_two import x"
    found = house.planted("plugins/amanda-one/src/amanda_one/__init__.py", text)
    why = "amanda_one imports the plug-in amanda_two; ask the host for it"
    assert found == [f":2: {why}"]


@pytest.mark.parametrize("name", sorted(IMPORTED))
def test_what_a_plugin_may_import(house: House, name: str) -> None:
    place = "plugins/amanda-one/src/amanda_one/__init__.py"
    assert house.planted(place, f"import {name}") == []


def test_what_lower_floors_may_know_of_the_package(house: House) -> None:
    assert house.planted(LOW, "from amanda import __version__") == []
