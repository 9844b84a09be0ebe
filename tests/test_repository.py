"""What holds for the repository as a whole, and is kept by no single module."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import shutil
import statistics
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest
from source_trees import statements

import amanda

pytestmark = pytest.mark.install_independent

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("benchmarks", "core", "examples", "namespaces", "plugins", "tests", "tools")
MADE = {".venv", ".tox", "build", "dist", "__pycache__"}

FILE_LINES = 600
FOLDER_FILES = 20
CROWDED = {  # to be divided; this must shrink to nothing
    "plugins/amanda-onnx/tests",
    "plugins/amanda-std/tests",
}
LONE_PARTICIPLES = 3  # functions still named by one; lower it as they are renamed
# Words that are names of functions nonetheless: imperatives, nouns, mathematical terms.
VERBS = {
    *("children", "cut", "embed", "feed", "flatten", "need", "open", "put"),
    *(
        "read",
        "run",
        "searchsorted",
        "set",
        "shorten",
        "split",
        "token",
        "when",
        "widen",
    ),
}
NO_NAMES = {  # beside all words that end in -ed or -en
    *("alike", "always", "apart", "bare", "beside", "between", "both", "bound"),
    *("drawn", "due", "each", "every", "found", "held", "kept", "known", "laid"),
    *("left", "lying", "made", "meant", "met", "never", "once", "only", "other"),
    *("others", "own", "plain", "said", "shown", "spread", "such", "told", "whole"),
}
FUNCTION_LINES = 60  # the aim is 40, a reader's screen; this is where it stops


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TOOL = load(ROOT / "tools" / "dists.py")
DISTS = TOOL.dists()


def python_files() -> Iterator[Path]:
    for folder in SOURCES:
        for file in sorted((ROOT / folder).rglob("*.py")):
            if not MADE.intersection(file.parts) and not file.stem.endswith("_pb2"):
                yield file


class Function(NamedTuple):
    """A function, nested ones too, in a source file."""

    name: str
    lines: int
    """Without its docstring."""
    line: int
    is_constructor: bool
    """Or static: it is read together with its class, as `Sym.named` is."""


@cache
def functions(file: Path) -> list[Function]:
    found = []
    for node in statements(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            told = ast.get_docstring(node) is not None
            doc = (first.end_lineno or 0) - first.lineno + 1 if told else 0
            length = (node.end_lineno or 0) - node.lineno + 1 - doc
            decorators = {getattr(each, "id", "") for each in node.decorator_list}
            without_self = bool(decorators & {"classmethod", "staticmethod"})
            found.append(Function(node.name, length, node.lineno, without_self))
    return found


def test_files_fit_a_reader() -> None:
    lines = {f: len(f.read_text(encoding="utf-8").splitlines()) for f in python_files()}
    long = {str(f.relative_to(ROOT)): n for f, n in lines.items() if n >= FILE_LINES}
    assert long == {}


def test_functions_fit_a_screen() -> None:
    long = [
        f"{file.relative_to(ROOT)}: {each.name} {each.lines}"
        for file in python_files()
        for each in functions(file)
        if each.lines > FUNCTION_LINES
    ]
    assert long == []


def test_functions_are_short() -> None:
    found = (each.lines for file in python_files() for each in functions(file))
    assert statistics.median(found) <= 10


def test_folders_fit_a_list() -> None:
    found = Counter(str(f.parent.relative_to(ROOT)) for f in python_files())
    assert {name for name, n in found.items() if n > FOLDER_FILES} <= CROWDED


def lone_participles(file: Path) -> Iterator[str]:
    """Functions named by one participle or pronoun, such as `told`."""
    for each in functions(file):
        word = each.name.removeprefix("_")
        is_participle = re.fullmatch("[a-z]+e[dn]", word) and word not in VERBS
        if not each.is_constructor and (word in NO_NAMES or is_participle):
            yield f"{each.name}:{each.line}"


def test_functions_are_named_by_verbs_or_results() -> None:
    sources = [f for f in python_files() if "src" in f.relative_to(ROOT).parts]
    found = {str(f.relative_to(ROOT)): list(lone_participles(f)) for f in sources}
    assert sum(map(len, found.values())) <= LONE_PARTICIPLES, found


@pytest.mark.parametrize("dist", DISTS.values(), ids=DISTS)
def test_distribution(dist: ModuleType) -> None:
    """Typed, licensed, with a readme, for the Pythons we test.

    Built by hatchling, or by scikit-build-core where a library is compiled."""
    packages = [p.parent for p in dist.folder.glob("src/*/__init__.py")]
    assert packages
    assert all((package / "py.typed").is_file() for package in packages)
    assert (dist.folder / "README.md").is_file()
    licence = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert (dist.folder / "LICENSE").read_text(encoding="utf-8") == licence
    file = (dist.folder / "pyproject.toml").read_text(encoding="utf-8")
    whole = tomllib.loads(file)
    backend = "scikit_build_core.build" if dist.compilation else "hatchling.build"
    assert dist.build_system["build-backend"] == backend
    assert dist.project["license"] == "Apache-2.0"
    assert dist.project["requires-python"] == ">=3.11"
    tools = {"amanda", "scikit-build"} if dist.compilation else {"hatch"}
    assert not set(whole.get("tool", {})) - tools  # settings stand once, at the root


def test_settings_name_no_plugin() -> None:
    """Adding a plug-in touches no list: these are what they would have to stand in."""
    names = set(DISTS) - {"amanda-core", "amanda-namespaces"}
    for file in (
        "pyproject.toml",
        "tox.ini",
        "toxfile.py",
        ".ci/run",
        "tools/dists.py",
    ):
        text = (ROOT / file).read_text(encoding="utf-8")
        assert [name for name in names if name in text] == []


def test_manifests_list_the_environment_variables_that_sources_read() -> None:
    """`amanda doctor` reports all others as unknown."""
    manifests = ROOT.rglob("src/*/amanda-plugin.toml")
    tables = [tomllib.loads(path.read_text(encoding="utf-8")) for path in manifests]
    listed = {name for table in tables for name in table.get("settings", {})}
    sources = [file for file in python_files() if "src" in file.parts]
    quoted = re.compile(r"\"(AMANDA_(?!TEST_|FUZZ_)\w+)\"")
    texts = (file.read_text(encoding="utf-8") for file in sources)
    read = {name for text in texts for name in quoted.findall(text)}
    assert len(sources) > 1000
    assert read == listed


def test_a_new_plugin_is_found(tmp_path: Path) -> None:
    for name in ("amanda-fresh", "_template"):
        folder = tmp_path / "plugins" / name
        folder.mkdir(parents=True)
        text = f'[project]\nname = "{name}"\ndependencies = ["amanda-core>=0.1"]\n'
        (folder / "pyproject.toml").write_text(text)
    shutil.copytree(ROOT / "core", tmp_path / "core", ignore=lambda *_: ["src"])
    known = TOOL.dists(tmp_path)
    assert list(known) == ["amanda-core", "amanda-fresh"]
    chosen = TOOL.with_required(["plugin-amanda-fresh"], known)
    assert [dist.name for dist in chosen] == ["amanda-fresh", "amanda-core"]


COMPILED = """
[project]
name = "amanda-fresh"
[tool.amanda.compiled]
environment = "sys_platform {sign} '{platform}'"
compilers = {{ FRESH_CC = "{compiler}" }}
"""


@pytest.mark.parametrize(
    ("sign", "compiler", "why"),
    [
        ("==", "python", None),
        ("!=", "python", f"it is built where sys_platform != '{sys.platform}'"),
        ("==", "nocc", "there is no compiler nocc; FRESH_CC may name one"),
    ],
)
def test_where_a_library_cannot_be_compiled(
    sign: str,
    compiler: str,
    why: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "python").touch(0o755)
    text = COMPILED.format(sign=sign, platform=sys.platform, compiler=compiler)
    (tmp_path / "pyproject.toml").write_text(text)
    dist = TOOL.Dist(tmp_path)
    assert TOOL.without_obstacles([dist]) == ([] if why else [dist])
    expected = f"amanda-fresh is left out: {why}\n" if why else ""
    assert capsys.readouterr().out == expected
    monkeypatch.setenv("FRESH_CC", f"{tmp_path / 'python'} -O2")
    if compiler == "nocc":
        assert TOOL.obstacle(dist) is None


def test_index_of_the_dictionaries() -> None:
    folder = ROOT / "namespaces" / "src" / "amanda_namespaces"
    index = json.loads((folder / "index.json").read_text(encoding="utf-8"))
    assert set(index) == {"schema", "namespaces"}
    assert index["schema"] == 1


CHANGE = re.compile(r"\d{4}-[a-z0-9-]+\.md")
KINDS = {"added", "changed", "fixed", "removed", "security"}


def test_changes_are_fragments() -> None:
    """One file per change: a kind, and what a user sees of it."""
    files = [f for f in (ROOT / "changes").iterdir() if f.name != "README.md"]
    assert files
    numbers = [f.name[:4] for f in files]
    assert len(numbers) == len(set(numbers))
    for file in files:
        assert CHANGE.fullmatch(file.name), file.name
        kind, _, text = file.read_text(encoding="utf-8").partition(": ")
        assert kind in KINDS, file.name
        assert text.strip(), file.name


def test_the_guide_lists_the_public_face() -> None:
    """docs/guide.md has one table of names; it and `__all__` are the same."""
    text = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
    section = text.partition("## Public names")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    listed = [name for row in rows for name in re.findall(r"`amanda\.(\w+)`", row)]
    assert sorted(listed) == sorted(amanda.__all__)


@pytest.mark.parametrize("page", ["README.md", "docs/guide.md", "docs/README.md"])
def test_links_lead_somewhere(page: str) -> None:
    file = ROOT / page
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", file.read_text(encoding="utf-8"))
    assert [link for link in links if not (file.parent / link).exists()] == []


@pytest.mark.parametrize(
    ("example", "source", "tests"),
    [("lark-plugin", 250, 85), ("torch-backend", 185, None)],
)
def test_examples_are_short(example: str, source: int, tests: int | None) -> None:
    """What a plug-in author reads first: a whole framework, and a hub backend."""
    folder = ROOT / "examples" / example

    def lines(where: str) -> int:
        files = [f for f in (folder / where).rglob("*") if f.is_file()]
        files = [f for f in files if f.suffix in (".py", ".rules", ".proto")]
        return sum(len(f.read_text(encoding="utf-8").splitlines()) for f in files)

    assert lines("src") < source
    assert tests is None or lines("tests") < tests


def test_the_table_of_onnxruntime_is_that_of_the_scoreboard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`python tools/runtime_cases.py` writes it; a case without a cause is an error."""
    monkeypatch.syspath_prepend(ROOT)
    cases = import_module("tools.runtime_cases")
    current = cases.README.read_text(encoding="utf-8") == cases.updated_readme()
    assert current, "run: python tools/runtime_cases.py"
    with pytest.raises(SystemExit, match="no pattern of CAUSES matches test_other"):
        cases.cause_of("test_other")
