"""Function calls, and functions with custom gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amanda.errors import InvalidTypeError, UsageError
from amanda.graph import Graph, Op, OutputPort
from amanda.types import TensorType
from amanda_std.engine.annotations import Anything, Body
from amanda_std.engine.function_lookup import find_function
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, array
from amanda_std.engine.values import Value, tracing
from amanda_std.ops.control.bodies import (
    discard,
    gradient_or_zeros,
    inline,
    result_types,
    without_static_content,
)
from amanda_std.ops.math.arithmetic import multiply

GRADIENT = "gradient"
"""Attribute of a graph's function that names its gradient function."""


@composite
def call(function: Body, *xs: Anything) -> tuple[Anything, ...]:
    """Call a body, or a function of the graph by name"""
    return inline(function, xs)


@call.infer
def _(function: Any, *xs: Any) -> Any:
    """A function of the graph has other callers, so a copy gets these types."""
    if not isinstance(function, Graph) or function.owner is None:
        return result_types(function, xs)
    copy = Graph(None, function.name, outer=function.owner)
    with tracing(copy):
        ports = [copy.parameter(t) for t in xs]
        for value in inline(function, ports):
            copy.result(None if value is None else value.port)
    try:
        return result_types(copy, xs)
    finally:
        discard(copy)


@call.bodies
def _(*xs: Any) -> Any:
    return {"function": xs}


@call.samples
def _() -> Samples:
    x = array([2.0, 3.0])
    yield Sample((_square, x), [array([4.0, 9.0])])
    both_ = [array([5.0, 7.0]), array([6.0, 12.0])]
    yield Sample((_sum_and_product, x, array([3.0, 4.0])), both_)


def _sum_and_product(a: Any, b: Any) -> Any:
    return a + b, a * b


@composite
def custom_gradient(
    forward: Body,
    backward: Body,  # noqa: ARG001  it is for gradients
    *xs: Anything,
) -> tuple[Anything, ...]:
    """forward(*xs), with gradients computed by backward(*xs, *results, *gradients)"""
    return inline(forward, xs)


def gradient_name(op: Op) -> str | None:
    """Name of the gradient function of a call; None to differentiate its body."""
    from amanda_std.hub.op_access import op_arguments

    if op.type != "call":
        return None
    function = op_arguments(op, Value)[0][0]
    given = function.attrs.get(GRADIENT) if function.has_attrs else None
    return getattr(given, "name", given)


def call_with_gradient(function: Any, *xs: Any) -> tuple[Any, ...]:
    """Expansion of `call` where the function has a gradient of its own."""
    backward = find_function(function, function.attrs[GRADIENT])
    outputs: tuple[Any, ...] = custom_gradient(
        lambda *values: inline(function, values),
        lambda *values: inline(backward, values),
        *xs,
    )
    return outputs


@custom_gradient.infer
def _(forward: Any, *xs: Any) -> Any:
    return result_types(forward, xs)


@custom_gradient.bodies
def _(forward: Any, *xs: Any) -> Any:
    outputs = [without_static_content(t) for t in result_types(forward, xs)]
    return {"forward": xs, "backward": [*xs, *outputs, *outputs]}


@custom_gradient.gradient
def _(g: Any, y: Any, op: Op, wanted: Sequence[OutputPort]) -> Any:
    xs = [v for v in op.inputs if v is not None]
    if any(port not in xs for port in wanted):
        raise UsageError(
            "its gradient covers its arguments only, but it captures other values",
            hint="pass them to forward as arguments",
        )
    given = [gradient_or_zeros(slope, value) for slope, value in zip(g, y, strict=True)]
    outputs = inline(op.bodies["backward"], [*map(Value, xs), *y, *given])
    if len(outputs) != len(xs):
        raise UsageError(
            "backward must return one gradient for each argument",
            expected=len(xs),
            got=len(outputs),
        )
    result: dict[OutputPort, Any] = {}
    for i, (port, gradient) in enumerate(zip(xs, outputs, strict=True)):
        _expect_shape(gradient, port, i)
        result[port] = result[port] + gradient if port in result else gradient
    return result


def _expect_shape(gradient: Any, x: OutputPort, place: int) -> None:
    """Raise if a gradient surely has another shape than its argument."""
    found, wanted = gradient.type, x.type
    if not isinstance(found, TensorType) or not isinstance(wanted, TensorType):
        return
    is_known = found.shape.is_static and wanted.shape.is_static
    if is_known and found.shape != wanted.shape:
        raise InvalidTypeError(
            "backward returns a gradient of another shape than its argument",
            where=f"argument {place}", expected=wanted.shape, got=found.shape,
        )  # fmt: skip


@custom_gradient.samples
def _() -> Samples:
    x = array([0.5, -1.25])
    yield Sample((_square, _square_back, x), [array([0.25, 1.5625])])


def _square_back(x: Any, _: Any, g: Any) -> Any:
    return g * x * 2.0


def _square(x: Any) -> Any:
    return multiply(x, x)
