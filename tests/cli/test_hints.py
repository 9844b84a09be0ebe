"""Hints name what exists: distributions, verbs, and options that the verb has."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest

from amanda.addons import advise_entry, advise_route, advise_suffix, known_addons
from amanda.cli.verb_table import VERBS

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted([*ROOT.glob("core/src/**/*.py"), *ROOT.glob("plugins/*/src/**/*.py")])
ADVICE = {"hint", "to_do", "repair", "problems"}  # arguments and names that hold advice
WORDS = re.compile(rf"\b({'|'.join(ADVICE)})\b|pip install")


class Hint(NamedTuple):
    file: Path
    line: int
    text: str  # `{}` stands for what is computed

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line}"


def texts(node: ast.AST) -> str:
    """Every text in an expression."""
    if isinstance(node, ast.JoinedStr):
        return "".join(
            texts(v) if isinstance(v, ast.Constant) else "{}" for v in node.values
        )
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    return " ".join(texts(child) for child in ast.iter_child_nodes(node))


def advice_in(node: ast.AST) -> ast.AST | None:
    """The expression of the advice that an argument, a name or a function has."""
    if isinstance(node, ast.keyword) and node.arg in ADVICE:
        return node.value
    if isinstance(node, ast.Assign):
        names = {target.id for target in node.targets if isinstance(target, ast.Name)}
        return node.value if names & ADVICE else None
    if isinstance(node, ast.Return) and node.value is not None:
        return node.value if "pip install" in texts(node.value) else None
    return None


def hints() -> Iterator[Hint]:
    for file in SOURCES:
        source = file.read_text(encoding="utf-8")
        if not WORDS.search(source):
            continue
        for node in ast.walk(ast.parse(source)):
            value = advice_in(node)
            if value is not None and (text := texts(value).strip()):
                yield Hint(file, getattr(value, "lineno", 0), text)


HINTS = list(hints())


def projects() -> dict[str, dict[str, Any]]:
    files = [*ROOT.glob("plugins/[!_]*/pyproject.toml"), ROOT / "core/pyproject.toml"]
    files.append(ROOT / "namespaces" / "pyproject.toml")
    tables = (tomllib.loads(file.read_text(encoding="utf-8")) for file in files)
    return {table["project"]["name"]: table["project"] for table in tables}


def command_of(verb: str) -> click.Command:
    command: click.Command = importlib.import_module(f"amanda.cli.verbs.{verb}").command
    return command


def options_of(command: click.Command) -> set[str]:
    names = {"--help", "--json"}
    for parameter in command.params:
        names.update(parameter.opts)
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            names |= options_of(inner)
    return names


def test_there_are_hints() -> None:
    assert len(HINTS) > 150
    assert sum("pip install" in hint.text for hint in HINTS) >= 6


def test_what_is_advised_to_install_exists() -> None:
    known = projects()
    wrong = []
    for hint in HINTS:
        for words in re.findall(r"pip install ((?:--\S+ )*[^;,)`]+)", hint.text):
            for word in re.findall(r"[A-Za-z][\w.-]*(?:\[[\w-]+\])?", words):
                if not word.startswith("amanda"):
                    continue
                dist, _, extra = word.rstrip("]").partition("[")
                extras = known.get(dist, {}).get("optional-dependencies", {})
                if dist not in known or (extra and extra not in extras):
                    wrong.append(f"{hint}: {word}")
    assert wrong == []


def test_verbs_in_hints_exist_and_have_the_options() -> None:
    theirs = {row.name for row in known_addons() if row.kind == "commands"}
    wrong = []
    for hint in HINTS:
        for verb, rest in re.findall(r"\bamanda ([a-z]+)\b([^`;]*)", hint.text):
            if verb in theirs:
                continue
            options = set(re.findall(r"--[a-z][a-z-]*", rest))
            if verb not in VERBS or not options <= options_of(command_of(verb)):
                wrong.append(f"{hint}: amanda {verb}{rest}")
    assert wrong == []


def verbs_that_import(file: Path) -> set[str]:
    """The verbs that import a module of the command line, others between or not."""
    found: set[str] = set()
    name = f"amanda.cli.{file.parent.name}.{file.stem} import"
    for other in (ROOT / "core" / "src" / "amanda" / "cli").glob("*/*.py"):
        if name in other.read_text(encoding="utf-8"):
            is_verb = other.parent.name == "verbs"
            found |= {other.stem} if is_verb else verbs_that_import(other)
    return found


def options_of_plugin(file: Path) -> set[str]:
    """The options that the modules of a plug-in declare."""
    folder = ROOT / "plugins" / file.relative_to(ROOT / "plugins").parts[0] / "src"
    texts = (each.read_text(encoding="utf-8") for each in folder.rglob("verbs/*.py"))
    return {option for text in texts for option in re.findall(r'"(--[a-z-]+)"', text)}


def test_options_in_hints_are_those_of_the_verb() -> None:
    """A hint in the module of a verb names its options; one in a module that verbs
    share, those of each; one in a plug-in, those of its verbs; others name none."""
    wrong = []
    for hint in HINTS:
        folder = ROOT / "core" / "src" / "amanda" / "cli"
        text = re.sub(r"`[^`]*`|pip install \S+|=--\S+", "", hint.text)
        options = set(re.findall(r"(?<!\S)--[a-z][a-z-]*", text))
        if "amanda " in text or not options or "dictionaries_dev" in str(hint.file):
            continue
        if ROOT / "plugins" in hint.file.parents:
            if not options <= options_of_plugin(hint.file):
                wrong.append(f"{hint}: {', '.join(sorted(options))}")
            continue
        if hint.file.parent == folder / "verbs":
            verbs = {hint.file.stem}
        else:
            is_shared = folder in hint.file.parents
            verbs = verbs_that_import(hint.file) if is_shared else set()
            verbs = set(VERBS) if hint.file.parent == folder else verbs
        known = [options_of(command_of(verb)) for verb in verbs if verb in VERBS]
        if not known or not all(options <= each for each in known):
            wrong.append(f"{hint}: {', '.join(sorted(options))} in {verbs}")
    assert wrong == []


def test_the_list_of_known_plugins_is_current() -> None:
    """`python tools/addon_table.py` writes it."""
    file = ROOT / "tools" / "addon_table.py"
    spec = importlib.util.spec_from_file_location("addon_table", file)
    assert spec is not None
    assert spec.loader is not None
    table = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(table)
    current = table.FILE.read_text(encoding="utf-8") == table.file_text()
    assert current, "run: python tools/addon_table.py"


def test_what_is_missing_is_advised_and_what_is_installed_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("amanda.addons._is_installed", lambda dist: False)
    assert advise_entry("backends", "jax") == "pip install amanda-jax"
    assert advise_entry("backends", "acme") is None
    assert advise_suffix("a.ONNX") == "pip install amanda-onnx"
    assert advise_route("amanda/onnx", "amanda/std") == "pip install amanda-onnx"
    assert advise_route("amanda/jax", "amanda/onnx") == (
        "pip install amanda-jax amanda-onnx"
    )
    assert advise_route("amanda/tensorflow", "amanda/std") == "pip install amanda-tf"
    assert advise_suffix("a.keras") == "pip install amanda-keras"
    assert advise_route("amanda/tflite", "amanda/std") is None
    monkeypatch.setattr(
        "amanda.addons._is_installed", lambda dist: dist != "amanda-jax"
    )
    assert advise_entry("backends", "numpy") is None
    assert advise_route("amanda/jax", "amanda/onnx") == "pip install amanda-jax"
