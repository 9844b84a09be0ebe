"""Nothing that is read from a file is unpickled: pickles execute code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.install_independent

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted(
    path
    for folder in ("core/src", *(f"{p}/src" for p in ROOT.glob("plugins/*")))
    for path in (ROOT / folder).rglob("*.py")
)
REFUSED = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}
MENTIONED = re.compile("|".join([*REFUSED, "serialize_executable"]))


def faults(text: str) -> list[int]:
    """The lines of a module that deserialize code."""
    found: list[int] = []
    if not MENTIONED.search(text):
        return found
    for node in ast.walk(ast.parse(text)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        elif isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            plain = isinstance(node.value, ast.Constant) and node.value.value is False
            names = [] if plain else ["pickle"]
        parts = {name.split(".")[0] for name in names}
        if parts & REFUSED or "jax.experimental.serialize_executable" in names:
            found.append(node.lineno if hasattr(node, "lineno") else 0)
    return found


def test_no_source_imports_a_deserializer_of_code() -> None:
    assert len(SOURCES) > 300
    found = {path: faults(path.read_text(encoding="utf-8")) for path in SOURCES}
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "text",
    ["import pickle", "from pickle import loads", "np.load(f, allow_pickle=True)",
     "from jax.experimental.serialize_executable import serialize"],
)  # fmt: skip
def test_they_are_found(text: str) -> None:
    assert faults(text) == [1]
