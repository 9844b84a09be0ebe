"""The tool `prune`: weights set to zero, or channels removed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from amanda import improve
from amanda.errors import UsageError
from amanda.graph import Graph, Op
from amanda.instrument import Instrumentation, Tool
from amanda.tensors import Tensor
from amanda_std import passes
from amanda_tools.analysis.flops import graph_costs
from amanda_tools.analysis.selection import chosen_sites, is_float_tensor
from amanda_tools.pruning.channels import Group, Member, find_groups

__all__ = ["Prune"]

KINDS: Final = ("weights", "n:m", "channels")
Array = np.ndarray[Any, Any]


class Prune(Tool):
    """Remove what contributes least: single weights, n of m in a row, or channels.

    - `kind`: `weights`, the `ratio` of smallest magnitude set to zero; `n:m`, where of
      each `m` consecutive inputs `n` stay (2 of 4 by default); `channels`, where the
      `ratio` of the channels of each group is cut out of all weights that they run
      through, residual connections and concatenations included
    - `scope_of_ratio`: `layer`, or `global`: one threshold for all weights
    - `mask`: for channels, set what reads them to zero instead of removing them, which
      gives the same results
    - `types`, `names`, `scope`: the ops with weights

    The report has the share of zeros of each weight or the channels left, and weights
    and MACs before and after.
    """

    name = "prune"

    def __init__(
        self,
        *,
        kind: str = "weights",
        ratio: float = 0.5,
        n: int = 2,
        m: int = 4,
        scope_of_ratio: str = "layer",
        mask: bool = False,
        types: Sequence[str] | str = ("conv", "matmul", "linear"),
        names: Sequence[str] | str | None = None,
        scope: str | None = None,
    ) -> None:
        if kind not in KINDS:
            raise UsageError(f"there is no kind {kind!r}", expected=" or ".join(KINDS))
        if not 0 <= ratio < 1:
            raise UsageError("the ratio is from 0 to below 1", got=ratio)
        if not 0 < n <= m:
            raise UsageError(
                "n of m weights stay", expected="0 < n <= m", got=f"{n}:{m}"
            )
        self.kind, self.ratio, self.n, self.m = kind, ratio, n, m
        self.is_global, self.mask = scope_of_ratio == "global", mask
        self.types, self.names, self.scope = types, names, scope

    def instrument(self, instrumentation: Instrumentation) -> None:
        """Prune the graph, and report sizes before and after."""
        graph = instrumentation.graph
        improve(graph, "fold")
        before = _totals(graph)
        if self.kind == "channels":
            self._prune_channels(instrumentation)
        else:
            self._prune_weights(instrumentation)
        after = _totals(graph)
        for name, old, new in zip(("weights", "MACs"), before, after, strict=True):
            instrumentation.report.summary[f"{name} before"] = old
            instrumentation.report.summary[f"{name} after"] = new

    # -- single weights ------------------------------------------------------------

    def _prune_weights(self, instrumentation: Instrumentation) -> None:
        found: dict[Op, Any] = {}
        for site in chosen_sites(instrumentation, self.types, self.names, self.scope):
            port = site.op.inputs[1] if len(site.op.inputs) > 1 else None
            if port is not None and port.op.is_constant and is_float_tensor(port):
                found.setdefault(port.op, site)
        if not found:
            raise UsageError("no op with a constant weight is chosen")
        arrays = {op: op.attrs["value"].numpy() for op in found}
        threshold = None
        if self.is_global:
            every = np.concatenate([np.abs(a).ravel() for a in arrays.values()])
            threshold = _threshold(every, self.ratio)
        zeros = total = 0
        for op, array in arrays.items():
            if self.kind == "n:m":
                kept = _keep_n_of_m(array, self.n, self.m, _input_axis(found[op].op))
            else:
                own = (
                    _threshold(np.abs(array), self.ratio)
                    if threshold is None
                    else threshold
                )
                kept = np.abs(array) > own
            op.attrs["value"] = Tensor.of(np.where(kept, array, 0).astype(array.dtype))
            found[op].record("zeros", float(1 - kept.mean()))
            zeros, total = zeros + int((~kept).sum()), total + kept.size
        instrumentation.report.summary["share of zeros"] = zeros / total

    # -- channels ------------------------------------------------------------

    def _prune_channels(self, instrumentation: Instrumentation) -> None:
        graph = instrumentation.graph
        groups = find_groups(graph)
        sites = {site.op: site for site in instrumentation.sites()}
        removed: dict[tuple[Op, int], list[Array]] = {}
        for group in groups:
            drop = self._least(group)
            for member in group.members if len(drop) else ():
                if member.role == "input" or not self.mask:
                    place = (member.constant, member.axis)
                    removed.setdefault(place, []).append(_elements(member, drop))
                user = member.constant.output.user_ops[0]
                if member.role == "output" and user in sites:
                    left = group.size - len(drop)
                    sites[user].record("channels", f"{left} of {group.size}")
        change = _zero if self.mask else _cut
        for (constant, axis), parts in removed.items():
            change(constant, axis, np.concatenate(parts))
        if not self.mask:
            passes.infer(graph)
        instrumentation.report.summary["groups of channels"] = len(groups)

    def _least(self, group: Group) -> Array:
        """The channels of a group with the smallest norms of weights."""
        norms = np.zeros(group.size)
        for member in group.members:
            if member.role == "output":
                array = np.abs(member.constant.attrs["value"].numpy())
                norms += (
                    np.moveaxis(array, member.axis, 0).reshape(group.size, -1).mean(1)
                )
        count = min(int(group.size * self.ratio), group.size - 1)
        return np.sort(np.argsort(norms, kind="stable")[:count])


def _threshold(magnitudes: Array, ratio: float) -> float:
    """The magnitude up to which weights are dropped."""
    flat = magnitudes.ravel()
    count = int(flat.size * ratio)
    return float(np.partition(flat, count - 1)[count - 1]) if count else -1.0


def _input_axis(op: Op) -> int:
    """The axis of a weight that its products sum over."""
    if op.type == "conv":
        layout = str(op.attrs.get("kernel_layout", "OI*"))
        rank = len(op.inputs[1].op.attrs["value"].shape)  # type: ignore[union-attr]
        return layout.replace("*", "*" * (rank - len(layout) + 1)).index("I")
    return 1 if op.type == "linear" else -2


def _keep_n_of_m(array: Array, n: int, m: int, axis: int) -> Array:
    """Which weights are the n largest of m in a row along an axis."""
    rows = np.moveaxis(np.abs(array), axis, -1)
    padding = -rows.shape[-1] % m
    padded = np.pad(rows, [(0, 0)] * (rows.ndim - 1) + [(0, padding)])
    blocks = padded.reshape(*padded.shape[:-1], -1, m)
    order = np.argsort(np.argsort(-blocks, axis=-1, kind="stable"), axis=-1)
    kept = (order < n).reshape(padded.shape)[..., : rows.shape[-1]]
    return np.moveaxis(kept, -1, axis)


def _elements(member: Member, channels: Array) -> Array:
    """The elements of a member's axis that some channels have."""
    within = np.arange(member.repeat)
    return (member.offset + channels[:, None] * member.repeat + within).ravel()


