"""Training steps as graphs: forward, backward, and the update of variables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from amanda.errors import InvalidTypeError, UsageError
from amanda.frontend import TrainingGraph
from amanda.graph import Graph, Op, OutputPort, unused_name
from amanda.tensors import Tensor
from amanda.types import DType, RefType, Shape, TensorType
from amanda_std.autodiff.gradients import grad
from amanda_std.autodiff.weights import (
    choose_weights,
    find_constants,
    inline_functions,
    lift_constant,
)
from amanda_std.engine.annotations import TENSOR
from amanda_std.engine.operation import Operation
from amanda_std.engine.values import Value, port_type, tracing
from amanda_std.hub.effect_order import effect_of
from amanda_std.ops.control.state import assign, assign_add, read, variable
from amanda_std.ops.tensor.shape import astype
from amanda_std.passes.infer import infer

__all__ = ["training_graph"]

_SUFFIX = "_step"
_RATE, _STEP = "rate", "step"
"""Arguments of an optimizer's step that are no state: see `ops.training`."""
_STEP_KEY = "step"


def training_graph(
    model: Graph,
    loss: str | Callable[..., Any],
    given: Mapping[str, Any],
    optimizer: str,
    weights: Iterable[str] | None,
    settings: Mapping[str, Any],
) -> TrainingGraph:
    """The graph of one step of an optimizer; see `amanda.train`.

    `given` are arrays for the inputs that only the loss has."""
    step = _find_step(optimizer, settings)
    inline_functions(model)
    graph = model.clone()
    constants = find_constants(model, graph)
    infer(graph)
    with tracing(graph):
        value = _add_loss(graph, loss, given)
        chosen = choose_weights(graph, constants, weights, value.port)
        held = {name: _as_variable(graph, constants[name].op, name) for name in chosen}
        infer(graph)
        rate = Value(graph.parameter(TensorType("float32", ()), "learning_rate"))
        number = _count_steps(graph)
        apply_step = partial(_update, step, settings, rate, number)
        ports = [before.port for _, before in held.values()]
        gradients = grad(graph, value.port.resolve(), ports)
        for name, gradient in zip(held, gradients, strict=True):
            apply_step(name, *held[name], Value(gradient))
    for index in reversed(range(len(graph.results))):
        graph.remove_result(index)
    graph.result(value.port.resolve(), "loss")
    variables = dict(map(_variable_shape, _variables(graph)))
    keys = {name: name for name in chosen}
    originals = {name: constants[name].original for name in chosen}
    return TrainingGraph(graph, keys, variables, model, originals)


def _count_steps(graph: Graph) -> Value:
    """The number of this step, from 1, held by a variable."""
    taken = {op.attrs["key"] for op in _variables(graph)}
    key = unused_name(_STEP_KEY, taken.__contains__)
    return assign_add(variable(_zero_step(), key=key), _one_step())  # type: ignore[no-any-return]


def _variables(graph: Graph) -> list[Op]:
    return [op for op in graph if effect_of(op) == "holds"]


def _variable_shape(op: Op) -> tuple[str, tuple[int, ...]]:
    """The key and the shape of a variable."""
    held = op.output.type
    element = held.element if isinstance(held, RefType) else None
    assert isinstance(element, TensorType)
    return str(op.attrs["key"]), tuple(map(int, element.shape.dims))


def _zero_step() -> Any:
    import numpy as np

    return np.zeros((), "int64")


def _one_step() -> Any:
    import numpy as np

    return np.ones((), "int64")


def _find_step(optimizer: str, settings: Mapping[str, Any]) -> Operation:
    """The op of an optimizer's step; its settings are checked."""
    from amanda_std.ops import OPS

    known = sorted(n.removesuffix(_SUFFIX) for n in OPS if n.endswith(_SUFFIX))
    if optimizer not in known:
        raise UsageError(
            f"there is no optimizer {optimizer!r}", expected=", ".join(known)
        )
    step = OPS[f"{optimizer}{_SUFFIX}"]
    attributes = list(step.form.attributes)
    unknown = [name for name in settings if name not in attributes]
    if unknown:
        raise UsageError(
            f"the optimizer {optimizer} has no setting {unknown[0]!r}",
            expected=", ".join(attributes),
        )
    return step


def _add_loss(
    graph: Graph, loss: str | Callable[..., Any], given: Mapping[str, Any]
) -> Value:
    """The value of the loss, a number."""
    results = {
        str(port.name): Value(value)
        for port, value in zip(graph.outputs, graph.results, strict=True)
        if value is not None
    }
    if isinstance(loss, str):
        if loss not in results:
            raise UsageError(
                f"the model has no result {loss!r}", expected=", ".join(results)
            )
        value = results[loss]
    else:
        inputs = [graph.parameter(_type_of(graph, x), n) for n, x in given.items()]
        value = loss(results, *map(Value, inputs))
        if not isinstance(value, Value):
            raise UsageError(
                "the loss returns no value of the graph",
                expected="one number computed from the results",
                got=type(value).__name__,
                hint="is a `return` missing?" if value is None else None,
            )
    type_ = port_type(value.port)
    if not type_.shape.is_static or type_.shape.rank != 0:
        raise InvalidTypeError(
            "the loss is no single number",
            expected="a scalar of floats",
            got=type_,
            hint="reduce it: ops.mean(...)",
        )
    return value


def _type_of(graph: Graph, array: Any) -> TensorType:
    """The type of an input like an array; the first dim is the model's, if symbolic."""
    dims: list[Any] = list(array.shape)
    first = next((_first_dim(port) for port in graph.parameters), None)
    if dims and first is not None and not isinstance(first, int):
        dims[0] = first
    return TensorType(DType.of(array), Shape(dims))


def _first_dim(port: OutputPort) -> Any:
    type_ = port.type
    if not isinstance(type_, TensorType) or not type_.shape.has_rank:
        return None
    return next(iter(type_.shape.dims), None)


def _as_variable(graph: Graph, constant: Op, name: str) -> tuple[Value, Value]:
    """A variable that starts as a constant and replaces it, and its value."""
    constant = lift_constant(graph, constant)
    users = list(constant.output.users)
    following = _op_after(graph, constant)
    with tracing(graph, following):
        reference = variable(Value(constant.output), key=name)
        before = read(reference)
    for user in users:
        user.connect(before.port)
    return reference, before


def _op_after(graph: Graph, op: Op) -> Op | None:
    found = False
    for each in graph:
        if found:
            return each
        found = each is op
    return None


def _update(
    step: Operation,
    settings: Mapping[str, Any],
    rate: Value,
    number: Value,
    name: str,
    reference: Value,
    before: Value,
    gradient: Value,
) -> None:
    """Apply the step of an optimizer to a weight and its state."""
    arguments: list[Any] = [before, gradient]
    states: list[Value] = []
    for parameter in _tensor_arguments(step)[2:]:
        if parameter == _RATE:
            arguments.append(astype(rate, dtype=before.dtype))
        elif parameter == _STEP:
            arguments.append(number)
        else:
            held = variable(_zeros(before), key=f"{name}:{parameter}")
            states.append(held)
            arguments.append(read(held))
    made = step(*arguments, **settings)
    results = made if isinstance(made, tuple | list) else (made,)
    for target, value in zip((reference, *states), results, strict=True):
        assign(target, value)


def _zeros(like: Value) -> Tensor:
    """The initial state of an optimizer: zeros of the type of a weight."""
    return Tensor.splat(like.dtype, like.type.shape.dims, 0)


def _tensor_arguments(step: Operation) -> Sequence[str]:
    return [p.name for p in step.form.params if p.role == TENSOR]
