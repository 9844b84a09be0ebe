"""Reverse-mode differentiation from graph to graph.

The gradient of a complex z = a + bi is dL/da - i dL/db, as in JAX: rules of
holomorphic functions need no conjugates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from amanda.errors import (
    AmandaError,
    GraphError,
    InvalidTypeError,
    Undecided,
    UsageError,
)
from amanda.graph import Graph, Op, OutputPort, Provenance
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
from amanda_std.hub.expansion import expand, expand_graph
from amanda_std.hub.op_access import (
    has_trait,
    inputs_and_captures,
    is_std,
    operation_of,
    traced_arguments,
)
from amanda_std.ops.control.functions import call_with_gradient, gradient_name

_DIFFERENTIABLE_KINDS = ("float", "complex", "unknown")

BY = "gradient"
"""What made the ops of gradients; their provenance names the forward op."""

Hooks = Mapping[OutputPort, Sequence[Callable[[Any], Any]]]
"""Functions of the complete gradient of a value, which may return another one."""


def grad(graph: Graph, of: OutputPort, wrt: Sequence[OutputPort]) -> list[OutputPort]:
    """Gradients of the sum of `of` with respect to each of `wrt`, at the graph's end.

    The pass `stable` first replaces formulas whose gradient would overflow, as every
    compilation does. Composites without a gradient of their own are expanded in place.
    A value that `of` does not depend on has a gradient of zeros."""
    return grad_with_hooks(graph, of, wrt, {})


def grad_with_hooks(
    graph: Graph, of: OutputPort, wrt: Sequence[OutputPort], hooks: Hooks
) -> list[OutputPort]:
    """The same, with hooks.

    A hook of a value is called once, with its complete gradient; what it returns, if
    that is not None, takes the place of the gradient."""
    _expect_kinds([of], ("float", "unknown"), "gradients are of real numbers")
    _expect_kinds(
        wrt, _DIFFERENTIABLE_KINDS, "gradients are by real or complex numbers"
    )
    from amanda_std.ops import OPS
    from amanda_std.passes.containers import containers
    from amanda_std.passes.stable import stable

    stable(graph, [port.resolve() for port in wrt])
    containers(graph)
    _expand_composites(graph, [of], wrt)

    with tracing(graph) as into:
        of, targets = of.resolve(), [port.resolve() for port in wrt]
        seeds = {of: OPS["ones_like"](Value(of))}
        resolved = {port.resolve(): calls for port, calls in hooks.items()}
        found = _propagate(graph, seeds, targets, resolved)
        return [_gradient_or_zeros(found.get(port), port, into) for port in targets]


def backpropagate(
    graph: Graph, seeds: Mapping[OutputPort, Any], wrt: Sequence[OutputPort]
) -> list[Any]:
    """Vector-Jacobian products: gradients by `wrt`, from gradients of other values.

    The ops are added at the insertion point. `wrt` may be values that the graph
    captures. None where there is no gradient."""
    _expand_composites(graph, list(seeds), wrt)
    given: dict[OutputPort, Any] = {}
    for port, seed in seeds.items():
        _accumulate(given, port.resolve(), seed)
    targets = [port.resolve() for port in wrt]
    found = _propagate(graph, given, targets)
    return [found.get(port) for port in targets]


def _propagate(
    graph: Graph,
    seeds: dict[OutputPort, Any],
    targets: Sequence[OutputPort],
    hooks: Hooks | None = None,
) -> dict[OutputPort, Any]:
    """The gradients of all values between the targets and the seeds.

    With hooks, the ops have the forward op as their provenance."""
    needed = dependents(graph, targets)
    found = dict(seeds)
    upstream = _upstream_ops(graph, seeds)
    if any(op.feedback for op in upstream):
        raise GraphError(
            "a value that depends on feedback edges has no gradient",
            problems=[op.label for op in upstream if op.feedback],
            hint="write the loop with ops that have bodies: loop, while, scan",
        )
    for op in reversed(upstream):
        if not any(port in needed for port in op.outputs):
            continue
        if hooks:
            _call_hooks(hooks, op.outputs, found)
        gradients = [found.get(port) for port in op.outputs]
        if any(g is not None for g in gradients):
            origin = None if hooks is None else _forward_origin(op)
            with tracing(graph, None, origin):
                _backward(op, gradients, needed, found)
    if hooks:
        _call_hooks(hooks, graph.parameters, found)
    return found


def _forward_origin(op: Op) -> Provenance:
    """The provenance of the ops that compute the gradient of an op."""
    made = op.provenance
    names = (op.name,) if op.name else made.sources if made is not None else ()
    return Provenance(names, BY)


def _call_hooks(
    hooks: Hooks, ports: Sequence[OutputPort], found: dict[OutputPort, Any]
) -> None:
    """Call the hooks of values whose gradients are complete."""
    for port in ports:
        for hook in hooks.get(port, ()):
            if (gradient := found.get(port)) is not None:
                other = hook(gradient)
                found[port] = gradient if other is None else other


def _accumulate(found: dict[OutputPort, Any], port: OutputPort, gradient: Any) -> None:
    old = found.get(port)
    found[port] = gradient if old is None else old + gradient


def _gradient_or_zeros(gradient: Any, port: OutputPort, into: Tracing) -> OutputPort:
    from amanda_std.ops import OPS

    if gradient is None:
        gradient = OPS["zeros_like"](Value(port))
    return lift(gradient, into)


def _expect_kinds(ports: Sequence[OutputPort], kinds: Sequence[str], what: str) -> None:
    for port in ports:
        dtype = port_type(port).dtype
        if dtype.kind not in kinds:
            raise InvalidTypeError(
                what, who=str(port), expected="a tensor of floats", got=dtype
            )


# -- what is on the way ----------------------------------------------------------


def dependents(graph: Graph, wrt: Sequence[OutputPort]) -> set[OutputPort]:
    """The values that depend on `wrt` through differentiable types."""
    found = set(wrt)
    for op in graph:
        if has_trait(op, Trait.BLOCKS_GRADIENT) or op.is_constant:
            continue
        if any(v in found for v in inputs_and_captures(op)):
            found.update(p for p in op.outputs if is_differentiable_type(value_type(p)))
    return found


def is_differentiable_type(type: Type) -> bool:
    """Whether values of a type may have gradients; so may containers of floats."""
    if isinstance(type, TensorType):
        return type.dtype.kind in _DIFFERENTIABLE_KINDS
    inner = [getattr(type, name, None) for name in ("element", "value")]
    parts = [*inner, *getattr(type, "items", ())]
    return any(
        isinstance(part, Type) and is_differentiable_type(part) for part in parts
    )


def _upstream_ops(graph: Graph, ports: Iterable[OutputPort]) -> list[Op]:
    """The ops of a graph that some of its values depend on, in order."""
    inside = [port for port in ports if port.graph is graph]
    return graph.upstream(*inside) if inside else []


def _expand_composites(
    graph: Graph, of: Sequence[OutputPort], wrt: Sequence[OutputPort]
) -> None:
    """Expand composites in between to primitives, or to ops with gradients."""
    targets = [port.resolve() for port in wrt]
    kept = {port.op for port in targets}
    on_way = dependents(graph, targets)
    waiting = [
        op
        for op in _upstream_ops(graph, [port.resolve() for port in of])
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
                if _why_no_gradient(operation, op) is not None:
                    continue
                own = call_with_gradient if gradient_name(op) else None
                try:
                    waiting += expand(op, own, by="grad")
                except Undecided as error:
                    raise _no_gradient_error(op, error.message) from error


def _why_no_gradient(operation: Operation, op: Op) -> str | None:
    """Why an op has no gradient, or None."""
    key = operation.differentiable_if
    setting = op.attrs.get(key) if key is not None and op.has_attrs else None
    return operation.no_gradient if setting is None else None


def _no_gradient_error(op: Op, why: str) -> UsageError:
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
    """Add the gradients of an op's inputs, from those of its results."""
    if op.is_constant:
        return
    wanted = [port for port in dict.fromkeys(inputs_and_captures(op)) if port in needed]
    if not wanted:  # it makes one of those that gradients are asked by
        return
    if isinstance(op, Graph) or not is_std(op):
        raise _no_gradient_error(op, "it is no op of the hub set")
    operation = operation_of(op)
    if operation.gradient_rule is None:
        raise _no_gradient_error(
            op, _why_no_gradient(operation, op) or "no rule tells it"
        )
    try:
        made = _gradients_by_rule(operation, op, gradients, wanted)
    except Undecided as error:
        raise _no_gradient_error(op, error.message) from error
    except AmandaError as error:
        error.who = error.who or op.label
        raise
    for port, gradient in made:
        if port in needed and gradient is not None:
            if isinstance(gradient, NoGradient):
                raise _no_gradient_error(op, gradient.why)
            _accumulate(found, port, gradient)


def _gradients_by_rule(
    operation: Operation, op: Op, gradients: Sequence[Any], wanted: Sequence[OutputPort]
) -> list[tuple[OutputPort, Any]]:
    """The gradients by the op's rule, with the values that they belong to."""
    from amanda_std.ops import OPS

    assert operation.gradient_rule is not None
    args, attrs = traced_arguments(op)
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
