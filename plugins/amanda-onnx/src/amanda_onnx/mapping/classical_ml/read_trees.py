"""From ONNX: tree ensembles of ai.onnx.ml.

std has the nodes of all trees in rows. A leaf is its own child; a node that tests for
membership in a set becomes a chain of nodes that test for equality.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from amanda.mapping import Decline
from amanda_onnx.mapping.classical_ml.scores import (
    select_labels,
    to_float32,
    to_floats,
    transform_scores,
)
from amanda_std import ops
from amanda_std.mappings import TREE_COMPARISONS, expect

__all__ = ["READ"]

_MODES = {
    "BRANCH_LEQ": 0, "BRANCH_LT": 1, "BRANCH_GTE": 2, "BRANCH_GT": 3, "BRANCH_EQ": 4,
    "BRANCH_NEQ": 5, "BRANCH_MEMBER": 6, "LEAF": -1,
}  # fmt: skip
_MEMBER, _EQUAL, _LEAF = 6, 4, -1
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_MAX_WEIGHTS = 1 << 26


@dataclass
class _TreeNodes:
    """The nodes of all trees, one list for each property, and the weights of leaves."""

    mode: list[int] = field(default_factory=list)
    feature: list[int] = field(default_factory=list)
    split: list[float] = field(default_factory=list)
    true_child: list[int] = field(default_factory=list)
    false_child: list[int] = field(default_factory=list)
    missing_is_true: list[bool] = field(default_factory=list)
    roots: list[int] = field(default_factory=list)
    weights: dict[int, list[tuple[int, float]]] = field(default_factory=dict)
    """By leaf: targets and their weights."""

    def add(self, mode: int, feature: int = 0, split: float = 0.0, true_child: int = 0,
            false_child: int = 0, missing_is_true: bool = False) -> int:  # fmt: skip
        node = len(self.mode)
        is_leaf = mode == _LEAF
        self.mode.append(mode)
        self.feature.append(feature)
        self.split.append(split)
        self.true_child.append(node if is_leaf else true_child)
        self.false_child.append(node if is_leaf else false_child)
        self.missing_is_true.append(missing_is_true)
        return node

    def depth(self) -> int:
        """The longest way to a leaf; Decline where a tree has a cycle, or a node
        that does not exist."""
        count = len(self.mode)
        for nodes in (self.roots, self.true_child, self.false_child):
            expect(all(0 <= i < count for i in nodes), f"a tree has {count} nodes only")
        expect(min(self.feature, default=0) >= 0, "a negative feature")
        level, steps = set(self.roots), 0
        while True:
            level = {i for i in level if self.mode[i] != _LEAF}
            if not level:
                return steps
            level = {
                j for i in level for j in (self.true_child[i], self.false_child[i])
            }
            steps += 1
            expect(steps <= len(self.mode), "a tree with a cycle")

    def expand_members(self, members: dict[int, list[float]]) -> None:
        """Replace membership tests by chains of equality tests."""
        for node, numbers in members.items():
            expect(numbers, "a membership test of an empty set")
            other = self.false_child[node]
            self.mode[node], self.split[node] = _EQUAL, numbers[0]
            for number in reversed(numbers[1:]):
                child = self.true_child[node]
                other = self.add(_EQUAL, self.feature[node], number, child, other)
            self.false_child[node] = other

    def evaluate(self, x: Any, targets: int, aggregate: str) -> Any:
        """The aggregated weights: [rows, targets]."""
        expect(aggregate in _AGGREGATES, f"unknown aggregate_function {aggregate}")
        expect(targets >= 0, f"{targets} targets")
        size = len(self.mode) * targets
        expect(size <= _MAX_WEIGHTS, f"tree ensemble with {size} weights")
        inner = [m for m in self.mode if m != _LEAF]
        attrs: dict[str, Any] = {"depth": self.depth()}
        modes = None
        if len(set(inner)) == 1:
            attrs["compare"] = TREE_COMPARISONS[inner[0]]
        elif inner:
            modes = np.maximum(self.mode, 0).astype("int64")
        any_missing = any(self.missing_is_true)
        missing = np.asarray(self.missing_is_true, bool) if any_missing else None
        fill = {"MIN": np.inf, "MAX": -np.inf}.get(aggregate, 0.0)
        return ops.tree_ensemble(
            x, np.asarray(self.roots, "int64"), np.asarray(self.feature, "int64"),
            np.asarray(self.split, "float64").astype(x.dtype.numpy),
            np.asarray(self.true_child, "int64"),
            np.asarray(self.false_child, "int64"),
            self._weight_table(targets, fill, x.dtype), modes, missing,
            join=aggregate.lower(), **attrs,
        )  # fmt: skip

    def _weight_table(self, targets: int, fill: float, dtype: Any) -> Any:
        """The weight of each node for each target; `fill` where it has none."""
        table = np.full((len(self.mode), targets), np.nan)
        for node, pairs in self.weights.items():
            for target, weight in pairs:
                expect(0 <= target < targets, f"target {target} of {targets}")
                old = table[node, target]
                table[node, target] = weight + (0.0 if np.isnan(old) else old)
        return np.where(np.isnan(table), fill, table).astype(dtype.numpy)


# -- version 5 -----------------------------------------------------------------------


def read_tree_ensemble(
    x: Any, *, nodes_splits: Any, nodes_featureids: Any, nodes_modes: Any,
    nodes_truenodeids: Any, nodes_falsenodeids: Any, nodes_trueleafs: Any,
    nodes_falseleafs: Any, leaf_targetids: Any, leaf_weights: Any, tree_roots: Any,
    post_transform: int = 0, aggregate_function: int = 1, nodes_hitrates: Any = None,  # noqa: ARG001
    nodes_missing_value_tracks_true: Any = None, membership_values: Any = None,
    n_targets: int | None = None,
) -> Any:  # fmt: skip
    trees = _TreeNodes()
    count = len(nodes_featureids)
    missing = nodes_missing_value_tracks_true or [0] * count
    modes = [int(m) for m in nodes_modes.numpy().reshape(-1)]
    splits = nodes_splits.numpy().reshape(-1).tolist()
    _check_counts(
        count, modes, splits, missing, nodes_truenodeids, nodes_falsenodeids,
        nodes_trueleafs, nodes_falseleafs,
    )  # fmt: skip
    known = {*range(len(TREE_COMPARISONS)), _MEMBER}
    expect(known.issuperset(modes), "an unknown node mode")
    leaf_weights = leaf_weights.numpy().reshape(-1).tolist()
    _check_counts(len(leaf_targetids), leaf_weights)
    expect(aggregate_function in range(len(_AGGREGATES)), "unknown aggregate_function")
    expect(post_transform in range(len(_TRANSFORMS)), "unknown post_transform")
    in_range = all(0 <= i < count for i in tree_roots)
    expect(in_range, f"tree_roots={list(tree_roots)}: 0 to {count - 1} expected")
    for i in range(count):
        yes, no = (
            ids[i] + count if leafs[i] else ids[i]  # leaves are added behind the nodes
            for ids, leafs in (
                (nodes_truenodeids, nodes_trueleafs),
                (nodes_falsenodeids, nodes_falseleafs),
            )
        )
        trees.add(modes[i], nodes_featureids[i], splits[i], yes, no, bool(missing[i]))
    for target, weight in zip(leaf_targetids, leaf_weights, strict=True):
        trees.weights[trees.add(_LEAF)] = [(target, weight)]
    trees.roots = [_leaf_or_root(trees, i) for i in tree_roots]
    trees.expand_members(_member_sets(modes, membership_values))
    targets = n_targets or max(leaf_targetids, default=0) + 1
    y = trees.evaluate(x, targets, _AGGREGATES[aggregate_function])
    return transform_scores(y, _TRANSFORMS[post_transform])


def _check_counts(count: int, *lists: Any) -> None:
    """Decline lists that do not have an item for each node or leaf."""
    sizes = sorted({len(items) for items in lists} - {count})
    expect(not sizes, f"lists of {count} items expected, got {sizes}")


def _leaf_or_root(trees: _TreeNodes, root: int) -> int:
    """A tree of one leaf has a node whose children both are that leaf."""
    one, other = trees.true_child[root], trees.false_child[root]
    expect(0 <= one < len(trees.mode), "a child that does not exist")
    return one if one == other and trees.mode[one] == _LEAF else root


def _member_sets(modes: list[int], values: Any) -> dict[int, list[float]]:
    """The set of each node that tests membership; NaN ends each set."""
    nodes = [i for i, mode in enumerate(modes) if mode == _MEMBER]
    if not nodes:
        return {}
    expect(values is not None, "BRANCH_MEMBER needs membership_values")
    sets: list[list[float]] = [[]]
    for value in values.numpy().reshape(-1).tolist():
        if np.isnan(value):
            sets.append([])
        else:
            sets[-1].append(value)
    expect(len(sets) > len(nodes), "membership_values needs a set for each node")
    return dict(zip(nodes, sets, strict=False))


# -- versions 1 to 3 -----------------------------------------------------------------


def _nodes_of_old_versions(attrs: dict[str, Any], kind: str) -> _TreeNodes:
    """Nodes are identified by tree and number; leaves are nodes."""
    trees = _TreeNodes()
    _check_equal_lengths(attrs, "nodes_")
    _check_equal_lengths(attrs, f"{kind}_")
    keys = list(zip(attrs["nodes_treeids"], attrs["nodes_nodeids"], strict=True))
    index = {key: i for i, key in enumerate(keys)}
    splits = _list_or_tensor(attrs, "nodes_values") or [0.0] * len(keys)
    missing = attrs.get("nodes_missing_value_tracks_true") or [0] * len(keys)
    for i, (tree, _) in enumerate(keys):
        mode = attrs["nodes_modes"][i]
        mode = mode.decode() if isinstance(mode, bytes) else mode
        if mode not in _MODES or _MODES[mode] == _MEMBER:
            raise Decline(f"unknown node mode {mode!r}")
        if mode == "LEAF":
            trees.add(_LEAF)
            continue
        ends = [(tree, attrs[f"nodes_{b}nodeids"][i]) for b in ("true", "false")]
        expect(index.keys() >= set(ends), f"tree {tree} lacks a node of {ends}")
        yes, no = (index[end] for end in ends)
        feature = attrs["nodes_featureids"][i]
        trees.add(_MODES[mode], feature, splits[i], yes, no, bool(missing[i]))
    first: dict[int, int] = {}
    for i, (tree, _) in enumerate(keys):
        first.setdefault(tree, i)
    trees.roots = [first[tree] for tree in sorted(first)]
    weights = _list_or_tensor(attrs, f"{kind}_weights") or []
    ids = list(zip(attrs[f"{kind}_treeids"], attrs[f"{kind}_nodeids"], strict=True))
    expect(index.keys() >= set(ids), "a leaf of a node that does not exist")
    expect(len(weights) == len(ids), f"{len(ids)} weights expected")
    rows = zip(ids, attrs[f"{kind}_ids"], weights, strict=True)
    for key, target, weight in rows:
        trees.weights.setdefault(index[key], []).append((target, weight))
    return trees


def _check_equal_lengths(attrs: dict[str, Any], prefix: str) -> None:
    """The lists of nodes, or those of leaves, have an item for each."""
    lengths = {
        key: len(value)
        for key, value in attrs.items()
        if key.startswith(prefix) and isinstance(value, list | tuple)
    }
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{key} of {n}" for key, n in lengths.items())
        raise Decline(f"lists of one length are expected, got {found}")


def _list_or_tensor(attrs: dict[str, Any], name: str) -> list[Any] | None:
    """A list of float32, or its `_as_tensor` variant, which may be float64."""
    tensor = attrs.get(f"{name}_as_tensor")
    found = attrs.get(name) if tensor is None else tensor.tolist()
    return list(found) if found is not None else None


def read_tree_regressor(
    x: Any, *, aggregate_function: str = "SUM", n_targets: int | None = None,
    post_transform: str = "NONE", **attrs: Any,
) -> Any:  # fmt: skip
    trees = _nodes_of_old_versions(attrs, "target")
    x = to_floats(x)
    targets = n_targets or max(attrs["target_ids"], default=0) + 1
    y = trees.evaluate(x, targets, aggregate_function)
    base = _list_or_tensor(attrs, "base_values")
    y = y + np.asarray(base).astype(x.dtype.numpy) if base else y
    return to_float32(transform_scores(y, post_transform))


def read_tree_classifier(
    x: Any, *, post_transform: str = "NONE", classlabels_int64s: Any = None,
    classlabels_strings: Any = None, **attrs: Any,
) -> Any:  # fmt: skip
    """Where all leaves are of one class, the other class has the complement."""
    trees = _nodes_of_old_versions(attrs, "class")
    x = to_floats(x)
    labels = list(classlabels_int64s or classlabels_strings or ())
    expect(len(labels) > 1, "TreeEnsembleClassifier needs two or more class labels")
    scores = trees.evaluate(x, len(labels), "SUM")
    base = _list_or_tensor(attrs, "base_values")
    classes = set(attrs["class_ids"])
    if len(classes) == 1:
        (at,) = classes
        one = ops.gather(scores, np.asarray([at]), 1)
        if base:
            one = one + np.asarray(base[-1]).astype(x.dtype.numpy)
        is_probability = post_transform in ("NONE", "PROBIT")
        rest = 1.0 - one if is_probability else ops.negative(one)
        scores = ops.concat(rest, one, axis=1)
    elif base:
        scores = scores + np.asarray(base).astype(x.dtype.numpy)
    scores = transform_scores(scores, post_transform)
    index = ops.argmax(scores, 1)
    chosen = select_labels(index, classlabels_int64s, classlabels_strings)
    return chosen, to_float32(scores)


READ: dict[str, Any] = {
    "ai.onnx.ml.TreeEnsemble": read_tree_ensemble,
    "ai.onnx.ml.TreeEnsembleRegressor": read_tree_regressor,
    "ai.onnx.ml.TreeEnsembleClassifier": read_tree_classifier,
}
