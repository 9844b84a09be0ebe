"""Names of the hub's ops stand in their definitions, in rules and in kernel tables.

What passes and backends must know of an op is a trait on its definition, so that a new
op needs no entry in a list elsewhere. Counted are op names in comparisons with an op's
type and in tuples, sets and lists of nothing but op names.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ops = pytest.importorskip("amanda_std").ops
ROOMS = ["plugins/amanda-std/src/amanda_std", "plugins/amanda-jax/src/amanda_jax"]
MOST = 5  # names in all rooms together
# Tables of rules and kernels, where op names are keys, and what formats and stacked
# arrays are made of.
TABLES = (
    "ops/", "kernels/", "formats/", "padding_rules", "numpy_kernels", "input_ranges/",
    "passes/fusion", "dataflow/stacked_array",
)  # fmt: skip


def op_names(file: Path) -> Iterator[tuple[int, str]]:
    """Line and name of each op named in a comparison or a collection of names."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    exports = [n.value for n in tree.body if isinstance(n, ast.Assign) and _is_all(n)]
    for node in ast.walk(tree):
        names: list[ast.expr] = []
        if isinstance(node, ast.Compare) and ast.unparse(node.left).endswith(".type"):
            for each in node.comparators:
                names += each.elts if isinstance(each, ast.Tuple) else [each]
        elif (
            isinstance(node, ast.Tuple | ast.Set | ast.List)
            and len(node.elts) > 1
            and node not in exports
        ):
            names = node.elts
            if not all(map(_is_op, names)):
                continue
        yield from ((n.lineno, n.value) for n in names if _is_op(n))  # type: ignore[attr-defined]


def _is_all(node: ast.Assign) -> bool:
    return ast.unparse(node.targets[0]) == "__all__"


def _is_op(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in ops.OPS


def test_ops_are_known_by_their_traits() -> None:
    found = {
        (str(file.relative_to(ROOT)), line, name)
        for room in ROOMS
        for file in sorted((ROOT / room).rglob("*.py"))
        if not any(table in str(file.relative_to(ROOT / room)) for table in TABLES)
        for line, name in op_names(file)
    }
    assert len({name for *_, name in found}) <= MOST, sorted(found)


def test_planted_names(tmp_path: Path) -> None:
    file = tmp_path / "x.py"
    file.write_text('if op.type == "conv": ...\nS = ("add", "tanh")\nR = {"exp": f}\n')
    assert list(op_names(file)) == [(1, "conv"), (2, "add"), (2, "tanh")]
