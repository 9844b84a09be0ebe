"""Reverse mode, graph to graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amanda.errors import AmandaError, InvalidTypeError, Undecided, UsageError
from amanda.graph import Graph, Op, OutputPort
from amanda_std.lowering import expand
from amanda_std.reading import arguments, is_constant, is_std, operation_of
from amanda_std.values import Tracing, Value, lift, port_type, tracing

_REAL = "float"


def grad(graph: Graph, of: OutputPort, wrt: Sequence[OutputPort]) -> list[OutputPort]:
    """The gradients of the sum of `of`, by each of `wrt`: values at the graph's end.

    Composites without a gradient of their own are expanded where they stand. What
    `of` does not depend on has a gradient of zeros."""
    _expect_real([of, *wrt])
    _expand_composites(graph, wrt)
    of, targets = of.resolve(), [port.resolve() for port in wrt]
    needed = _reached(graph, targets)
    order = [op for op in graph if any(port in needed for port in op.outputs)]
    with tracing(graph) as into:
        from amanda_std.ops import OPS

        found: dict[OutputPort, Any] = {of: OPS["ones_like"](Value(of))}
        for op in reversed(order):
            gradients = [found.get(port) for port in op.outputs]
            if any(g is not None for g in gradients):
                _backward(op, gradients, needed, found)
        return [_given(found.get(port), port, into) for port in targets]


def _given(gradient: Any, port: OutputPort, into: Tracing) -> OutputPort:
    from amanda_std.ops import OPS

    if gradient is None:
        gradient = OPS["zeros_like"](Value(port))
    return lift(gradient, into)


def _expect_real(ports: Sequence[OutputPort]) -> None:
    for port in ports:
        dtype = port_type(port).dtype
        if dtype.kind not in (_REAL, "unknown"):
            raise InvalidTypeError(
                "gradients are of and by real numbers",
                who=str(port),
                expected="a tensor of floats",
                got=dtype,
            )


def _reached(graph: Graph, wrt: Sequence[OutputPort]) -> set[OutputPort]:
    """What depends on some values, through numbers that have slopes."""
    found = set(wrt)
    for op in graph:
        if op.type == "stop_gradient" or is_constant(op):
            continue
        reads = [v for v in op.inputs if v is not None]
        reads += [v for body in op.bodies.values() for v in body.captures]
        if any(v in found for v in reads):
            found.update(p for p in op.outputs if _has_slope(p))
    return found


def _has_slope(port: OutputPort) -> bool:
    return port_type(port).dtype.kind in ("float", "complex", "unknown")


def _expand_composites(graph: Graph, wrt: Sequence[OutputPort]) -> None:
    """Composites on the way become primitives, or at least ops with gradients."""
    reached = _reached(graph, [port.resolve() for port in wrt])
    waiting = [op for op in graph if any(p in reached for p in op.outputs)]
    while waiting:
        op = waiting.pop()
        if op in _targets(wrt) or not is_std(op):
            continue
        operation = operation_of(op)
        if operation.is_composite and operation.gradient_rule is None:
            try:
                waiting += expand(op, by="grad")
            except Undecided as error:
                raise _missing(op, error.message) from error


def _targets(wrt: Sequence[OutputPort]) -> set[Op]:
    return {port.resolve().op for port in wrt}


def _missing(op: Op, why: str) -> UsageError:
    return UsageError(
        f"{op.label} has no gradient",
        got=why,
        hint="stop the gradient there: ops.stop_gradient(x)",
    )


def _backward(
    op: Op,
    gradients: Sequence[Any],
    needed: set[OutputPort],
    found: dict[OutputPort, Any],
) -> None:
    """The gradients of an op's results, handed to its inputs."""
    if isinstance(op, Graph) or not is_std(op):
        if is_constant(op):
            return
        raise _missing(op, "it is no op of the hub set")
    from amanda_std.ops import OPS

    operation = operation_of(op)
    if operation.gradient_rule is None:
        raise _missing(op, operation.no_gradient or "no rule tells it")
    args, attrs = arguments(op, Value)
    many = operation.form.many
    results = tuple(map(Value, op.outputs))
    try:
        made = operation.gradient_rule(
            args,
            attrs,
            g=gradients if many else gradients[0],
            y=results if many else results[0],
        )
    except Undecided as error:
        raise _missing(op, error.message) from error
    except AmandaError as error:
        error.who = error.who or op.label
        raise
    for argument, gradient in zip(args, made, strict=False):
        if gradient is None or not isinstance(argument, Value):
            continue
        if argument.port in needed:
            if operation.sums_gradients:
                gradient = OPS["sum_to"](gradient, argument)
            old = found.get(argument.port)
            found[argument.port] = gradient if old is None else old + gradient
