"""Reverse mode, graph to graph.

The gradient of a complex z = a + bi is dL/da - i dL/db, as JAX has it: rules of
functions that complex analysis differentiates need no conjugates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from amanda.errors import AmandaError, InvalidTypeError, Undecided, UsageError
from amanda.graph import Graph, Op, OutputPort, Parameter
from amanda.types import TensorType, Type
from amanda_std.engine.operation import Operation
from amanda_std.engine.rule_binding import NoGradient
from amanda_std.engine.traits import Trait
from amanda_std.engine.values import (
    Tracing,
    Value,
    lift,
    port_type,
    tracing,
    value_type,
)
from amanda_std.hub.lowering import expand, expand_graph
from amanda_std.hub.op_access import (
    has_trait,
    inputs_and_captures,
    is_std,
    op_arguments,
    operation_of,
)
from amanda_std.ops.control.functions import call_with_gradient, gradient_name

_SLOPED = ("float", "complex", "unknown")


def grad(graph: Graph, of: OutputPort, wrt: Sequence[OutputPort]) -> list[OutputPort]:
    """The gradients of the sum of `of`, by each of `wrt`: values at the graph's end.

    Composites without a gradient of their own are expanded where they stand. Formulas
    of which the slope would overflow become what they mean, where `wrt` are inputs:
    the pass `stable`. What `of` does not depend on has a gradient of zeros."""
    _expect([of], ("float", "unknown"), "gradients are of real numbers")
    _expect(wrt, _SLOPED, "gradients are by real or complex numbers")
    if all(isinstance(port.resolve(), Parameter) for port in wrt):
        from amanda_std.passes.simplify import stable

        stable(graph)  # log(softmax(x)) has no slope where its formula underflows
    _expand_composites(graph, [of], wrt)
    from amanda_std.ops import OPS

    with tracing(graph) as into:
        of, targets = of.resolve(), [port.resolve() for port in wrt]
        seeds = {of: OPS["ones_like"](Value(of))}
        found = _pulled(graph, seeds, targets)
        return [_given(found.get(port), port, into) for port in targets]


def backpropagate(
    graph: Graph, seeds: Mapping[OutputPort, Any], wrt: Sequence[OutputPort]
) -> list[Any]:
    """The gradients by some values, from those of others, where ops are being added.

    `wrt` may be values around the graph, that it captures. None where there is none."""
    _expand_composites(graph, list(seeds), wrt)
    given: dict[OutputPort, Any] = {}
    for port, seed in seeds.items():
        _add(given, port.resolve(), seed)
    targets = [port.resolve() for port in wrt]
    found = _pulled(graph, given, targets)
    return [found.get(port) for port in targets]


def _pulled(
    graph: Graph, seeds: dict[OutputPort, Any], targets: Sequence[OutputPort]
) -> dict[OutputPort, Any]:
    """The gradients of all that is on the way from targets to seeds."""
    needed = dependents(graph, targets)
    found = dict(seeds)
    for op in reversed(_behind(graph, seeds)):
        if not any(port in needed for port in op.outputs):
            continue
        gradients = [found.get(port) for port in op.outputs]
        if any(g is not None for g in gradients):
            _backward(op, gradients, needed, found)
    return found


def _add(found: dict[OutputPort, Any], port: OutputPort, gradient: Any) -> None:
    old = found.get(port)
    found[port] = gradient if old is None else old + gradient


def _given(gradient: Any, port: OutputPort, into: Tracing) -> OutputPort:
    from amanda_std.ops import OPS

    if gradient is None:
        gradient = OPS["zeros_like"](Value(port))
    return lift(gradient, into)


def _expect(ports: Sequence[OutputPort], kinds: Sequence[str], what: str) -> None:
    for port in ports:
        dtype = port_type(port).dtype
        if dtype.kind not in kinds:
            raise InvalidTypeError(
                what, who=str(port), expected="a tensor of floats", got=dtype
            )


# -- what is on the way ----------------------------------------------------------


def dependents(graph: Graph, wrt: Sequence[OutputPort]) -> set[OutputPort]:
    """What depends on some values, through numbers that have slopes."""
    found = set(wrt)
    for op in graph:
        if has_trait(op, Trait.BLOCKS_GRADIENT) or op.is_constant:
            continue
        if any(v in found for v in inputs_and_captures(op)):
            found.update(p for p in op.outputs if is_differentiable_type(value_type(p)))
    return found


def is_differentiable_type(type: Type) -> bool:
    """Whether values of a type may have gradients; what holds floats would have."""
    if isinstance(type, TensorType):
        return type.dtype.kind in _SLOPED
    inner = [getattr(type, name, None) for name in ("element", "value")]
    parts = [*inner, *getattr(type, "items", ())]
    return any(
        isinstance(part, Type) and is_differentiable_type(part) for part in parts
    )


def _behind(graph: Graph, ports: Iterable[OutputPort]) -> list[Op]:
    """The ops of a graph that some of its values are made of, in order."""
    inside = [port for port in ports if port.graph is graph]
    return graph.upstream(*inside) if inside else []


def _expand_composites(
    graph: Graph, of: Sequence[OutputPort], wrt: Sequence[OutputPort]
) -> None:
    """Composites on the way become primitives, or at least ops with gradients."""
    targets = [port.resolve() for port in wrt]
    kept = {port.op for port in targets}
    on_way = dependents(graph, targets)
    waiting = [
        op
        for op in _behind(graph, [port.resolve() for port in of])
        if any(p in on_way for p in op.outputs)
    ]
    while waiting:
        op = waiting.pop()
        if op in kept:
            continue
        if isinstance(op, Graph):
            waiting += expand_graph(op, by="grad")
        elif is_std(op):
            operation = operation_of(op)
            if operation.is_composite and operation.gradient_rule is None:
                if _why_flat(operation, op) is not None:
                    continue
                own = call_with_gradient if gradient_name(op) else None
                try:
                    waiting += expand(op, own, by="grad")
                except Undecided as error:
                    raise _missing(op, error.message) from error


def _why_flat(operation: Operation, op: Op) -> str | None:
    """Why an op has no gradient; None where nothing is against it."""
    key = operation.differentiable_if
    told = op.attrs.get(key) if key is not None and op.has_attrs else None
    return operation.no_gradient if told is None else None


def _missing(op: Op, why: str) -> UsageError:
    return UsageError(
        f"{op.label} has no gradient",
        got=why,
        hint="stop the gradient there: ops.stop_gradient(x)",
    )


# -- one op ------------------------------------------------------------------------


def _backward(
    op: Op,
    gradients: Sequence[Any],
    needed: set[OutputPort],
    found: dict[OutputPort, Any],
) -> None:
    """The gradients of an op's results, handed to what it reads."""
    if op.is_constant:
        return
    wanted = [port for port in dict.fromkeys(inputs_and_captures(op)) if port in needed]
    if not wanted:  # it makes one of those that gradients are asked by
        return
    if isinstance(op, Graph) or not is_std(op):
        raise _missing(op, "it is no op of the hub set")
    operation = operation_of(op)
    if operation.gradient_rule is None:
        raise _missing(op, _why_flat(operation, op) or "no rule tells it")
    try:
        made = _by_rule(operation, op, gradients, wanted)
    except Undecided as error:
        raise _missing(op, error.message) from error
    except AmandaError as error:
        error.who = error.who or op.label
        raise
    for port, gradient in made:
        if port in needed and gradient is not None:
            if isinstance(gradient, NoGradient):
                raise _missing(op, gradient.why)
            _add(found, port, gradient)


def _by_rule(
    operation: Operation, op: Op, gradients: Sequence[Any], wanted: Sequence[OutputPort]
) -> list[tuple[OutputPort, Any]]:
    """What the rule of an op gives, with the values that it is for."""
    from amanda_std.ops import OPS

    assert operation.gradient_rule is not None
    args, attrs = op_arguments(op, Value)
    many = operation.form.many
    results = tuple(map(Value, op.outputs))
    made = operation.gradient_rule(
        args,
        attrs,
        g=gradients if many else gradients[0],
        y=results if many else results[0],
        op=op,
        wanted=wanted,
    )
    if isinstance(made, dict):
        return list(made.items())
    pairs = []
    for argument, gradient in zip(args, made, strict=False):
        if not isinstance(argument, Value) or argument.port not in wanted:
            continue
        if operation.sums_gradients and not isinstance(gradient, NoGradient | None):
            gradient = OPS["sum_to"](gradient, argument)
        pairs.append((argument.port, gradient))
    return pairs
