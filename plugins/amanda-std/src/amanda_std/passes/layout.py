"""Layouts: ops brought to one, and the transposes that this takes moved and cancelled.

A transpose sinks: past what goes element by element, past reductions, normalisations
and joins, whose axes are renamed, until it meets its inverse, or stays before what
cannot be read in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from amanda.graph import Graph, Op, Parameter, Provenance
from amanda.mapping import Decline, RuleSet
from amanda.passes import Rewriting
from amanda_std import ops
from amanda_std.engine.traits import Trait
from amanda_std.engine.values import Tracing, Value, port_type, tracing
from amanda_std.hub.mapping_side import STD_SIDE
from amanda_std.hub.op_access import is_std, op_arguments, operation_of
from amanda_std.ops import OPS
from amanda_std.ops.nn.convolution import to_channels_first
from amanda_std.passes import movements
from amanda_std.passes.movements import (
    TRANSPOSE,
    first_producer,
    full_permutation,
    inverse_permutation,
)
from amanda_std.passes.pointwise import is_pointwise

__all__ = ["channels_first", "channels_last", "sink"]

FIRST, LAST = "NC*", "N*C"


def channels_last(graph: Graph) -> int:
    """Brings what has a layout to channels behind; how many ops changed."""
    return _brought(graph, LAST)


def channels_first(graph: Graph) -> int:
    """Brings what has a layout to channels in front; how many ops changed."""
    return _brought(graph, FIRST)


def sink(graph: Graph) -> int:
    """Moves transposes towards the results, where they cancel; how many moves."""
    return sum(_sinking().rewrite(part, _moved(part)) for part in graph.graphs())


def _moved(graph: Graph) -> list[Op]:
    """The transposes of a graph, and what reads one."""
    found: dict[Op, None] = {}
    for op in graph:
        if _is_transpose(op) and (users := op.output.user_ops):
            found[op] = None
            found.update(dict.fromkeys(users))
    return [op for op in found if op.graph is graph]


def _brought(graph: Graph, layout: str) -> int:
    """Each op in its turn: what it reads was brought, and the transposes moved."""
    rules, laid, count = _sinking(), _laid(), 0
    for part in graph.graphs():
        with tracing(part) as into:
            for op in list(part):
                if op.graph is not part:
                    continue
                if op.type in laid and is_std(op) and _differs(op, layout):
                    _bring(part, op, layout, into)
                    count += 1
                else:
                    count += rules.once(part, op)
    return count + sink(graph)


@cache
def _laid() -> frozenset[str]:
    """The types of ops that have a layout."""
    return frozenset(n for n, each in OPS.items() if "layout" in each.form.attributes)


def _differs(op: Op, layout: str) -> bool:
    if len(op.outputs) != 1:
        return False  # several results: places within the data may be among them
    data, result = op.inputs[0], port_type(op.output).shape
    if data is None or not port_type(data).shape.has_rank or not result.has_rank:
        return False
    return _layout(op) != layout and port_type(data).shape.rank == result.rank


def _layout(op: Op) -> str:
    told = op.attrs.get("layout") if op.has_attrs else None
    return str(operation_of(op).form.attributes["layout"] if told is None else told)


def _bring(graph: Graph, op: Op, layout: str, into: Tracing) -> None:
    """The op in another layout, between transposes."""
    data = Value(op.inputs[0])  # type: ignore[arg-type]
    order, back = _orders(_layout(op), layout, data.ndim)
    before = len(into.made)
    with graph.before(op):
        if None in op.inputs:
            args, attrs = op_arguments(op, Value)
        else:
            args = list(map(Value, op.inputs))  # type: ignore[arg-type]
            attrs = op.attrs if op.has_attrs else {}
        args[0] = movements.transpose_once(data, order)
        made = operation_of(op)(*args, **{**attrs, "layout": layout})
        restored = TRANSPOSE(made, perm=back).port
    sources = op.provenance.sources if op.provenance else (op.name or op.type or "?",)
    origin = Provenance(sources, "layout")
    for each in into.made[before:]:
        each.provenance = origin
    name, label = op.name, op.output.name
    graph.replace(op, [restored], "layout")
    restored.name = label
    if name is not None:
        graph.rename(made.port.op, name)


@cache
def _orders(
    own: str, layout: str, rank: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The order of axes that brings one layout to another, and the one back."""
    first, there = to_channels_first(own, rank), to_channels_first(layout, rank)
    order = tuple([first[inverse_permutation(there)[axis]] for axis in range(rank)])
    return order, inverse_permutation(order)