def _zero(constant: Op, axis: int, elements: Array) -> None:
    """Set elements of the axis of a constant to zero."""
    array = np.moveaxis(constant.attrs["value"].numpy().copy(), axis, 0)
    array[elements] = 0
    constant.attrs["value"] = Tensor.of(
        np.ascontiguousarray(np.moveaxis(array, 0, axis))
    )


def _cut(constant: Op, axis: int, elements: Array) -> None:
    """Remove elements from the axis of a constant."""
    new = np.delete(constant.attrs["value"].numpy(), elements, axis)
    tensor = Tensor.of(np.ascontiguousarray(new))
    constant.attrs["value"] = tensor
    constant.output.type = tensor.type
    for op in constant.output.user_ops:
        if op.type == "conv" and op.attrs.get("groups", 1) > 1:  # depthwise
            op.attrs["groups"] = int(new.shape[axis])


def _totals(graph: Graph) -> tuple[int, Any]:
    """The weights that are not zero, and the MACs."""
    weights = sum(
        int(np.count_nonzero(op.attrs["value"].numpy()))
        for op in graph
        if op.is_constant and is_float_tensor(op.output)
    )
    costs, _ = graph_costs(graph)
    macs: Any = 0
    for cost in costs.values():
        macs = macs + cost.macs
    return weights, macs
