"""Groups of channels that must be removed together, found by following values.

A value has at most one channel axis here, with segments: runs of channels, each of a
group. Layers make new groups; additions join groups; concatenations append segments;
weights, biases and norms are members of the groups that their axes are along. A group
that reaches an op of which nothing is known here, or a result, stays whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from amanda.graph import Graph, Op, OutputPort, Parameter
from amanda.types import TensorType
from amanda_std.backends import Trait, has_trait

__all__ = ["Channels", "Group", "Member", "find_groups"]

_POINTWISE: Final = frozenset(
    {"relu", "gelu", "silu", "leaky_relu", "elu", "mish", "relu6", "hard_swish",
     "hard_sigmoid", "clip", "swish", "selu", "softplus", "identity"}
)  # fmt: skip
_SPATIAL: Final = frozenset({"max_pool", "avg_pool", "global_avg_pool", "pad",
                             "global_max_pool"})  # fmt: skip
"""Ops that keep the channel axis, and compute along others."""


class Member(NamedTuple):
    """Part of the axis of a constant: a group's channels, `repeat` elements each."""

    constant: Op
    axis: int
    offset: int
    repeat: int
    role: str
    """`output` of a layer, `input` of one, or `other`: a bias, a norm."""


@dataclass
class Group:
    """Channels that live and die together."""

    size: int
    members: list[Member] = field(default_factory=list)
    is_fixed: bool = False
    parent: Group | None = None

    def root(self) -> Group:
        at = self
        while at.parent is not None:
            at = at.parent
        return at


class _Segment(NamedTuple):
    group: Group
    repeat: int
    """How many consecutive elements of the axis each channel has."""


class Channels(NamedTuple):
    """The channel axis of a value, and its segments in order."""

    axis: int
    segments: tuple[_Segment, ...]


def find_groups(graph: Graph) -> list[Group]:
    """The groups of channels of a graph that may be removed."""
    finder = _Finder()
    for op in graph:
        finder.visit(op)
    for value in graph.results:
        if value is not None:
            finder.fix(value)
    return finder.free_groups()


