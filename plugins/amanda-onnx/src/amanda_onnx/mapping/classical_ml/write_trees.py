"""To ONNX: ops of ai.onnx.ml, where a graph imports it.

Trees, tables of categories and maps come back whole. What else the domain has means a
few ops of ONNX itself, and is written so, except maps, which nothing else makes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from amanda.mapping import Decline, constant_of
from amanda.tensors import Tensor
from amanda.types import MapType
from amanda_std.mappings import TREE_AGGREGATIONS, TREE_COMPARISONS

__all__ = ["WRITE"]

_ML = "ai.onnx.ml"
_SINCE = 5
"""The version of the domain that has TreeEnsemble in place of what was before it."""
_TENSORS = 4
"""The version whose LabelEncoder takes tensors, and finds NaN among its keys."""
_MODES = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ")
_CODES = {"sum": 1, "average": 0, "min": 2, "max": 3}
_SILENT = {"sum": 0.0, "average": 0.0, "min": float("inf"), "max": -float("inf")}
"""What a leaf has for a target to which it says nothing."""
_LISTS = {"float32": "floats", "int64": "int64s", "string": "strings"}


def _version(o: Any, name: str) -> int:
    """The version of the domain; Decline where nobody imports it."""
    if o.side.signature(f"{_ML}.{name}") is None:
        raise Decline(f"the graph does not import {_ML}, which has {name}")
    return int(o.side.domains[_ML])


def _known(value: Any, what: str) -> Tensor:
    tensor = constant_of(value)
    if tensor is None:
        raise Decline(f"{what} are no constant")
    return tensor


# -- trees -------------------------------------------------------------------------


class _Forest:
    """Nodes by rows, as the hub set has them, and which of them a tree has."""

    def __init__(self, rows: Sequence[Any], asks: Any, lost: Any, compare: str) -> None:
        found = [_known(value, "nodes of trees").tolist() for value in rows]
        self.roots, self.feature, self.split, self.yes, self.no, self.says = found
        count = len(self.yes)
        one = TREE_COMPARISONS.index(compare)
        self.asks = [one] * count if asks is None else _known(asks, "nodes").tolist()
        self.lost = [False] * count if lost is None else _known(lost, "nodes").tolist()

    def is_leaf(self, node: int) -> bool:
        return bool(self.yes[node] == node and self.no[node] == node)

    def tree(self, root: int) -> list[int]:
        """Its nodes, the root first; a leaf as often as a way leads to it. Decline
        where two ways lead to one node that asks."""
        found, waiting, asked = [], [root], set()
        while waiting:
            node = waiting.pop()
            found.append(node)
            if self.is_leaf(node):
                continue
            if node in asked:
                raise Decline("two ways that lead to one node of a tree")
            asked.add(node)
            waiting += [self.no[node], self.yes[node]]
        return found

    def expect_ends(self, steps: int) -> None:
        """Decline where so many steps end before a leaf: ONNX goes on to one."""
        reached = set(self.roots)
        for _ in range(min(steps, len(self.yes))):
            reached = {n for at in reached for n in (self.yes[at], self.no[at])}
        if not all(map(self.is_leaf, reached)):
            raise Decline(f"{steps} steps, which end before a leaf")

    def said(self, leaf: int, join: str) -> list[tuple[int, float]]:
        """To which targets a leaf says something, and what."""
        return [(k, v) for k, v in enumerate(self.says[leaf]) if v != _SILENT[join]]

    def expect_answers(self, join: str, targets: int) -> None:
        """Decline where the least or the largest may be that of nothing.

        Then onnx's reference says the largest or the least number there is, as the
        hub set does, and onnxruntime 0. So each target needs a tree of which every
        leaf says something to it. What is not finite is compared in different ways,
        too."""
        leaves = [
            {n for n in self.tree(root) if self.is_leaf(n)} for root in self.roots
        ]
        told = (v for each in leaves for n in each for _, v in self.said(n, join))
        if not all(np.isfinite(v) for v in told):
            raise Decline(f"the {join} of numbers that are not finite")
        heard: set[int] = set()
        for each in leaves:
            sets = [{k for k, _ in self.said(n, join)} for n in each]
            heard |= set.intersection(*sets)
        if len(heard) < targets:
            raise Decline(f"the {join} of what no tree may say")


def tree_ensemble(
    o: Any, x: Any, roots: Any, feature: Any, split: Any, yes: Any, no: Any,
    says: Any, asks: Any = None, lost: Any = None, *, depth: int,
    compare: str = "less_equal", join: str = "sum",
) -> Any:  # fmt: skip
    newest = o.side.domains.get(_ML, 0) >= _SINCE
    _version(o, "TreeEnsemble" if newest else "TreeEnsembleRegressor")
    forest = _Forest((roots, feature, split, yes, no, says), asks, lost, compare)
    forest.expect_ends(depth)
    targets = int(says.type.shape.dims[1])
    if join in ("min", "max"):
        forest.expect_answers(join, targets)
    if newest:
        return _ensemble(o, x, forest, join, targets)
    if str(x.type.dtype) != "float32":
        raise Decline("TreeEnsembleRegressor answers in float32")
    how = _regressor(forest, join)
    return o.op(f"{_ML}.TreeEnsembleRegressor", x, n_targets=targets, **how)


def _regressor(forest: _Forest, join: str) -> dict[str, Any]:
    """By tree and number of the node; leaves are nodes."""
    nodes = [(t, n) for t, root in enumerate(forest.roots) for n in forest.tree(root)]
    if len(set(nodes)) != len(nodes):
        raise Decline("two ways that lead to one leaf of a tree")
    said = [
        (t, n, k, v)
        for t, n in nodes
        if forest.is_leaf(n)
        for k, v in forest.said(n, join)
    ]
    if not said:
        raise Decline("trees that say nothing")
    inner = [not forest.is_leaf(n) for _, n in nodes]
    rows = list(zip(nodes, inner, strict=True))
    how: dict[str, Any] = {
        "nodes_treeids": [t for t, _ in nodes],
        "nodes_nodeids": [n for _, n in nodes],
        "nodes_featureids": [forest.feature[n] if i else 0 for (_, n), i in rows],
        "nodes_values": [float(forest.split[n]) if i else 0.0 for (_, n), i in rows],
        "nodes_modes": [
            f"BRANCH_{_MODES[forest.asks[n]]}" if i else "LEAF" for (_, n), i in rows
        ],
        "nodes_truenodeids": [forest.yes[n] if i else 0 for (_, n), i in rows],
        "nodes_falsenodeids": [forest.no[n] if i else 0 for (_, n), i in rows],
        "aggregate_function": join.upper(),
    }
    if any(forest.lost):
        how["nodes_missing_value_tracks_true"] = [int(forest.lost[n]) for _, n in nodes]
    names = ("treeids", "nodeids", "ids", "weights")
    parts = zip(*said, strict=True)
    return how | {f"target_{n}": list(p) for n, p in zip(names, parts, strict=True)}


def _ensemble(o: Any, x: Any, forest: _Forest, join: str, targets: int) -> Any:
    """Nodes and leaves stand in rows of their own; a leaf says one number."""
    trees = [forest.tree(root) for root in forest.roots]
    nodes = [n for tree in trees for n in tree if not forest.is_leaf(n)]
    at = {n: i for i, n in enumerate(nodes)}
    if len(at) != len(nodes) or any(forest.is_leaf(root) for root in forest.roots):
        raise Decline("trees that share nodes, or one that is a leaf")
    how: dict[str, Any] = {"n_targets": targets, "aggregate_function": _CODES[join]}
    said: list[tuple[int, float]] = []
    for name, way in (("true", forest.yes), ("false", forest.no)):
        ends = [forest.is_leaf(way[n]) for n in nodes]
        how[f"nodes_{name}leafs"] = [int(end) for end in ends]
        ids = how[f"nodes_{name}nodeids"] = []
        for n, end in zip(nodes, ends, strict=True):
            ids.append(len(said) if end else at[way[n]])
            if end:
                said.append(_one(forest.said(way[n], join), join))
    if any(forest.lost[n] for n in nodes):
        how["nodes_missing_value_tracks_true"] = [int(forest.lost[n]) for n in nodes]
    dtype = x.type.dtype.numpy
    return o.op(
        f"{_ML}.TreeEnsemble", x,
        tree_roots=[at[root] for root in forest.roots],
        nodes_featureids=[forest.feature[n] for n in nodes],
        nodes_splits=Tensor.of(np.asarray([forest.split[n] for n in nodes], dtype)),
        nodes_modes=Tensor.of(np.asarray([forest.asks[n] for n in nodes], "uint8")),
        leaf_targetids=[target for target, _ in said],
        leaf_weights=Tensor.of(np.asarray([weight for _, weight in said], dtype)),
        **how,
    )  # fmt: skip


def _one(said: list[tuple[int, float]], join: str) -> tuple[int, float]:
    """What a leaf says; of one that says nothing, 0 where that changes nothing."""
    if not said and join in ("sum", "average"):
        return 0, 0.0
    if len(said) != 1:
        raise Decline("a leaf of TreeEnsemble says one number")
    return said[0]


# -- categories --------------------------------------------------------------------


def lookup(o: Any, x: Any, keys: Any, values: Any, otherwise: Any) -> Any:
    """Categories by their keys. Doubles and small integers are told as tensors."""
    version = _version(o, "LabelEncoder")
    told = [_known(v, "categories") for v in (keys, values, otherwise)]
    if x.type.dtype != told[0].dtype:
        raise Decline("data of another element type than the categories")
    kinds = [str(t.dtype) for t in told[:2]]
    if version < _TENSORS and kinds[0] == "float32" and np.isnan(told[0].numpy()).any():
        raise Decline(f"LabelEncoder of {_ML} {version} finds no NaN")
    how: dict[str, Any] = {}
    if version >= 2 and all(kind in _LISTS for kind in kinds):
        for part, tensor in zip(("keys", "values"), told, strict=False):
            how[f"{part}_{_LISTS[str(tensor.dtype)]}"] = _items(tensor)
        name = _LISTS[kinds[1]].removesuffix("s")
        how[f"default_{name}"] = _items(told[2])[0]
    elif version >= _TENSORS:
        how = {"keys_tensor": told[0], "values_tensor": told[1]}
        how["default_tensor"] = Tensor.of(told[2].numpy().reshape(1), told[2].dtype)
    else:
        raise Decline(f"LabelEncoder of {_ML} {version} from {kinds[0]} to {kinds[1]}")
    return o.op(f"{_ML}.LabelEncoder", x, **how)


def equal(o: Any, a: Any, b: Any) -> Any:
    """Texts beside constant ones, in opsets that do not compare texts, by numbers."""
    if str(a.type.dtype) != "string" or _version(o, "LabelEncoder") < 2:
        raise Decline("there is no Equal of this element type")
    known = next((v for v in (b, a) if constant_of(v) is not None), None)
    if known is None:
        raise Decline("no Equal of two texts that are computed")
    words = sorted(set(_items(_known(known, "texts"))))
    how = {"keys_strings": words, "values_int64s": list(range(1, len(words) + 1))}
    one, other = (
        o.op(f"{_ML}.LabelEncoder", v, default_int64=-1 if v is known else 0, **how)
        for v in (a, b)
    )
    return o.Equal(one, other)


def _items(tensor: Tensor) -> list[Any]:
    flat = np.asarray(tensor.numpy()).reshape(-1).tolist()
    return [v.decode() if isinstance(v, bytes) else v for v in flat]


# -- maps --------------------------------------------------------------------------


def map_rows(o: Any, keys: Any, x: Any) -> Any:
    _version(o, "ZipMap")
    tensor = _known(keys, "keys of maps")
    if str(x.type.dtype) != "float32":
        raise Decline("ZipMap makes maps of float32")
    kind = "strings" if str(tensor.dtype) == "string" else "int64s"
    return o.op(f"{_ML}.ZipMap", x, **{f"classlabels_{kind}": _items(tensor)})


def map_vectorize(o: Any, m: Any, *, vocabulary: Any) -> Any:
    _version(o, "DictVectorizer")
    is_text = bool(vocabulary) and isinstance(vocabulary[0], str | bytes)
    name = "string_vocabulary" if is_text else "int64_vocabulary"
    row = o.op(f"{_ML}.DictVectorizer", m, **{name: list(vocabulary)})
    return o.Reshape(row, [-1])


def map_values(o: Any, m: Any) -> Any:
    """The op sorts by keys, which are integers, and answers in one row."""
    _version(o, "CastMap")
    found = m.type
    if not isinstance(found, MapType) or str(found.key) != "int64":
        raise Decline("CastMap takes maps of integers")
    kinds = {"float32": "TO_FLOAT", "string": "TO_STRING"}
    value = str(getattr(found.value, "dtype", None))
    if value not in kinds:
        raise Decline(f"CastMap takes no maps to {value}")
    row = o.op(f"{_ML}.CastMap", m, cast_to=kinds[value])
    return o.Reshape(row, [-1])


assert set(_CODES) == set(TREE_AGGREGATIONS)

WRITE: dict[str, Any] = {
    "equal": equal,
    "lookup": lookup,
    "map_rows": map_rows,
    "map_values": map_values,
    "map_vectorize": map_vectorize,
    "tree_ensemble": tree_ensemble,
}