# -- transposes on their way ---------------------------------------------------------


@cache
def _sinking() -> Rewriting:
    rules = RuleSet("sink", "amanda/std", "amanda/std")
    for name in OPS:
        rule = _rule(name)
        if rule is not None:
            rules.read(name)(rule)
    return Rewriting(rules, STD_SIDE, worth=_reads_moved)


def _is_transpose(op: Op) -> bool:
    return op.type == "transpose" and is_std(op)


def _reads_moved(op: Op) -> bool:
    """Does it read what a transpose makes, or is it one that does nothing?"""
    for value in op.inputs:
        if value is not None and _is_transpose(value.op):
            return True
    if not _is_transpose(op):
        return False
    perm = op.attrs.get("perm") if op.has_attrs else None
    if perm is None:
        shape = port_type(op.output).shape
        return shape.has_rank and shape.rank < 2
    return full_permutation(perm, len(perm)) == tuple(range(len(perm)))


def _rule(name: str) -> Callable[..., Any] | None:
    """How an op lets a transpose through, by its traits; None where it does not."""
    operation = OPS[name]
    if name in _RULES:
        return _RULES[name]
    if Trait.REDUCTION in operation.traits:
        return _reduction(name)
    if Trait.ALONG_AXES in operation.traits:
        has_many = "axes" in operation.form.attributes
        return _axes_renamed(name) if has_many else _axis_renamed(name)
    if operation.is_composite or is_pointwise(operation, {}, ()):
        return _elementwise(name)
    return None


def _elementwise(name: str) -> Callable[..., Any]:
    """What goes element by element reads its operands as they were before."""
    operation = OPS[name]

    def past(*xs: Any, **attrs: Any) -> Any:
        orders = list(map(_order, xs))
        order = next((each for each in orders if each is not None), None)
        if order is None:
            raise Decline("nothing it reads is transposed")
        if not is_pointwise(operation, attrs, [x is not None for x in xs]):
            raise Decline(f"{name} does not go element by element")
        moved = [
            first_producer(x.port.op) if own == order else _as_before(x, order)
            for x, own in zip(xs, orders, strict=True)
        ]
        if any(map(_is_input, moved)) and any(map(_is_input, xs)):
            raise Decline("one input of the graph would be transposed for another")
        return TRANSPOSE(operation(*moved, **attrs), perm=order)

    past.__name__ = name
    return past


def _is_input(x: Any) -> bool:
    return isinstance(x, Value) and isinstance(x.port, Parameter)


def _order_of_one(xs: Sequence[Any]) -> tuple[int, ...]:
    """The order that some operand was brought to."""
    for x in xs:
        found = _order(x)
        if found is not None:
            return found
    raise Decline("nothing it reads is transposed")


def _order(x: Any) -> tuple[int, ...] | None:
    """The order that a transpose brought a value to."""
    if not isinstance(x, Value) or isinstance(x.port, Parameter):
        return None
    op = x.port.op
    if not _is_transpose(op):
        return None
    perm = op.attrs.get("perm")
    if perm is not None:
        return full_permutation(perm, len(perm))
    shape = port_type(x.port).shape
    return full_permutation(None, shape.rank) if shape.has_rank else None