class _Finder:
    """Follows the channels of values through a graph, in its order."""

    def __init__(self) -> None:
        self.known: dict[OutputPort, Channels] = {}
        self.groups: list[Group] = []

    def free_groups(self) -> list[Group]:
        """The groups that may be pruned, with the members of those joined to them."""
        found: dict[int, Group] = {}
        for group in self.groups:
            root = group.root()
            if root is not group:
                root.members += group.members
                root.is_fixed |= group.is_fixed
            found[id(root)] = root
        return [g for g in found.values() if not g.is_fixed and _is_complete(g)]

    def visit(self, op: Op) -> None:
        if op.is_constant:
            return
        rule = getattr(self, f"_visit_{op.type}", None)
        if rule is None and (op.type in _POINTWISE or has_trait(op, Trait.POINTWISE)):
            rule = self._pointwise
        if rule is None and op.type in _SPATIAL:
            rule = self._keep
        if op.bodies or rule is None or not rule(op):
            for port in op.inputs:
                if port is not None:
                    self.fix(port)

    def fix(self, port: OutputPort) -> None:
        """Keep the channels of a value."""
        found = self.known.get(port)
        for segment in found.segments if found else ():
            segment.group.root().is_fixed = True

    # -- layers ------------------------------------------------------------------------

    def _visit_conv(self, op: Op) -> bool:
        weight = _constant(op, 1)
        x = self.known.get(op.inputs[0]) if op.inputs[0] is not None else None
        layout = str(op.attrs.get("layout", "NC*"))
        if weight is None or (rank := _rank(op.inputs[0])) is None:
            return False
        kernel = _axes_of_layout(str(op.attrs.get("kernel_layout", "OI*")), rank)
        out_axis, in_axis = kernel.index("O"), kernel.index("I")
        axis = _axes_of_layout(layout, rank).index("C")
        shape = weight.attrs["value"].shape
        groups = int(op.attrs.get("groups", 1))
        if groups == 1:
            self._read(x, weight, in_axis)
            return self._make_layer(op, weight, out_axis, axis, shape[out_axis])
        if x is None or shape[in_axis] != 1 or shape[out_axis] != groups:
            return False
        self._add_members(x, weight, out_axis, "other")
        self._add_bias(op, x)
        self.known[op.outputs[0]] = x
        return True

    def _visit_matmul(self, op: Op) -> bool:
        weight = _constant(op, 1)
        rank = _rank(op.inputs[0])
        if weight is None or rank is None or len(weight.attrs["value"].shape) != 2:
            return False
        x = self.known.get(op.inputs[0])  # type: ignore[arg-type]
        if x is not None and x.axis != rank - 1:
            return False
        self._read(x, weight, 0)
        size = weight.attrs["value"].shape[1]
        return self._make_layer(op, weight, 1, rank - 1, size)

    def _visit_linear(self, op: Op) -> bool:
        weight = _constant(op, 1)
        rank = _rank(op.inputs[0])
        if weight is None or rank is None:
            return False
        x = self.known.get(op.inputs[0])  # type: ignore[arg-type]
        if x is not None and x.axis != rank - 1:
            return False
        self._read(x, weight, 1)
        size = weight.attrs["value"].shape[0]
        return self._make_layer(op, weight, 0, rank - 1, size)

    def _make_layer(
        self, op: Op, weight: Op, out_axis: int, axis: int, size: int
    ) -> bool:
        """The channels that a layer makes are a new group."""
        group = Group(size)
        self.groups.append(group)
        if len(weight.output.user_ops) > 1:
            group.is_fixed = True  # a shared weight
        group.members.append(Member(weight, out_axis, 0, 1, "output"))
        made = Channels(axis, (_Segment(group, 1),))
        self.known[op.outputs[0]] = made
        self._add_bias(op, made)
        return True

    def _read(self, x: Channels | None, weight: Op, axis: int) -> None:
        """A layer sums over the channels of its input."""
        if x is not None:
            self._add_members(x, weight, axis, "input")

    def _add_bias(self, op: Op, channels: Channels) -> None:
        bias = _constant(op, 2)
        if bias is not None:
            self._add_members(channels, bias, 0, "other")
        elif len(op.inputs) > 2 and op.inputs[2] is not None:
            self.fix(op.outputs[0])

    def _add_members(
        self, channels: Channels, constant: Op, axis: int, role: str
    ) -> None:
        offset = 0
        is_shared = len(constant.output.user_ops) > 1
        for segment in channels.segments:
            root = segment.group.root()
            root.members.append(Member(constant, axis, offset, segment.repeat, role))
            root.is_fixed |= is_shared
            offset += segment.group.size * segment.repeat
        if offset != constant.attrs["value"].shape[axis]:
            for segment in channels.segments:
                segment.group.root().is_fixed = True

    # -- ops between layers ------------------------------------------------------------

    def _keep(self, op: Op) -> bool:
        x = None if op.inputs[0] is None else self.known.get(op.inputs[0])
        if x is not None:
            self.known[op.outputs[0]] = x
        return True

    def _pointwise(self, op: Op) -> bool:
        """Values with channels are joined; constants along the axis are members."""
        rank = _rank(op.outputs[0])
        values = [port for port in op.inputs if port is not None]
        found = [self.known[port] for port in values if port in self.known]
        if not found or rank is None:
            return not found
        first = found[0]
        if any(_rank(port) != rank for port in values if port in self.known):
            return False
        for other in found[1:]:
            if not self._join(first, other):
                return False
        for port in values:
            if port not in self.known and not self._add_operand(port, first, rank):
                return False
        self.known[op.outputs[0]] = first
        return True

    def _add_operand(self, port: OutputPort, channels: Channels, rank: int) -> bool:
        """A constant that is combined with channels, or a value that is the same for
        all of them."""
        own = _rank(port)
        if own is None or isinstance(port, Parameter):
            return False
        axis = channels.axis - (rank - own)
        type_ = port.type
        assert isinstance(type_, TensorType)
        if axis < 0 or type_.shape.dims[axis] == 1:
            return True
        if not port.op.is_constant:
            return False
        self._add_members(channels, port.op, axis, "other")
        return True

    def _join(self, one: Channels, other: Channels) -> bool:
        sizes = [[(s.group.size, s.repeat) for s in c.segments] for c in (one, other)]
        if one.axis != other.axis or sizes[0] != sizes[1]:
            return False
        for a, b in zip(one.segments, other.segments, strict=True):
            first, second = a.group.root(), b.group.root()
            if first is not second:
                second.parent = first
                first.members += second.members
                first.is_fixed |= second.is_fixed
                second.members = []
        return True

    def _visit_batch_norm(self, op: Op) -> bool:
        x = None if op.inputs[0] is None else self.known.get(op.inputs[0])
        if x is None:
            return True
        if int(op.attrs.get("axis", 1)) != x.axis:
            return False
        for index in range(1, len(op.inputs)):
            constant = _constant(op, index)
            if constant is None:
                return False
            self._add_members(x, constant, 0, "other")
        self.known[op.outputs[0]] = x
        return True

    def _visit_concat(self, op: Op) -> bool:
        found = [self.known.get(port) for port in op.inputs if port is not None]
        present = [each for each in found if each is not None]
        if len(present) != len(found) or not present:
            return not present
        rank, axis = _rank(op.outputs[0]), present[0].axis
        if rank is None or any(each.axis != axis for each in present):
            return False
        if int(op.attrs.get("axis", 0)) % rank == axis:
            segments = tuple(s for each in present for s in each.segments)
            self.known[op.outputs[0]] = Channels(axis, segments)
            return True
        return False

    def _visit_mean(self, op: Op) -> bool:
        """Means of other axes keep the channels."""
        x = None if op.inputs[0] is None else self.known.get(op.inputs[0])
        rank = _rank(op.inputs[0])
        if x is None or rank is None:
            return x is None
        axes = _axes(op)
        if axes is None or x.axis in (reduced := {axis % rank for axis in axes}):
            return False
        moved = 0 if op.attrs.get("keepdims") else sum(a < x.axis for a in reduced)
        self.known[op.outputs[0]] = Channels(x.axis - moved, x.segments)
        return True

    def _visit_transpose(self, op: Op) -> bool:
        """The channel axis moves."""
        x = None if op.inputs[0] is None else self.known.get(op.inputs[0])
        rank = _rank(op.inputs[0])
        if x is None or rank is None:
            return x is None
        given = op.attrs.get("perm")
        order = [*reversed(range(rank))] if given is None else [int(a) for a in given]
        moved = [axis % rank for axis in order].index(x.axis)
        self.known[op.outputs[0]] = Channels(moved, x.segments)
        return True

    def _visit_flatten(self, op: Op) -> bool:
        """Each channel of [batch, channels, ...] becomes a run of elements."""
        x = None if op.inputs[0] is None else self.known.get(op.inputs[0])
        type_ = None if op.inputs[0] is None else op.inputs[0].type
        if x is None or not isinstance(type_, TensorType):
            return x is None
        rest = type_.shape.dims[2:]
        if x.axis != 1 or int(op.attrs.get("axis", 1)) != 1:
            return False
        if not all(isinstance(dim, int) for dim in rest):
            return False
        count = 1
        for dim in rest:
            count *= int(dim)
        segments = tuple(_Segment(s.group, s.repeat * count) for s in x.segments)
        self.known[op.outputs[0]] = Channels(1, segments)
        return True


def _is_complete(group: Group) -> bool:
    roles = {member.role for member in group.members}
    return {"output", "input"} <= roles and group.size > 1


def _constant(op: Op, index: int) -> Op | None:
    port = op.inputs[index] if index < len(op.inputs) else None
    return port.op if port is not None and port.op.is_constant else None


def _rank(port: OutputPort | None) -> int | None:
    type_ = None if port is None else port.type
    is_known = isinstance(type_, TensorType) and type_.shape.has_rank
    return type_.shape.rank if is_known else None  # type: ignore[union-attr]


def _axes_of_layout(layout: str, rank: int) -> str:
    return layout.replace("*", "*" * (rank - len(layout) + 1))


def _axes(op: Op) -> Sequence[int] | None:
    """The axes of a reduction, if they are constants."""
    port = op.inputs[1] if len(op.inputs) > 1 else None
    if port is not None and port.op.is_constant:
        return [int(a) for a in port.op.attrs["value"].numpy().reshape(-1)]
    given: Any = op.attrs.get("axes")
    return None if given is None else [int(axis) for axis in given]
