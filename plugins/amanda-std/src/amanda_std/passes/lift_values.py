"""Values of the bodies of control flow, carried out to the graph around them.

Each value is written to a variable, combined with what earlier iterations wrote, and
the variables are then made explicit: the rules by which control flow carries variables
carry the values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from amanda.graph import STATE_NOTE, VALUE_NOTE, Graph, OutputPort
from amanda.types import DType, TensorType
from amanda_std.engine.values import Value, tracing, value_type
from amanda_std.hub.op_access import is_std, operation_of
from amanda_std.ops.control.state import assign, assign_add, read, variable
from amanda_std.ops.math.arithmetic import add, divide, maximum, minimum
from amanda_std.ops.tensor.shape import astype
from amanda_std.passes.explicit_state import explicit_state

__all__ = ["lift_values"]

_KEY = "amanda:lifted"


class _Combination(NamedTuple):
    """How the values of several executions become one."""

    function: Callable[[Any, Any], Any]
    is_of_numbers: bool = False
    start: float = 0.0
    """The neutral element, for floats; others have the nearest number."""
    is_averaged: bool = False


_COMBINE: dict[str, _Combination] = {
    "last": _Combination(lambda _, new: new),
    "sum": _Combination(add, is_of_numbers=True),
    "mean": _Combination(add, is_of_numbers=True, is_averaged=True),
    "max": _Combination(maximum, start=-np.inf),
    "min": _Combination(minimum, start=np.inf),
}


class _Lifted(NamedTuple):
    """A value that is carried out: the keys of its variables, and how it combines."""

    value_key: str
    count_key: str
    combine: str


def lift_values(
    graph: Graph, values: Sequence[tuple[OutputPort, str]]
) -> list[tuple[OutputPort, OutputPort] | str]:
    """For each value of a body: what its executions combine to, and their number.

    A value comes with the name of how to combine: last, sum, mean, max or min. Where
    it cannot be carried out, the answer is the reason. The variables of the graph
    become inputs and results, as of the pass `explicit_state`."""
    answers: list[_Lifted | str] = []
    for i, (port, combine) in enumerate(values):
        why = _why_not(graph, port, combine)
        answers.append(why or _write_to_variables(graph, port, combine, f"{_KEY}:{i}"))
    if not any(isinstance(each, _Lifted) for each in answers):
        return [str(each) for each in answers]
    explicit_state(graph)
    return [each if isinstance(each, str) else _take(graph, each) for each in answers]


def _why_not(graph: Graph, port: OutputPort, combine: str) -> str | None:
    """Why a value cannot be carried out of its body, or None."""
    type_ = value_type(port)
    if combine not in _COMBINE:
        return f"values of a body cannot be combined by {combine!r}"
    if not isinstance(type_, TensorType) or not type_.shape.is_static:
        return f"its shape is not static: {type_}"
    if not isinstance(type_.dtype, DType) or type_.dtype.kind not in _KINDS:
        return f"values of type {type_} cannot be carried by loops"
    if type_.dtype.kind == "bool" and _COMBINE[combine].is_of_numbers:
        return f"a {combine} is of numbers, and this is {type_}"
    at = port.graph
    while at is not None and at is not graph:
        holder = at.holder
        if holder is None or not is_std(holder):
            return "it is in a function, or in a body of an op outside of the hub"
        operation = operation_of(holder)
        if operation.state_rule is None and operation.definition is None:
            return f"{holder.label} does not carry values out of its bodies"
        at = holder.graph
    return None


_KINDS = ("float", "int", "uint", "bool")


def _write_to_variables(
    graph: Graph, port: OutputPort, combine: str, key: str
) -> _Lifted:
    """Add variables for a value and its count to a graph, and write them in the
    body."""
    type_ = value_type(port)
    assert isinstance(type_, TensorType)
    assert port.graph is not None
    plain = TensorType(type_.dtype, type_.shape)
    found = _Lifted(f"{key}:value", f"{key}:count", combine)
    with graph.before(next(iter(graph), None)):
        start = Value(graph.constant(_initial_value(plain, combine)).output)
        zero = Value(graph.constant(np.zeros((), "int64")).output)
        with tracing(graph):
            held = variable(start, key=found.value_key, type=plain)
            count = variable(zero, key=found.count_key)
    with tracing(port.graph):
        if combine == "last":
            assign(held, Value(port))
        else:
            assign(held, _COMBINE[combine].function(read(held), Value(port)))
        assign_add(count, np.ones((), "int64"))
    return found


def _initial_value(type_: TensorType, combine: str) -> np.ndarray[Any, Any]:
    """The neutral element of a combination."""
    assert isinstance(type_.dtype, DType)
    dtype = type_.dtype.numpy
    start: Any = _COMBINE[combine].start
    if type_.dtype.kind == "bool":
        start = start > 0
    elif type_.dtype.kind != "float" and start:
        start = np.iinfo(dtype).max if start > 0 else np.iinfo(dtype).min
    return np.full(type_.shape.dims, start, dtype)


def _take(graph: Graph, lifted: _Lifted) -> tuple[OutputPort, OutputPort] | str:
    """The value and the count of a variable that has become a result of the graph."""
    value = _take_variable(graph, lifted.value_key)
    count = _take_variable(graph, lifted.count_key)
    if value is None or count is None:
        return "the op around its body keeps variables"
    if _COMBINE[lifted.combine].is_averaged:
        with tracing(graph):
            total = Value(value)
            times = maximum(Value(count), np.ones((), "int64"))
            value = divide(total, astype(times, dtype=total.dtype)).port
    return value, count


def _take_variable(graph: Graph, key: str) -> OutputPort | None:
    """The last value of a variable; its input is replaced by the initial value."""
    port = next((p for p in graph.parameters if _key_of(p) == key), None)
    if port is None:
        return None
    index = next((p.index for p in graph.outputs if _key_of(p) == key), None)
    value = None if index is None else graph.results[index]
    with graph.before(next(iter(graph), None)):
        first = graph.constant(port.attrs[VALUE_NOTE]).output
    found = first if value is None or value is port else value
    if index is not None:
        graph.remove_result(index)
    graph.replace_uses(port, first)
    graph.remove_parameter(port.index)
    return found


def _key_of(port: OutputPort) -> object:
    return port.attrs.get(STATE_NOTE) if port.has_attrs else None
