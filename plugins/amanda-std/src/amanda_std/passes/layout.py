"""Layout assignment: ops brought to one layout, and transposes moved and cancelled.

A transpose sinks through elementwise ops, and through reductions, normalization and
concatenation, whose axes are renamed, until it meets its inverse or an op that
cannot read another order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from amanda.graph import Graph, Op, Parameter, Provenance
from amanda.mapping import Decline, RuleSet, constant_of
from amanda.passes import Rewriting
from amanda.tensors import Tensor, contiguous_array
from amanda_std import ops
from amanda_std.engine.traits import Trait
from amanda_std.engine.values import Tracing, Value, port_type, tracing
from amanda_std.hub.mapping_side import STD_SIDE
from amanda_std.hub.op_access import has_trait, is_std, op_arguments, operation_of
from amanda_std.ops import OPS
from amanda_std.ops.nn.convolution import input_first, to_channels_first
from amanda_std.passes import data_movement
from amanda_std.passes.data_movement import (
    TRANSPOSE,
    first_producer,
    full_permutation,
    inverse_permutation,
)
from amanda_std.passes.pointwise import is_pointwise

__all__ = ["assign_layout", "channels_first", "channels_last", "sink"]

FIRST, LAST = "NC*", "N*C"
_KERNEL = "kernel_layout"


def channels_last(graph: Graph) -> int:
    """Convert ops with a layout to channels-last; returns how many changed."""
    return _convert_layout(graph, LAST)


def channels_first(graph: Graph) -> int:
    """Convert ops with a layout to channels-first, and their kernels to the layout that
    ops have by default; returns how many changed."""
    return _convert_layout(graph, FIRST)


def assign_layout(graph: Graph, layout: str) -> int:
    """Convert ops to a layout where any has another one; returns how many changed.

    Transposes move only then, so other graphs stay as they are."""
    ops_with_layout = (op for op in graph.walk() if _has_layout(op.type))
    if any(_has_other_layout(op, layout) for op in ops_with_layout):
        return _convert_layout(graph, layout)
    return 0


def _has_other_layout(op: Op, layout: str) -> bool:
    return is_std(op) and (
        _needs_conversion(op, layout) or _needs_kernel_conversion(op, layout)
    )


def sink(graph: Graph) -> int:
    """Move transposes towards the results, where they cancel; returns how many
    moves."""
    return sum(
        _sinking_rules().rewrite(part, _transposes_and_users(part))
        for part in graph.graphs()
    )


def _transposes_and_users(graph: Graph) -> list[Op]:
    """The transposes of a graph, and the ops that read one."""
    found: dict[Op, None] = {}
    for op in graph:
        if _is_transpose(op) and (users := op.output.user_ops):
            found[op] = None
            found.update(dict.fromkeys(users))
    return [op for op in found if op.graph is graph]


def _convert_layout(graph: Graph, layout: str) -> int:
    """Convert each op in order and move the transposes that this adds."""
    rules, count = _sinking_rules(), 0
    for part in graph.graphs():
        with tracing(part) as into:
            for op in list(part):
                if op.graph is not part:
                    continue
                if _has_layout(op.type) and _has_other_layout(op, layout):
                    if _needs_kernel_conversion(op, layout):
                        _convert_kernel(part, op)
                    if _needs_conversion(op, layout):
                        _convert_op(part, op, layout, into)
                    count += 1
                else:
                    count += rules.rewrite_op(part, op)
    return count + sink(graph)


@cache
def _has_layout(op_type: str | None) -> bool:
    operation = None if op_type is None else OPS.get(op_type)
    return operation is not None and "layout" in operation.form.attributes


def _needs_conversion(op: Op, layout: str) -> bool:
    if len(op.outputs) != 1:
        return False  # several results: places within the data may be among them
    data, result = op.inputs[0], port_type(op.output).shape
    if data is None or not port_type(data).shape.has_rank or not result.has_rank:
        return False
    return _layout_of(op) != layout and port_type(data).shape.rank == result.rank


def _layout_of(op: Op, name: str = "layout") -> str:
    own = op.attrs.get(name) if op.has_attrs else None
    return str(operation_of(op).form.attributes[name] if own is None else own)


def _needs_kernel_conversion(op: Op, layout: str) -> bool:
    """Whether the kernel of a channels-first op has another layout than by default."""
    default = operation_of(op).form.attributes.get(_KERNEL)
    if layout != FIRST or default is None or _layout_of(op, _KERNEL) == default:
        return False
    kernel = op.inputs[_kernel_place(op)]
    return kernel is not None and port_type(kernel).shape.has_rank


def _kernel_place(op: Op) -> int:
    params = operation_of(op).form.params
    return next(i for i, param in enumerate(params) if param.name == "w")


def _convert_kernel(graph: Graph, op: Op) -> None:
    """Transpose the kernel of an op to the layout that it has by default."""
    at = _kernel_place(op)
    kernel = Value(op.inputs[at])  # type: ignore[arg-type]
    default = str(operation_of(op).form.attributes[_KERNEL])
    make_order = input_first if default.startswith("I") else to_channels_first
    order = make_order(_layout_of(op, _KERNEL), kernel.ndim)
    tensor = constant_of(kernel.port)
    with graph.before(op):
        if tensor is None:
            turned = data_movement.transpose_once(kernel, order).port
        else:
            turned = graph.constant(_transpose_tensor(tensor, order)).output
            turned.name = kernel.port.name
    op.input_ports[at].connect(turned)
    del op.attrs[_KERNEL]


def _convert_op(graph: Graph, op: Op, layout: str, into: Tracing) -> None:
    """Replace an op by one in another layout, between transposes."""
    data = Value(op.inputs[0])  # type: ignore[arg-type]
    order, back = _layout_permutations(_layout_of(op), layout, data.ndim)
    before = len(into.made)
    with graph.before(op):
        if None in op.inputs:
            args, attrs = op_arguments(op, Value)
        else:
            args = list(map(Value, op.inputs))  # type: ignore[arg-type]
            attrs = op.attrs if op.has_attrs else {}
        args[0] = data_movement.transpose_once(data, order)
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


def _transpose_tensor(tensor: Tensor, order: tuple[int, ...]) -> Tensor:
    """A constant transposed, when it is read."""
    shape = [tensor.shape[axis] for axis in order]
    return Tensor.lazy(
        lambda: contiguous_array(tensor.numpy().transpose(order)),
        tensor.dtype,
        shape,
    )


@cache
def _layout_permutations(
    own: str, layout: str, rank: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The permutation from one layout to another, and its inverse."""
    first, there = to_channels_first(own, rank), to_channels_first(layout, rank)
    order = tuple([first[inverse_permutation(there)[axis]] for axis in range(rank)])
    return order, inverse_permutation(order)


