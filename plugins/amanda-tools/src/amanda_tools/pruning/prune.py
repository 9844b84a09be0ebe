"""The tool `prune`: weights set to zero, or channels removed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from amanda import improve
from amanda.errors import UsageError
from amanda.graph import Graph, Op
from amanda.instrument import Instrumentation, Report, Site, Tool
from amanda.tensors import Tensor
from amanda_std import passes
from amanda_tools.analysis.flops import graph_costs
from amanda_tools.analysis.layouts import expand_layout
from amanda_tools.analysis.selection import chosen_sites, is_float_tensor
from amanda_tools.pictures import draw_shares
from amanda_tools.pruning.channels import find_groups
from amanda_tools.pruning.groups import Group, Part
from amanda_tools.pruning.importance import (
    CRITERIA,
    Importance,
    loss_effects,
    magnitudes,
)

__all__ = ["Prune"]

KINDS: Final = ("weights", "n:m", "channels")
RATIOS: Final = ("layer", "global")
_LAYERS: Final = ("conv", "matmul", "linear")
Array = np.ndarray[Any, Any]
Found = list[tuple[Group, list[Part]]]


class Prune(Tool):
    """Remove what contributes least: single weights, n of m in a row, or channels.

    - `kind`: `weights`, the `ratio` of least importance set to zero; `n:m`, where of
      each `m` consecutive inputs `n` stay (2 of 4 by default); `channels`, where the
      `ratio` of the channels of each group is cut out of all weights that they run
      through: those of residual connections and concatenations together, and heads of
      attention as a whole
    - `ratio_of`: `layer`, or `global`: the least important of all layers
    - `criterion`: `magnitude`, or `gradient`: how much the `loss` changes to first
      order, on example inputs (`data=`). `loss` is the name of a result that is a
      number, or a function of the results; by default the mean square of the first one
    - `multiple`: for channels, groups keep a multiple of it (8 suits many processors)
    - `mask`: for channels, set what reads them to zero instead of removing them, which
      gives the same results
    - `types`, `names`, `scope`: the layers; a group is pruned if all of its layers are
      among them
    - `backend`: what gradients run on

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
        ratio_of: str = "layer",
        criterion: str = "magnitude",
        loss: str | Callable[[Mapping[str, Any]], Any] | None = None,
        multiple: int = 1,
        mask: bool = False,
        types: Sequence[str] | str = _LAYERS,
        names: Sequence[str] | str | None = None,
        scope: str | None = None,
        backend: str = "numpy",
    ) -> None:
        _expect_one_of("kind", kind, KINDS)
        _expect_one_of("ratio_of", ratio_of, RATIOS)
        _expect_one_of("criterion", criterion, CRITERIA)
        if not 0 <= ratio < 1:
            raise UsageError("the ratio is from 0 to below 1", got=ratio)
        if not 0 < n <= m:
            raise UsageError(
                "n of m weights stay", expected="0 < n <= m", got=f"{n}:{m}"
            )
        if multiple < 1:
            raise UsageError("channels are kept in multiples of 1 or more")
        self.kind, self.ratio, self.n, self.m = kind, ratio, n, m
        self.is_global, self.multiple, self.mask = ratio_of == "global", multiple, mask
        self.criterion, self.loss, self.backend = criterion, loss, backend
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

    def picture(self, report: Report) -> str | None:
        """What is left of each layer, as bars."""
        rows = report.select("channels", tool=self.name)
        if rows:
            return draw_shares([(row.op, _share(str(row.value))) for row in rows])
        rows = report.select("zeros", tool=self.name)
        return draw_shares([(row.op, 1 - float(row.value)) for row in rows])

    def _importance(
        self, instrumentation: Instrumentation, weights: Sequence[Op]
    ) -> Importance:
        if self.criterion == "magnitude":
            return magnitudes(weights)
        return loss_effects(
            instrumentation.graph, weights, instrumentation.data, self.loss,
            self.backend,
        )  # fmt: skip

    def _layers(self, instrumentation: Instrumentation) -> dict[Op, Site]:
        """The chosen ops that have a constant weight; UsageError if there are none."""
        found = {}
        for site in chosen_sites(instrumentation, self.types, self.names, self.scope):
            if _weight_of(site.op) is not None and site.graph is instrumentation.graph:
                found[site.op] = site
        if not found:
            raise UsageError("no op with a constant weight is chosen")
        return found

    # -- single weights ------------------------------------------------------------

    def _prune_weights(self, instrumentation: Instrumentation) -> None:
        sites: dict[Op, Site] = {}
        for op, site in self._layers(instrumentation).items():
            sites.setdefault(_weight_of(op), site)  # type: ignore[arg-type]
        importance = self._importance(instrumentation, list(sites))
        threshold = None
        if self.is_global:
            every = np.concatenate([found.ravel() for found in importance.values()])
            threshold = _drop_limit(every, self.ratio)
        zeros = total = 0
        for op, found in importance.items():
            if self.kind == "n:m":
                kept = _keep_n_of_m(found, self.n, self.m, _input_axis(sites[op].op))
            elif threshold is None:
                kept = found > _drop_limit(found, self.ratio)
            else:
                kept = found > threshold
            array = op.attrs["value"].numpy()
            op.attrs["value"] = Tensor.of(np.where(kept, array, 0).astype(array.dtype))
            sites[op].record("zeros", float(1 - kept.mean()))
            zeros, total = zeros + int((~kept).sum()), total + kept.size
        instrumentation.report.summary["share of zeros"] = zeros / total

    # -- channels ------------------------------------------------------------

    def _prune_channels(self, instrumentation: Instrumentation) -> None:
        graph = instrumentation.graph
        layers = self._layers(instrumentation)
        groups = [
            (group, parts)
            for group, parts in find_groups(graph)
            if {op for part in parts for op in _layers_of(part)} <= layers.keys()
        ]
        dropped = self._least(instrumentation, groups)
        removed: dict[tuple[Op, int], list[Array]] = {}
        for (group, parts), drop in zip(groups, dropped, strict=True):
            for part in parts:
                place = part.place
                if place.role == "size":
                    if not self.mask:
                        _reduce_size(part, group, len(drop))
                elif place.role == "input" or not self.mask:
                    assert place.axis is not None
                    elements = _elements(part, group, drop)
                    removed.setdefault((place.op, place.axis), []).append(elements)
                for op in _layers_of(part):
                    left = f"{group.size - len(drop)} of {group.size}"
                    layers[op].record("channels", left)
        change = _zero if self.mask else _cut
        for (constant, axis), found in removed.items():
            change(constant, axis, np.unique(np.concatenate(found)))
        if not self.mask:
            passes.infer(graph)
        instrumentation.report.summary["groups of channels"] = len(groups)

    def _least(self, instrumentation: Instrumentation, groups: Found) -> list[Array]:
        """The channels of each group that contribute least."""
        weights = {
            part.place.op: None
            for _, parts in groups
            for part in parts
            if part.place.role == "output"
        }
        importance = self._importance(instrumentation, list(weights))
        scores = [_scores(group, parts, importance) for group, parts in groups]
        if not scores:
            return []
        threshold = None
        if self.is_global:
            threshold = _drop_limit(np.concatenate(scores), self.ratio)
        found = []
        for own in scores:
            count = int(own.size * self.ratio)
            if threshold is not None:
                count = int((own <= threshold).sum())
            left = -(-max(own.size - count, 1) // self.multiple) * self.multiple
            count = max(own.size - left, 0)
            found.append(np.sort(np.argsort(own, kind="stable")[:count]))
        return found


def _expect_one_of(option: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise UsageError(
            f"the option {option} cannot be {value!r}", expected=" or ".join(known)
        )


def _weight_of(op: Op) -> Op | None:
    port = op.inputs[1] if len(op.inputs) > 1 else None
    is_weight = port is not None and port.op.is_constant and is_float_tensor(port)
    return port.op if is_weight else None  # type: ignore[union-attr]


def _layers_of(part: Part) -> list[Op]:
    """The ops whose channels a part is, if it is the weight of a layer."""
    return part.place.op.output.user_ops if part.place.role == "output" else []


def _scores(group: Group, parts: Sequence[Part], importance: Importance) -> Array:
    """The mean importance of the weights that make each channel."""
    total = np.zeros(group.size)
    for part in parts:
        if part.place.role == "output":
            assert part.place.axis is not None
            rows = np.moveaxis(importance[part.place.op], part.place.axis, 0)
            own = rows[part.offset : part.offset + part.elements]
            total += own.reshape(group.size, -1).mean(1)
    return total


def _drop_limit(importance: Array, ratio: float) -> float:
    """The importance up to which something is dropped."""
    flat = importance.ravel()
    count = int(flat.size * ratio)
    return float(np.partition(flat, count - 1)[count - 1]) if count else -1.0


def _input_axis(op: Op) -> int:
    """The axis of a weight that its products sum over."""
    if op.type == "conv":
        layout = str(op.attrs.get("kernel_layout", "OI*"))
        rank = len(op.inputs[1].op.attrs["value"].shape)  # type: ignore[union-attr]
        return expand_layout(layout, rank).index("I")
    return -2


def _keep_n_of_m(importance: Array, n: int, m: int, axis: int) -> Array:
    """Which weights are the n most important of m in a row along an axis."""
    rows = np.moveaxis(importance, axis, -1)
    padding = -rows.shape[-1] % m
    padded = np.pad(rows, [(0, 0)] * (rows.ndim - 1) + [(0, padding)])
    blocks = padded.reshape(*padded.shape[:-1], -1, m)
    order = np.argsort(np.argsort(-blocks, axis=-1, kind="stable"), axis=-1)
    kept = (order < n).reshape(padded.shape)[..., : rows.shape[-1]]
    return np.moveaxis(kept, -1, axis)


def _elements(part: Part, group: Group, channels: Array) -> Array:
    """The elements of a part that some channels have."""
    repeat = part.elements // group.size
    return (part.offset + channels[:, None] * repeat + np.arange(repeat)).ravel()


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


def _reduce_size(part: Part, group: Group, count: int) -> None:
    """Lower the size in an attribute by that of some channels."""
    op, index, attribute = part.place.op, part.place.axis, part.place.attribute
    removed = part.elements // group.size * count
    if index is None:
        op.attrs[attribute] = int(op.attrs[attribute]) - removed
    elif op.is_constant:
        array = op.attrs[attribute].numpy().copy()
        array[index] -= removed
        op.attrs[attribute] = Tensor.of(array)
    else:
        sizes = list(op.attrs[attribute])
        sizes[index] -= removed
        op.attrs[attribute] = tuple(sizes)


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


def _share(text: str) -> float:
    """The number that `3 of 4` says."""
    left, _, every = text.partition(" of ")
    return int(left) / int(every)