def _as_before(x: Any, order: tuple[int, ...]) -> Any:
    """An operand as it is before the transpose; Decline if that takes another one."""
    if x is None:
        return None
    if not isinstance(x, Value):
        raise Decline("an argument decides the shape")
    if _order(x) == order:
        return first_producer(x.port.op)
    if x.ndim == 0:
        return x
    if not x.port.op.is_constant or x.ndim > len(order):
        return _brought_before(x, order)
    if x.ndim < len(order):
        x = ops.reshape(x, [*[1] * (len(order) - x.ndim), *x.type.shape])
    return TRANSPOSE(x, perm=inverse_permutation(order))


def _brought_before(x: Any, order: tuple[int, ...]) -> Any:
    """An input of the graph that some op transposed the right way already.

    Only an input: what an op makes may be about to be transposed the other way."""
    if not _is_input(x):
        raise Decline("not all that it reads is transposed alike")
    for op in x.port.user_ops:
        made = Value(op.outputs[0]) if op.outputs else None
        if op.graph is x.port.graph and _order(made) == inverse_permutation(order):
            return made
    raise Decline("not all that it reads is transposed alike")


def _axis_renamed(name: str) -> Callable[..., Any]:
    """What has an attribute `axis`: a norm over channels with its vectors, a join."""
    operation = OPS[name]
    joins = operation.form.params[0].variadic

    def past(*xs: Any, axis: int, **attrs: Any) -> Any:
        order = _order_of_one(xs if joins else xs[:1])
        renamed = order[axis % len(order)]
        moved = [
            _as_before(x, order) if joins or not i else x for i, x in enumerate(xs)
        ]
        y = operation(*moved, axis=renamed, **attrs)
        return TRANSPOSE(y, perm=order)

    past.__name__ = name
    return past


def _axes_renamed(name: str) -> Callable[..., Any]:
    operation = OPS[name]

    def past(x: Any, *, axes: Any, **attrs: Any) -> Any:
        order = _order_of_one([x])
        renamed = sorted(order[axis % len(order)] for axis in axes)
        y = operation(_as_before(x, order), axes=tuple(renamed), **attrs)
        return TRANSPOSE(y, perm=order)

    past.__name__ = name
    return past


def _reduction(name: str) -> Callable[..., Any]:
    operation = OPS[name]

    def past(x: Any, axes: Any = None, *, keepdims: bool, **attrs: Any) -> Any:
        order = _order_of_one([x])
        gone = _axes_told(axes, len(order))
        renamed = sorted(order[axis] for axis in gone)
        y = operation(_as_before(x, order), renamed, keepdims=keepdims, **attrs)
        if keepdims:
            return TRANSPOSE(y, perm=order)
        left = [order[axis] for axis in range(len(order)) if axis not in gone]
        return TRANSPOSE(y, perm=[sorted(left).index(axis) for axis in left])

    past.__name__ = name
    return past


def _axes_told(axes: Any, rank: int) -> set[int]:
    if axes is None:
        return set(range(rank))
    told = [axes] if isinstance(axes, int) else axes
    if not isinstance(told, list | tuple) or not all(type(a) is int for a in told):
        raise Decline("the axes are not told")
    return {axis % rank for axis in told}


def _pad(x: Any, pads: Any, value: Any = None, axes: Any = None, **attrs: Any) -> Any:
    order = _order_of_one([x])
    if isinstance(pads, Value) or isinstance(axes, Value):
        raise Decline("the pads are not constant")
    at = range(len(order)) if axes is None else [a % len(order) for a in axes]
    renamed = dict(zip([order[axis] for axis in at], pads, strict=True))
    padded = sorted(renamed)
    y = ops.pad(
        _as_before(x, order), [renamed[axis] for axis in padded], value, padded, **attrs
    )
    return TRANSPOSE(y, perm=order)


_RULES: dict[str, Callable[..., Any]] = {"pad": _pad, "transpose": movements.transpose}