# -- transposes on their way ---------------------------------------------------------


@cache
def _sinking_rules() -> Rewriting:
    rules = RuleSet("sink", "amanda/std", "amanda/std")
    for name in OPS:
        rule = _transpose_rule(name)
        if rule is not None:
            rules.read(name)(rule)
    return Rewriting(rules, STD_SIDE, worth=_is_worth_matching)


def _is_transpose(op: Op) -> bool:
    return has_trait(op, Trait.PERMUTES_AXES)


def _is_worth_matching(op: Op) -> bool:
    """Whether an op reads a transposed value, or is an identity transpose."""
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


def _transpose_rule(name: str) -> Callable[..., Any] | None:
    """How an op lets a transpose through, by its traits; None if it does not."""
    operation = OPS[name]
    if name in _RULES:
        return _RULES[name]
    if Trait.REDUCTION in operation.traits:
        return _reduction_rule(name)
    if Trait.ALONG_AXES in operation.traits:
        has_many = "axes" in operation.form.attributes
        return _axes_rule(name) if has_many else _axis_rule(name)
    if operation.is_composite or is_pointwise(operation, {}, ()):
        return _elementwise(name)
    return None


def _elementwise(name: str) -> Callable[..., Any]:
    """Apply an elementwise op to the untransposed operands, then transpose."""
    operation = OPS[name]

    def past(*xs: Any, **attrs: Any) -> Any:
        orders = list(map(_permutation_of, xs))
        order = next((each for each in orders if each is not None), None)
        if order is None:
            raise Decline("nothing it reads is transposed")
        if not is_pointwise(operation, attrs, [x is not None for x in xs]):
            raise Decline(f"{name} does not go element by element")
        moved = [
            first_producer(x.port.op) if own == order else _undo_transpose(x, order)
            for x, own in zip(xs, orders, strict=True)
        ]
        if any(map(_is_input, moved)) and any(map(_is_input, xs)):
            raise Decline("one input of the graph would be transposed for another")
        return TRANSPOSE(operation(*moved, **attrs), perm=order)

    past.__name__ = name
    return past


def _is_input(x: Any) -> bool:
    return isinstance(x, Value) and isinstance(x.port, Parameter)


