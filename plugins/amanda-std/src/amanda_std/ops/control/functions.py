"""Functions: called by name, or with gradients of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amanda.errors import UsageError
from amanda.graph import Graph, Op, OutputPort
from amanda_std.engine.annotations import Anything, Body
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, array
from amanda_std.engine.values import Value, tracing
from amanda_std.ops.control.bodies import discard, filled, pasted, plain, result_types
from amanda_std.ops.math.arithmetic import multiply

GRADIENT = "gradient"
"""The attribute of a function of a graph that names the one of its gradients."""


@composite
def call(function: Body, *xs: Anything) -> tuple[Anything, ...]:
    """What a function makes of xs: a body, or a function of the graph by its name"""
    return pasted(function, xs)


@call.infer
def _(function: Any, *xs: Any) -> Any:
    """A function of the graph has other calls too, so a copy gets these types."""
    if not isinstance(function, Graph) or function.root is None:
        return result_types(function, xs)
    copy = Graph(None, function.name, outer=function.root)
    with tracing(copy):
        ports = [copy.parameter(t) for t in xs]
        for value in pasted(function, ports):
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
    """forward(*xs), whose gradients backward(*xs, *results, *gradients) tells"""
    return pasted(forward, xs)


def gradient_name(op: Op) -> str | None:
    """The function that tells the gradients of what an op calls; None for the op's own
    meaning."""
    from amanda_std.hub.op_access import op_arguments

    if op.type != "call":
        return None
    function = op_arguments(op, Value)[0][0]
    told = function.attrs.get(GRADIENT) if function.has_attrs else None
    return getattr(told, "name", told)


def by_its_gradient(function: Any, *xs: Any) -> tuple[Any, ...]:
    """What `call` means where the function has gradients of its own."""
    from amanda_std.hub.op_access import find_function

    backward = find_function(function, function.attrs[GRADIENT])
    made: tuple[Any, ...] = custom_gradient(
        lambda *values: pasted(function, values),
        lambda *values: pasted(backward, values),
        *xs,
    )
    return made


@custom_gradient.infer
def _(forward: Any, *xs: Any) -> Any:
    return result_types(forward, xs)


@custom_gradient.bodies
def _(forward: Any, *xs: Any) -> Any:
    made = [plain(t) for t in result_types(forward, xs)]
    return {"forward": xs, "backward": [*xs, *made, *made]}


@custom_gradient.gradient
def _(g: Any, y: Any, op: Op, wanted: Sequence[OutputPort]) -> Any:
    xs = [v for v in op.inputs if v is not None]
    if any(port not in xs for port in wanted):
        raise UsageError(
            "it has gradients by its arguments only, and reads other values too",
            hint="hand them to forward as arguments",
        )
    given = [filled(slope, value) for slope, value in zip(g, y, strict=True)]
    made = pasted(op.bodies["backward"], [*map(Value, xs), *y, *given])
    if len(made) != len(xs):
        raise UsageError(
            "backward returns a gradient for each argument",
            expected=len(xs),
            got=len(made),
        )
    found: dict[OutputPort, Any] = {}
    for port, gradient in zip(xs, made, strict=True):
        found[port] = found[port] + gradient if port in found else gradient
    return found


@custom_gradient.samples
def _() -> Samples:
    x = array([0.5, -1.25])
    yield Sample((_square, _square_back, x), [array([0.25, 1.5625])])


def _square_back(x: Any, _: Any, g: Any) -> Any:
    return g * x * 2.0


def _square(x: Any) -> Any:
    return multiply(x, x)
