"""`import amanda` offers the names of one table, typed alike, and loads nothing."""

from __future__ import annotations

import ast
import pickle
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import amanda

SOURCE = Path(amanda.__file__)

# What neither `import amanda` nor `amanda --help` may load, and why nobody would notice
# until it costs a second: each is imported on first use.
HEAVY = {
    "google.protobuf",
    "grpc",
    "ml_dtypes",
    "msgspec",
    "numpy",
    "pluggy",
    "rich",
    "safetensors",
    "yaml",
}
LIGHT_CALLS = {
    "import": "import amanda",
    "help": "from amanda.cli import main; main(['--help'])",
    "version": "from amanda.cli import main; main(['--version'])",
    "verb help": "from amanda.cli import main; main(['show', '--help'])",
}


def type_checking_names() -> dict[str, str]:
    """Name -> module, as the `if TYPE_CHECKING` block imports them."""
    tree = ast.parse(SOURCE.read_text(encoding="utf-8"))
    blocks = [node for node in tree.body if isinstance(node, ast.If)]
    (block,) = [b for b in blocks if ast.unparse(b.test) == "TYPE_CHECKING"]
    found = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        for alias in node.names:
            inside = f"amanda.{alias.name}" if node.module == "amanda" else node.module
            found[alias.name] = str(inside)
    return found


def test_table_and_type_checkers_agree() -> None:
    assert type_checking_names() == amanda._HOME


def test_all_lists_the_table() -> None:
    assert amanda.__all__ == sorted({*amanda._HOME, "__version__"})


@pytest.mark.parametrize("name", amanda.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(amanda, name) is not None
    assert name in dir(amanda)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(
        AttributeError, match=r"^module 'amanda' has no attribute 'lod'$"
    ):
        amanda.lod  # noqa: B018  the question is the test


def test_no_submodule_takes_the_name_of_a_function() -> None:
    """Importing `amanda.x` binds `amanda.x`: it would replace what the face says."""
    here = {path.stem for path in SOURCE.parent.iterdir()}
    assert not here & (set(amanda._HOME) - set(amanda._MODULES))


def test_classes_survive_pickling_by_their_public_name() -> None:
    assert pickle.loads(pickle.dumps(amanda.Graph)) is amanda.Graph


def test_version_stands_in_one_place() -> None:
    assert version("amanda-core") == amanda.__version__


@pytest.mark.parametrize("call", LIGHT_CALLS.values(), ids=LIGHT_CALLS)
def test_loads_nothing_heavy(call: str) -> None:
    """In a new interpreter: no library of `HEAVY`, and no plug-in."""
    code = (
        "import sys\n"
        "try:\n"
        f"    {call}\n"
        "except SystemExit:\n"
        "    pass\n"
        "print('loaded:', *sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    loaded = set(done.stderr.rpartition("loaded: ")[2].split())
    assert "amanda" in loaded
    assert not loaded & HEAVY
    assert not {name for name in loaded if name.startswith("amanda_")}