def _first_permutation(xs: Sequence[Any]) -> tuple[int, ...]:
    """The permutation of the first transposed operand."""
    for x in xs:
        found = _permutation_of(x)
        if found is not None:
            return found
    raise Decline("nothing it reads is transposed")


def _permutation_of(x: Any) -> tuple[int, ...] | None:
    """The permutation by which a value was transposed."""
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


def _undo_transpose(x: Any, order: tuple[int, ...]) -> Any:
    """An operand before the transpose; Decline if that needs another transpose."""
    if x is None:
        return None
    if not isinstance(x, Value):
        raise Decline("an argument decides the shape")
    if _permutation_of(x) == order:
        return first_producer(x.port.op)
    if x.ndim == 0:
        return x
    if not x.port.op.is_constant or x.ndim > len(order):
        return _existing_transpose(x, order)
    if x.ndim < len(order):
        x = ops.reshape(x, [*[1] * (len(order) - x.ndim), *x.type.shape])
    return TRANSPOSE(x, perm=inverse_permutation(order))


def _existing_transpose(x: Any, order: tuple[int, ...]) -> Any:
    """An input of the graph that another op already transposes this way.

    Only an input: the value of an op may be about to be transposed the other way."""
    if not _is_input(x):
        raise Decline("not all that it reads is transposed alike")
    for op in x.port.user_ops:
        made = Value(op.outputs[0]) if op.outputs else None
        if op.graph is x.port.graph and _permutation_of(made) == inverse_permutation(
            order
        ):
            return made
    raise Decline("not all that it reads is transposed alike")


def _axis_rule(name: str) -> Callable[..., Any]:
    """Rule of an op with an attribute `axis`: batch norm with its vectors, concat."""
    operation = OPS[name]
    joins = operation.form.params[0].variadic

    def past(*xs: Any, axis: int, **attrs: Any) -> Any:
        order = _first_permutation(xs if joins else xs[:1])
        renamed = order[axis % len(order)]
        moved = [
            _undo_transpose(x, order) if joins or not i else x for i, x in enumerate(xs)
        ]
        y = operation(*moved, axis=renamed, **attrs)
        return TRANSPOSE(y, perm=order)

    past.__name__ = name
    return past


def _axes_rule(name: str) -> Callable[..., Any]:
    """Rule of an op with an attribute `axes`."""
    operation = OPS[name]

    def past(x: Any, *, axes: Any, **attrs: Any) -> Any:
        order = _first_permutation([x])
        renamed = sorted(order[axis % len(order)] for axis in axes)
        y = operation(_undo_transpose(x, order), axes=tuple(renamed), **attrs)
        return TRANSPOSE(y, perm=order)

    past.__name__ = name
    return past


def _reduction_rule(name: str) -> Callable[..., Any]:
    """Rule of a reduction."""
    operation = OPS[name]

    def past(x: Any, axes: Any = None, *, keepdims: bool, **attrs: Any) -> Any:
        order = _first_permutation([x])
        gone = _static_axes(axes, len(order))
        renamed = sorted(order[axis] for axis in gone)
        y = operation(_undo_transpose(x, order), renamed, keepdims=keepdims, **attrs)
        if keepdims:
            return TRANSPOSE(y, perm=order)
        left = [order[axis] for axis in range(len(order)) if axis not in gone]
        return TRANSPOSE(y, perm=[sorted(left).index(axis) for axis in left])

    past.__name__ = name
    return past


def _static_axes(axes: Any, rank: int) -> set[int]:
    if axes is None:
        return set(range(rank))
    given = [axes] if isinstance(axes, int) else axes
    if not isinstance(given, list | tuple) or not all(type(a) is int for a in given):
        raise Decline("the axes are not constant")
    return {axis % rank for axis in given}


def _pad(x: Any, pads: Any, value: Any = None, axes: Any = None, **attrs: Any) -> Any:
    order = _first_permutation([x])
    if isinstance(pads, Value) or isinstance(axes, Value):
        raise Decline("the pads are not constant")
    at = range(len(order)) if axes is None else [a % len(order) for a in axes]
    renamed = dict(zip([order[axis] for axis in at], pads, strict=True))
    padded = sorted(renamed)
    y = ops.pad(
        _undo_transpose(x, order),
        [renamed[axis] for axis in padded],
        value,
        padded,
        **attrs,
    )
    return TRANSPOSE(y, perm=order)


_RULES: dict[str, Callable[..., Any]] = {
    "pad": _pad,
    "transpose": data_movement.transpose,
}
