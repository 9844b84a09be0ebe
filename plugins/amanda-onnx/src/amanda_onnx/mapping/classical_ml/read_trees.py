"""From ONNX: ensembles of trees, of the domain ai.onnx.ml.

The nodes of all trees stand in rows, leaves behind them; a leaf goes on to itself. A
node that asks for one of several numbers is a chain of nodes that ask for one each.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from amanda.mapping import Decline
from amanda_onnx.mapping.classical_ml.read_linear import (
    floats,
    labelled,
    scored,
    single,
)
from amanda_onnx.mapping.static_values import expect
from amanda_std import ops
from amanda_std.mappings import TREE_COMPARISONS

__all__ = ["READ"]

_MODES = {
    "BRANCH_LEQ": 0, "BRANCH_LT": 1, "BRANCH_GTE": 2, "BRANCH_GT": 3, "BRANCH_EQ": 4,
    "BRANCH_NEQ": 5, "BRANCH_MEMBER": 6, "LEAF": -1,
}  # fmt: skip
_MEMBER, _EQUAL, _LEAF = 6, 4, -1
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_JOINS = ("AVERAGE", "SUM", "MIN", "MAX")


@dataclass
class _Trees:
    """Rows of nodes, and what each leaf gives to the targets."""

    mode: list[int] = field(default_factory=list)
    feature: list[int] = field(default_factory=list)
    split: list[float] = field(default_factory=list)
    yes: list[int] = field(default_factory=list)
    no: list[int] = field(default_factory=list)
    lost: list[bool] = field(default_factory=list)
    roots: list[int] = field(default_factory=list)
    weights: dict[int, list[tuple[int, float]]] = field(default_factory=dict)

    def add(self, mode: int, feature: int = 0, split: float = 0.0, yes: int = 0,
            no: int = 0, lost: bool = False) -> int:  # fmt: skip
        at = len(self.mode)
        is_leaf = mode == _LEAF
        self.mode.append(mode)
        self.feature.append(feature)
        self.split.append(split)
        self.yes.append(at if is_leaf else yes)
        self.no.append(at if is_leaf else no)
        self.lost.append(lost)
        return at

    def depth(self) -> int:
        """The most nodes on the way to a leaf; Decline where a tree has a cycle."""
        here, steps = set(self.roots), 0
        while True:
            here = {i for i in here if self.mode[i] != _LEAF}
            if not here:
                return steps
            here = {j for i in here for j in (self.yes[i], self.no[i])}
            steps += 1
            expect(steps <= len(self.mode), "a tree that goes round in a circle")

    def unchain(self, members: dict[int, list[float]]) -> None:
        """Nodes that ask for several numbers, as chains of such that ask for one."""
        for at, numbers in members.items():
            expect(numbers, "a node that asks for none")
            other, self.mode[at], self.split[at] = self.no[at], _EQUAL, numbers[0]
            for number in reversed(numbers[1:]):
                other = self.add(_EQUAL, self.feature[at], number, self.yes[at], other)
            self.no[at] = other

    def said(self, x: Any, targets: int, join: str) -> Any:
        """What the trees say of each row of data to each target."""
        inner = [m for m in self.mode if m != _LEAF]
        how: dict[str, Any] = {"depth": self.depth()}
        asks = None
        if len(set(inner)) == 1:
            how["compare"] = TREE_COMPARISONS[inner[0]]
        elif inner:
            asks = np.maximum(self.mode, 0).astype("int64")
        lost = np.asarray(self.lost, bool) if any(self.lost) else None
        yes, no = np.asarray(self.yes, "int64"), np.asarray(self.no, "int64")
        fill = {"MIN": np.inf, "MAX": -np.inf}.get(join, 0.0)
        return ops.tree_ensemble(
            x, np.asarray(self.roots, "int64"), np.asarray(self.feature, "int64"),
            np.asarray(self.split, "float64").astype(x.dtype.numpy), yes, no,
            self.table(targets, fill, x.dtype), asks, lost, join=join.lower(), **how,
        )  # fmt: skip

    def table(self, targets: int, fill: float, dtype: Any) -> Any:
        """What each node gives to each target; `fill` where nothing."""
        found = np.full((len(self.mode), targets), np.nan)
        for at, pairs in self.weights.items():
            for target, weight in pairs:
                expect(0 <= target < targets, f"there is no target {target}")
                old = found[at, target]
                found[at, target] = weight + (0.0 if np.isnan(old) else old)
        return np.where(np.isnan(found), fill, found).astype(dtype.numpy)


def _total(trees: _Trees, x: Any, targets: int, join: str) -> Any:
    """What the trees say together: [rows, targets]."""
    expect(join in _JOINS, f"no trees are joined by {join}")
    expect(len(trees.mode) * targets <= 1 << 26, "trees with too many leaves")
    return trees.said(x, targets, join)


# -- as version 5 has them ---------------------------------------------------------


def ensemble(
    x: Any, *, nodes_splits: Any, nodes_featureids: Any, nodes_modes: Any,
    nodes_truenodeids: Any, nodes_falsenodeids: Any, nodes_trueleafs: Any,
    nodes_falseleafs: Any, leaf_targetids: Any, leaf_weights: Any, tree_roots: Any,
    post_transform: int = 0, aggregate_function: int = 1, nodes_hitrates: Any = None,  # noqa: ARG001
    nodes_missing_value_tracks_true: Any = None, membership_values: Any = None,
    n_targets: int | None = None,
) -> Any:  # fmt: skip
    trees = _Trees()
    count = len(nodes_featureids)
    lost = nodes_missing_value_tracks_true or [0] * count
    modes = [int(m) for m in nodes_modes.tolist()]
    splits = nodes_splits.tolist()
    for i in range(count):
        yes, no = (
            ids[i] + count if leafs[i] else ids[i]
            for ids, leafs in (
                (nodes_truenodeids, nodes_trueleafs),
                (nodes_falsenodeids, nodes_falseleafs),
            )
        )
        trees.add(modes[i], nodes_featureids[i], splits[i], yes, no, bool(lost[i]))
    for target, weight in zip(leaf_targetids, leaf_weights.tolist(), strict=True):
        trees.weights[trees.add(_LEAF)] = [(target, weight)]
    trees.roots = [_root(trees, i) for i in tree_roots]
    trees.unchain(_members(modes, membership_values))
    targets = n_targets or max(leaf_targetids, default=0) + 1
    y = _total(trees, x, targets, _JOINS[aggregate_function])
    return scored(y, _TRANSFORMS[post_transform])


def _root(trees: _Trees, at: int) -> int:
    """A node of which both ways go to one leaf stands for that leaf."""
    yes, no = trees.yes[at], trees.no[at]
    return yes if yes == no and trees.mode[yes] == _LEAF else at


def _members(modes: list[int], values: Any) -> dict[int, list[float]]:
    """The numbers of each node that asks for several; NaN ends each list."""
    nodes = [i for i, mode in enumerate(modes) if mode == _MEMBER]
    if not nodes:
        return {}
    expect(values is not None, "the numbers that nodes ask for")
    found: list[list[float]] = [[]]
    for value in values.tolist():
        if np.isnan(value):
            found.append([])
        else:
            found[-1].append(value)
    expect(len(found) > len(nodes), "numbers for each node that asks for several")
    return dict(zip(nodes, found, strict=False))


# -- as earlier versions have them -------------------------------------------------


def _old(told: dict[str, Any], kind: str) -> _Trees:
    """Nodes by tree and number; leaves are nodes, and what they give is told apart."""
    trees = _Trees()
    _of_one_length(told, "nodes_")
    _of_one_length(told, f"{kind}_")
    keys = list(zip(told["nodes_treeids"], told["nodes_nodeids"], strict=True))
    place = {key: i for i, key in enumerate(keys)}
    splits = _either(told, "nodes_values") or [0.0] * len(keys)
    lost = told.get("nodes_missing_value_tracks_true") or [0] * len(keys)
    for i, (tree, _) in enumerate(keys):
        mode = told["nodes_modes"][i]
        mode = mode.decode() if isinstance(mode, bytes) else mode
        if mode not in _MODES or _MODES[mode] == _MEMBER:
            raise Decline(f"no node of a tree asks {mode!r}")
        if mode == "LEAF":
            trees.add(_LEAF)
            continue
        yes, no = (
            place[tree, told[f"nodes_{way}nodeids"][i]] for way in ("true", "false")
        )
        feature = told["nodes_featureids"][i]
        trees.add(_MODES[mode], feature, splits[i], yes, no, bool(lost[i]))
    first: dict[int, int] = {}
    for i, (tree, _) in enumerate(keys):
        first.setdefault(tree, i)
    trees.roots = [first[tree] for tree in sorted(first)]
    weights = _either(told, f"{kind}_weights") or []
    ids = zip(told[f"{kind}_treeids"], told[f"{kind}_nodeids"], strict=True)
    rows = zip(ids, told[f"{kind}_ids"], weights, strict=True)
    for key, target, weight in rows:
        trees.weights.setdefault(place[key], []).append((target, weight))
    return trees


def _of_one_length(told: dict[str, Any], kind: str) -> None:
    """Lists of nodes, or of leaves, tell of each one thing more."""
    found = {
        key: len(value)
        for key, value in told.items()
        if key.startswith(kind) and isinstance(value, list | tuple)
    }
    if len(set(found.values())) > 1:
        lengths = ", ".join(f"{key} of {n}" for key, n in found.items())
        raise Decline(f"lists of one length are expected, got {lengths}")


def _either(told: dict[str, Any], name: str) -> list[Any] | None:
    """A list, or the tensor that doubles are told by."""
    tensor = told.get(f"{name}_as_tensor")
    found = told.get(name) if tensor is None else tensor.tolist()
    return list(found) if found is not None else None


def regressor(x: Any, *, aggregate_function: str = "SUM", n_targets: int | None = None,
              post_transform: str = "NONE", **told: Any) -> Any:  # fmt: skip
    trees = _old(told, "target")
    x = floats(x)
    targets = n_targets or max(told["target_ids"], default=0) + 1
    y = _total(trees, x, targets, aggregate_function)
    base = _either(told, "base_values")
    y = y + np.asarray(base).astype(x.dtype.numpy) if base else y
    return single(scored(y, post_transform))


def classifier(x: Any, *, post_transform: str = "NONE", classlabels_int64s: Any = None,
               classlabels_strings: Any = None, **told: Any) -> Any:  # fmt: skip
    """Where leaves tell of one class only, the other one has what is left."""
    trees = _old(told, "class")
    x = floats(x)
    labels = list(classlabels_int64s or classlabels_strings or ())
    expect(len(labels) > 1, "a classifier of two or more classes")
    scores = _total(trees, x, len(labels), "SUM")
    base = _either(told, "base_values")
    own = set(told["class_ids"])
    if len(own) == 1:
        (at,) = own
        one = ops.gather(scores, np.asarray([at]), 1)
        if base:
            one = one + np.asarray(base[-1]).astype(x.dtype.numpy)
        plain = post_transform in ("NONE", "PROBIT")
        rest = 1.0 - one if plain else ops.negative(one)
        scores = ops.concat(rest, one, axis=1)
    elif base:
        scores = scores + np.asarray(base).astype(x.dtype.numpy)
    scores = scored(scores, post_transform)
    named = labelled(ops.argmax(scores, 1), classlabels_int64s, classlabels_strings)
    return named, single(scores)


_ML = "ai.onnx.ml."
READ: dict[str, Any] = {
    f"{_ML}TreeEnsemble": ensemble,
    f"{_ML}TreeEnsembleRegressor": regressor,
    f"{_ML}TreeEnsembleClassifier": classifier,
}
