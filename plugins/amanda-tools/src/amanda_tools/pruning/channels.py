"""Groups of channels of a graph, found by following its values.

Layers make new groups; weights, biases and norms have places along their axes; heads of
attention are channels of their own. A group that reaches an op of which nothing is
known here, or a result, is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from amanda.graph import Graph, Op, OutputPort, Parameter
from amanda.types import Dim, TensorType
from amanda_std.backends import Trait, has_trait
from amanda_tools.analysis.layouts import expand_layout
from amanda_tools.pruning.axes import follow_axis
from amanda_tools.pruning.groups import (
    Channels,
    Group,
    Part,
    Run,
    cut_runs,
    join,
    make_coarser,
    parts_by_group,
)

__all__ = ["find_groups"]

_POINTWISE: Final = frozenset(
    {"relu", "gelu", "silu", "leaky_relu", "elu", "mish", "relu6", "hard_swish",
     "hard_sigmoid", "clip", "swish", "selu", "softplus", "identity", "sigmoid",
     "where", "cast", "astype"}
)  # fmt: skip
"""Ops on each element: composites do not say it by a trait."""
_HEADS: Final = 1
"""The axis of the heads of an `attention`."""


def find_groups(graph: Graph) -> list[tuple[Group, list[Part]]]:
    """The groups of channels of a graph that may be removed, with their places.

    Constants of one axis that several ops read are copied for each: they can then have
    channels of their own."""
    _copy_shared_vectors(graph)
    finder = _Finder()
    for op in graph:
        finder.visit(op)
    for value in graph.results:
        if value is not None:
            finder.fix(value)
    found = parts_by_group(finder.groups)
    return [(group, parts) for group, parts in found if _is_complete(group, parts)]


def _is_complete(group: Group, parts: Sequence[Part]) -> bool:
    """Whether the channels are made and read by layers."""
    roles = {part.place.role for part in parts}
    return {"output", "input"} <= roles and group.size > 1


def _copy_shared_vectors(graph: Graph) -> None:
    for op in [op for op in graph if op.is_constant]:
        if len(op.attrs["value"].shape) > 1:
            continue
        for user in list(op.output.users)[1:]:
            if user.op is not graph:
                with graph.before(op):
                    user.connect(graph.constant(op.attrs["value"]).output)


class _Finder:
    """Follows the channels of values through a graph, in its order."""

    def __init__(self) -> None:
        self.known: dict[OutputPort, Channels] = {}
        self.groups: list[Group] = []

    def visit(self, op: Op) -> None:
        """Find the channels of an op's outputs; those of its inputs stay whole where
        nothing is known of the op."""
        if op.is_constant:
            return
        rule = _RULES.get(op.type or "")
        if rule is None and (op.type in _POINTWISE or has_trait(op, Trait.POINTWISE)):
            rule = _Finder._pointwise
        if rule is None and has_trait(op, Trait.REDUCTION):
            rule = _Finder._reduction
        if op.bodies or rule is None or not rule(self, op):
            for port in op.inputs:
                if port is not None:
                    self.fix(port)

    def fix(self, port: OutputPort) -> None:
        """Keep the channels of a value."""
        if port in self.known:
            self.known[port].fix()

    def _channels(self, op: Op, index: int = 0) -> Channels | None:
        port = op.inputs[index] if index < len(op.inputs) else None
        return None if port is None else self.known.get(port)

    def _set(self, op: Op, channels: Channels, output: int = 0) -> bool:
        """Note the channels of an output; False if its axis has another size."""
        port = op.outputs[output]
        dims = _dims(port)
        if dims is None or channels.axis >= len(dims):
            return False
        if dims[channels.axis] != channels.elements:
            return False
        self.known[port] = channels
        return True

    # -- layers ------------------------------------------------------------------------

    def _conv(self, op: Op) -> bool:
        weight = _constant(op, 1)
        rank = _rank(op.inputs[0])
        if weight is None or rank is None:
            return False
        usual = "IO*" if op.type == "conv_transpose" else "OI*"
        kernel = expand_layout(op.attrs.get("kernel_layout", usual), rank)
        out_axis, in_axis = kernel.index("O"), kernel.index("I")
        axis = expand_layout(op.attrs.get("layout", "NC*"), rank).index("C")
        shape = weight.attrs["value"].shape
        x = self._channels(op)
        if int(op.attrs.get("groups", 1)) == 1:
            return self._layer(op, weight, out_axis, in_axis, axis)
        if x is None or shape[in_axis] != 1 or shape[out_axis] % x.elements:
            return x is None
        if op.type == "conv_transpose":
            return False
        copies = int(shape[out_axis]) // x.elements  # depthwise
        if _is_shared(weight):
            return False
        x.add_places(weight, out_axis, "other", scale=copies)
        x.add_places(op, None, "size", "groups")
        runs = tuple(Run(group, count * copies) for group, count in x.runs)
        return self._set(op, made := Channels(axis, runs)) and self._bias(op, made)

    def _product(self, op: Op) -> bool:
        weight = _constant(op, 1)
        rank = _rank(op.inputs[0])
        if weight is None or rank is None:
            return op.type == "matmul" and self._product_of_values(op)
        if len(weight.attrs["value"].shape) != 2:
            return False
        return self._layer(op, weight, 1, 0, rank - 1)

    def _layer(
        self, op: Op, weight: Op, out_axis: int, in_axis: int, axis: int
    ) -> bool:
        """A layer sums over the channels of its input, and makes a new group."""
        x = self._channels(op)
        if x is not None and x.axis != axis:
            if op.type in ("conv", "conv_transpose"):
                return False
            x.fix()  # two axes of the result would have channels
        elif x is not None:
            size = weight.attrs["value"].shape[in_axis]
            if x.elements != size or _is_shared(weight):
                return False
            x.add_places(weight, in_axis, "input")
        group = Group(int(weight.attrs["value"].shape[out_axis]))
        self.groups.append(group)
        group.is_fixed = _is_shared(weight)
        made = Channels(axis, (Run(group, group.size),))
        made.add_places(weight, out_axis, "output")
        return self._set(op, made) and self._bias(op, made)

    def _bias(self, op: Op, channels: Channels) -> bool:
        if len(op.inputs) < 3 or op.inputs[2] is None:
            return True
        bias = _constant(op, 2)
        if bias is None or _is_shared(bias):
            channels.fix()
        else:
            channels.add_places(bias, 0, "other")
        return True

    def _product_of_values(self, op: Op) -> bool:
        """A product of two values: along axes before the last two, both have channels;
        those of the rows of the one and the columns of the other are in the result."""
        x, y = self._channels(op), self._channels(op, 1)
        rank = _rank(op.outputs[0])
        if rank is None or _rank(op.inputs[0]) != rank or _rank(op.inputs[1]) != rank:
            return x is None and y is None
        if x is not None and y is None:
            is_free = _dim(op.inputs[1], x.axis) == 1 or x.axis == rank - 2
            return x.axis < rank - 1 and is_free and self._set(op, x)
        if y is not None and x is None:
            is_free = _dim(op.inputs[0], y.axis) == 1 or y.axis == rank - 1
            return y.axis != rank - 2 and is_free and self._set(op, y)
        if x is None or y is None:
            return True
        is_batch = x.axis == y.axis < rank - 2
        return is_batch and join(x, y) and self._set(op, x)

    def _attention(self, op: Op) -> bool:
        """Each head is computed on its own."""
        found = [self._channels(op, index) for index in range(3)]
        q, k, v = found
        if q is None or k is None or v is None:
            return all(each is None for each in found)
        mask = op.inputs[3] if len(op.inputs) > 3 else None
        is_common = mask is None or _dim_from_end(mask, 3) in (None, 1)
        if not is_common or any(_rank(port) != 4 for port in op.inputs[:3]):
            return False
        if q.axis != _HEADS or not join(q, k) or not join(q, v):
            return False
        return self._set(op, q)

    # -- ops between layers ------------------------------------------------------------

    def _keep(self, op: Op) -> bool:
        x = self._channels(op)
        return x is None or self._set(op, x)

    def _resize(self, op: Op) -> bool:
        """Other axes are resized; the attribute may have the sizes of all axes."""
        x = self._channels(op)
        sizes = _sizes(op, "sizes")
        if x is None or sizes is None:
            return x is None
        axes = op.attrs.get("axes") or range(len(sizes.values))
        for index, axis in enumerate(axes):
            if int(axis) == x.axis:
                x.add_places(sizes.op, index, "size", sizes.attribute)
        return self._set(op, x)

    def _pointwise(self, op: Op) -> bool:
        """Values with channels are joined; constants along the axis have places."""
        rank = _rank(op.outputs[0])
        values = [port for port in op.inputs if port is not None]
        found = [self.known[port] for port in values if port in self.known]
        if not found or rank is None:
            return not found
        first = found[0]
        if any(_rank(port) != rank for port in values if port in self.known):
            return False
        if not all(join(first, other) for other in found[1:]):
            return False
        for port in values:
            if port not in self.known and not self._operand(port, first, rank):
                return False
        return self._set(op, first)

    def _operand(self, port: OutputPort, channels: Channels, rank: int) -> bool:
        """A constant that is combined with channels, or a value that is the same for
        all of them."""
        own = _rank(port)
        if own is None:
            return False
        axis = channels.axis - (rank - own)
        if axis < 0 or _dim(port, axis) == 1:
            return True
        if isinstance(port, Parameter) or not port.op.is_constant:
            return False
        if _is_shared(port.op):
            return False
        channels.add_places(port.op, axis, "other")
        return True

    def _norm(self, op: Op) -> bool:
        """Statistics of each channel: batch and instance normalization."""
        x = self._channels(op)
        if x is None:
            return True
        if int(op.attrs.get("axis", 1)) != x.axis:
            return False
        constants = [
            _constant(op, index)
            for index, port in enumerate(op.inputs)
            if index and port is not None
        ]
        if any(each is None or _is_shared(each) for each in constants):
            return False
        for each in constants:
            assert each is not None
            x.add_places(each, 0, "other")
        return self._set(op, x)

    def _concat(self, op: Op) -> bool:
        found = [self.known.get(port) for port in op.inputs if port is not None]
        present = [each for each in found if each is not None]
        rank = _rank(op.outputs[0])
        if len(present) != len(found) or not present or rank is None:
            return not present
        axis = present[0].axis
        if any(each.axis != axis for each in present):
            return False
        if int(op.attrs.get("axis", 0)) % rank == axis:
            runs = tuple(run for each in present for run in each.runs)
            return self._set(op, Channels(axis, runs))
        first, *others = present
        return all(join(first, other) for other in others) and self._set(op, first)

    def _pieces(self, op: Op) -> bool:
        x = self._channels(op)
        rank = _rank(op.inputs[0])
        if x is None or rank is None:
            return x is None
        if int(op.attrs.get("axis", 0)) % rank != x.axis:
            return all(self._set(op, x, index) for index in range(len(op.outputs)))
        sizes = [_dim(port, x.axis) for port in op.outputs]
        known = [size for size in sizes if isinstance(size, int)]
        pieces = cut_runs(x, known) if len(known) == len(sizes) else None
        if pieces is None:
            return False
        if _constant(op, 1) is None:
            if len(op.inputs) > 1 and op.inputs[1] is not None:
                return False
            op.attrs["sizes"] = tuple(known)
        held = _sizes(op, "sizes")
        assert held is not None
        for index, runs in enumerate(pieces):
            piece = Channels(x.axis, runs)
            piece.add_places(held.op, index, "size", held.attribute)
            self._set(op, piece, index)
        return True

    def _reduction(self, op: Op) -> bool:
        """Reductions of other axes keep the channels."""
        x = self._channels(op)
        rank = _rank(op.inputs[0])
        axes = op.attrs.get("axes")
        if x is None or rank is None:
            return x is None
        if axes is None or x.axis in (reduced := {int(axis) % rank for axis in axes}):
            return False
        moved = 0 if op.attrs.get("keepdims") else sum(a < x.axis for a in reduced)
        return self._set(op, Channels(x.axis - moved, x.runs))

    def _softmax(self, op: Op) -> bool:
        x = self._channels(op)
        rank = _rank(op.inputs[0])
        if x is None or rank is None:
            return x is None
        axes = {int(axis) % rank for axis in op.attrs.get("axes", (-1,))}
        return x.axis not in axes and self._set(op, x)

    def _transpose(self, op: Op) -> bool:
        """The axis of channels moves."""
        x = self._channels(op)
        rank = _rank(op.inputs[0])
        if x is None or rank is None:
            return x is None
        given = op.attrs.get("perm")
        order = [*reversed(range(rank))] if given is None else [int(a) for a in given]
        moved = [axis % rank for axis in order].index(x.axis)
        return self._set(op, Channels(moved, x.runs))

    def _reshape(self, op: Op) -> bool:
        """Channels are merged with other axes, or split into those of heads."""
        x = self._channels(op)
        before, after = _dims(op.inputs[0]), _dims(op.outputs[0])
        if x is None or before is None or after is None:
            return x is None
        change = follow_axis(before, after, x.axis)
        if change is None or not make_coarser(x, change.split):
            return False
        runs = [
            Run(group, count * change.inner // change.split)
            for group, count in (x.runs if change.split == 1 else x.current_runs())
        ]
        made = Channels(change.axis, tuple(runs) * change.outer)
        if op.type == "reshape":
            sizes = _sizes(op, "shape")
            if sizes is None or len(sizes.values) != len(after):
                return False
            if sizes.values[change.axis] == made.elements:
                made.add_places(sizes.op, change.axis, "size", sizes.attribute)
        return self._set(op, made)


class _Sizes(NamedTuple):
    """Sizes that an op asks for, and where they are: they change with the channels."""

    values: Sequence[Any]
    op: Op
    attribute: str


def _sizes(op: Op, attribute: str) -> _Sizes | None:
    """The sizes of an attribute that may be the second argument; None if computed."""
    values = op.attrs.get(attribute)
    if values is not None:
        return _Sizes(values, op, attribute)
    constant = _constant(op, 1)
    if constant is None:
        return None
    return _Sizes(constant.attrs["value"].numpy().tolist(), constant, "value")


_RULES: Final[Mapping[str, Callable[[_Finder, Op], bool]]] = {
    "conv": _Finder._conv,
    "conv_transpose": _Finder._conv,
    "resize": _Finder._resize,
    "matmul": _Finder._product,
    "linear": _Finder._product,
    "attention": _Finder._attention,
    "batch_norm": _Finder._norm,
    "instance_norm": _Finder._norm,
    "concat": _Finder._concat,
    "split": _Finder._pieces,
    "softmax": _Finder._softmax,
    "log_softmax": _Finder._softmax,
    "transpose": _Finder._transpose,
    "reshape": _Finder._reshape,
    "flatten": _Finder._reshape,
    "squeeze": _Finder._reshape,
    "expand_dims": _Finder._reshape,
    **dict.fromkeys(
        ("max_pool", "avg_pool", "global_avg_pool", "global_max_pool", "pad", "slice"),
        _Finder._keep,
    ),
}
"""How the channels of an op's inputs become those of its outputs."""


def _is_shared(constant: Op) -> bool:
    return len(constant.output.users) > 1


def _constant(op: Op, index: int) -> Op | None:
    port = op.inputs[index] if index < len(op.inputs) else None
    return port.op if port is not None and port.op.is_constant else None


def _dims(port: OutputPort | None) -> tuple[Dim, ...] | None:
    type_ = None if port is None else port.type
    is_known = isinstance(type_, TensorType) and type_.shape.has_rank
    return tuple(type_.shape.dims) if is_known else None  # type: ignore[union-attr]


def _rank(port: OutputPort | None) -> int | None:
    dims = _dims(port)
    return None if dims is None else len(dims)


def _dim(port: OutputPort | None, axis: int) -> Dim | None:
    dims = _dims(port)
    return dims[axis] if dims is not None and axis < len(dims) else None


def _dim_from_end(port: OutputPort | None, place: int) -> Dim | None:
    """The size of an axis, counted from the last one; None if there is none."""
    dims = _dims(port)
    return dims[-place] if dims is not None and place <= len(dims) else None
