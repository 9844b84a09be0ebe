"""To ONNX: tree ensembles of ai.onnx.ml, where the graph imports that domain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from amanda.mapping import Decline
from amanda.tensors import Tensor
from amanda_onnx.mapping.classical_ml.write_encoders import (
    constant_tensor,
    expect_ml_op,
)
from amanda_std.mappings import TREE_AGGREGATIONS, TREE_COMPARISONS, tensor_type_of

__all__ = ["WRITE"]

_ML = "ai.onnx.ml"
_TREE_ENSEMBLE_SINCE = 5
"""The version that has TreeEnsemble instead of TreeEnsembleRegressor."""
_MODES = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ")
_AGGREGATES = {"sum": 1, "average": 0, "min": 2, "max": 3}
_NEUTRAL = {"sum": 0.0, "average": 0.0, "min": float("inf"), "max": -float("inf")}
"""The weight in std of a leaf for a target that it has no weight for."""


class _Forest:
    """The nodes of all trees, in rows as std has them."""

    def __init__(
        self, rows: Sequence[Any], modes: Any, missing: Any, compare: str
    ) -> None:
        found = [constant_tensor(value, "nodes of trees").tolist() for value in rows]
        self.roots, self.feature, self.split = found[:3]
        self.true_child, self.false_child, self.weights = found[3:]
        count = len(self.true_child)
        self.modes = [TREE_COMPARISONS.index(compare)] * count
        if modes is not None:
            self.modes = constant_tensor(modes, "modes of nodes").tolist()
        self.missing_is_true = [False] * count
        if missing is not None:
            self.missing_is_true = constant_tensor(missing, "flags of nodes").tolist()

    def is_leaf(self, node: int) -> bool:
        return bool(self.true_child[node] == node and self.false_child[node] == node)

    def tree(self, root: int) -> list[int]:
        """Its nodes, the root first; a leaf once for each way that leads to it.

        Decline where two ways lead to one inner node.
        """
        found, waiting, inner = [], [root], set()
        while waiting:
            node = waiting.pop()
            found.append(node)
            if self.is_leaf(node):
                continue
            if node in inner:
                raise Decline("trees that share a subtree")
            inner.add(node)
            waiting += [self.false_child[node], self.true_child[node]]
        return found

    def expect_depth(self, steps: int) -> None:
        """Decline where evaluation in std stops before a leaf, which ONNX does not."""
        level = set(self.roots)
        for _ in range(min(steps, len(self.true_child))):
            level = {
                n for i in level for n in (self.true_child[i], self.false_child[i])
            }
        if not all(map(self.is_leaf, level)):
            raise Decline(f"depth={steps} ends before a leaf")

    def leaf_weights(self, leaf: int, aggregate: str) -> list[tuple[int, float]]:
        """The targets that a leaf has a weight for, and the weights."""
        pairs = enumerate(self.weights[leaf])
        return [(k, v) for k, v in pairs if v != _NEUTRAL[aggregate]]

    def expect_extrema(self, aggregate: str, targets: int) -> None:
        """Decline where the minimum or maximum may be that of no weight.

        Of none, onnx's reference and std return the largest or smallest number, and
        onnxruntime 0. So for each target there must be a tree all of whose leaves have
        a weight for it. Weights that are not finite are compared differently, too.
        """
        trees = [{n for n in self.tree(root) if self.is_leaf(n)} for root in self.roots]
        rows = (self.leaf_weights(n, aggregate) for leaves in trees for n in leaves)
        if not all(np.isfinite(v) for row in rows for _, v in row):
            raise Decline(f"the {aggregate} of weights that are not finite")
        covered: set[int] = set()
        for leaves in trees:
            sets = [{k for k, _ in self.leaf_weights(n, aggregate)} for n in leaves]
            covered |= set.intersection(*sets)
        if len(covered) < targets:
            raise Decline(f"the {aggregate} of targets without weights in some leaves")


def write_tree_ensemble(
    o: Any, x: Any, roots: Any, feature: Any, split: Any, true_child: Any,
    false_child: Any, weights: Any, modes: Any = None, missing: Any = None, *,
    depth: int, compare: str = "less_equal", join: str = "sum",
) -> Any:  # fmt: skip
    is_newest = o.side.domains.get(_ML, 0) >= _TREE_ENSEMBLE_SINCE
    expect_ml_op(o, "TreeEnsemble" if is_newest else "TreeEnsembleRegressor")
    rows = (roots, feature, split, true_child, false_child, weights)
    forest = _Forest(rows, modes, missing, compare)
    forest.expect_depth(depth)
    targets = int(tensor_type_of(weights).shape.dims[1])
    if join in ("min", "max"):
        forest.expect_extrema(join, targets)
    if is_newest:
        return _tree_ensemble(o, x, forest, join, targets)
    if str(tensor_type_of(x).dtype) != "float32":
        raise Decline("TreeEnsembleRegressor returns float32 only")
    attrs = _regressor_attributes(forest, join)
    return o.op(f"{_ML}.TreeEnsembleRegressor", x, n_targets=targets, **attrs)


def _regressor_attributes(forest: _Forest, join: str) -> dict[str, Any]:
    """Nodes are identified by tree and number; leaves are nodes."""
    nodes = [(t, n) for t, root in enumerate(forest.roots) for n in forest.tree(root)]
    if len(set(nodes)) != len(nodes):
        raise Decline("a tree with several ways to one leaf")
    weights = [
        (t, n, k, v)
        for t, n in nodes
        if forest.is_leaf(n)
        for k, v in forest.leaf_weights(n, join)
    ]
    if not weights:
        raise Decline("trees without weights")
    inner = [not forest.is_leaf(n) for _, n in nodes]
    rows = list(zip(nodes, inner, strict=True))
    attrs: dict[str, Any] = {
        "nodes_treeids": [t for t, _ in nodes],
        "nodes_nodeids": [n for _, n in nodes],
        "nodes_featureids": [forest.feature[n] if i else 0 for (_, n), i in rows],
        "nodes_values": [float(forest.split[n]) if i else 0.0 for (_, n), i in rows],
        "nodes_modes": [
            f"BRANCH_{_MODES[forest.modes[n]]}" if i else "LEAF" for (_, n), i in rows
        ],
        "nodes_truenodeids": [forest.true_child[n] if i else 0 for (_, n), i in rows],
        "nodes_falsenodeids": [forest.false_child[n] if i else 0 for (_, n), i in rows],
        "aggregate_function": join.upper(),
    }
    if any(forest.missing_is_true):
        missing = [int(forest.missing_is_true[n]) for _, n in nodes]
        attrs["nodes_missing_value_tracks_true"] = missing
    names = ("treeids", "nodeids", "ids", "weights")
    parts = zip(*weights, strict=True)
    return attrs | {f"target_{n}": list(p) for n, p in zip(names, parts, strict=True)}


def _tree_ensemble(o: Any, x: Any, forest: _Forest, join: str, targets: int) -> Any:
    """Nodes and leaves are in lists of their own; a leaf has one weight."""
    trees = [forest.tree(root) for root in forest.roots]
    nodes = [n for tree in trees for n in tree if not forest.is_leaf(n)]
    index = {n: i for i, n in enumerate(nodes)}
    if len(index) != len(nodes) or any(forest.is_leaf(root) for root in forest.roots):
        raise Decline("trees that share nodes, or a tree of one leaf")
    attrs: dict[str, Any] = {"n_targets": targets}
    attrs["aggregate_function"] = _AGGREGATES[join]
    leaves: list[tuple[int, float]] = []
    for name, child in (("true", forest.true_child), ("false", forest.false_child)):
        is_leaf = [forest.is_leaf(child[n]) for n in nodes]
        attrs[f"nodes_{name}leafs"] = [int(leaf) for leaf in is_leaf]
        ids = attrs[f"nodes_{name}nodeids"] = []
        for n, leaf in zip(nodes, is_leaf, strict=True):
            ids.append(len(leaves) if leaf else index[child[n]])
            if leaf:
                leaves.append(_single_weight(forest.leaf_weights(child[n], join), join))
    if any(forest.missing_is_true[n] for n in nodes):
        missing = [int(forest.missing_is_true[n]) for n in nodes]
        attrs["nodes_missing_value_tracks_true"] = missing
    dtype = tensor_type_of(x).dtype.numpy
    return o.op(
        f"{_ML}.TreeEnsemble", x,
        tree_roots=[index[root] for root in forest.roots],
        nodes_featureids=[forest.feature[n] for n in nodes],
        nodes_splits=Tensor.of(np.asarray([forest.split[n] for n in nodes], dtype)),
        nodes_modes=Tensor.of(np.asarray([forest.modes[n] for n in nodes], "uint8")),
        leaf_targetids=[target for target, _ in leaves],
        leaf_weights=Tensor.of(np.asarray([weight for _, weight in leaves], dtype)),
        **attrs,
    )  # fmt: skip


def _single_weight(
    weights: list[tuple[int, float]], aggregate: str
) -> tuple[int, float]:
    """The target and weight of a leaf; a leaf without any has 0 where it is neutral."""
    if not weights and aggregate in ("sum", "average"):
        return 0, 0.0
    if len(weights) != 1:
        raise Decline("a leaf of TreeEnsemble has one weight")
    return weights[0]


assert set(_AGGREGATES) == set(TREE_AGGREGATIONS)

WRITE: dict[str, Any] = {"tree_ensemble": write_tree_ensemble}
