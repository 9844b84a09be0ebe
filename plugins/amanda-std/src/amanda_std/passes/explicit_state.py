"""Explicit state: variables as inputs and results of the graph, and back.

For targets without variables. Each variable becomes an input with its value before a
call; one that is written becomes a result as well, with its value after the call. Both
have the key of the variable as the note `x-state`, and the input has its initial value
as `x-value`. A caller feeds the results of one call to the next.

What an op that reads, writes or runs bodies with variables becomes is the rule that it
declares (`explicit_state`). Other ops that run such bodies are replaced by their
definitions first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

from amanda.errors import Undecided
from amanda.graph import (
    STATE_NOTE,
    VALUE_NOTE,
    Graph,
    Op,
    OutputPort,
    Parameter,
    Provenance,
    bulk,
)
from amanda.types import RefType, TensorType, join
from amanda_std.engine.values import (
    Value,
    constant_of,
    lift,
    require_tracing,
    tracing,
)
from amanda_std.hub.effect_order import effect_of, ops_inside
from amanda_std.hub.expansion import expand, expand_graph, replace_op
from amanda_std.hub.op_access import is_std, operation_of, traced_arguments
from amanda_std.ops.control.state import assign, read, variable
from amanda_std.passes.infer import infer, infer_ops

__all__ = ["explicit_state", "implicit_state"]

BY = "explicit_state"
NEXT = ".next"
"""What the name of a result has after that of the input with its value before."""


def explicit_state(graph: Graph) -> int:
    """Replace variables by inputs and results; returns the number of variables.

    Types must be inferred. A variable stays whose initial value is computed, or that an
    op without a rule reads or writes."""
    if not any(_has_state(op) for op in graph):
        return 0
    with bulk():
        _expand_holders(graph)
        variables = _variables(graph)
        if not variables:
            return 0
        inputs = {key: _add_input(graph, key, ops) for key, ops in variables.items()}
        values = VariableValues({key: Value(port) for key, port in inputs.items()})
        _thread(graph, list(graph), values)
        for key, port in inputs.items():
            after = values.by_key[key]
            if key in values.written:
                _add_result(graph, key, f"{port.name}{NEXT}", after)
        for op in (op for ops in variables.values() for op in ops):
            if op.graph is not None:
                op.graph.remove(op, BY)
        infer(graph)
    return len(variables)


def implicit_state(graph: Graph) -> int:
    """Replace inputs and results with the note `x-state` by variables; returns how many
    there are."""
    inputs = [port for port in graph.parameters if _key_note(port) is not None]
    after = {_key_note(port): i for i, port in enumerate(graph.outputs)}
    taken: list[int] = []
    for port in reversed(inputs):  # each is added at the beginning
        key = str(_key_note(port))
        reference, before = _add_variable(graph, port, key)
        index = after.get(key)
        if index is not None:
            value = graph.results[index]
            if value is not None and value is not before.port:
                with tracing(graph):
                    assign(reference, Value(value))
            taken.append(index)
    for index in sorted(taken, reverse=True):
        graph.remove_result(index)
    for port in reversed(inputs):
        graph.remove_parameter(port.index)
    return len(inputs)


def _key_note(port: OutputPort) -> str | None:
    return port.attrs.get(STATE_NOTE) if port.has_attrs else None


def _add_variable(graph: Graph, port: Parameter, key: str) -> tuple[Value, Value]:
    """A variable that replaces an input, and its value at the start."""
    initial = port.attrs.get(VALUE_NOTE)
    with graph.before(next(iter(graph), None)):
        first = None if initial is None else Value(graph.constant(initial).output)
        with tracing(graph, None, Provenance((str(port.name),), BY)):
            reference = variable(first, key=key, type=port.type)
            value = read(reference)
    graph.replace_uses(port, value.port)
    return reference, value


class VariableValues:
    """The values of variables at a point of a program.

    Rules get it: `values[v]` is the value of the variable that the reference `v` has;
    setting it is an assignment."""

    def __init__(self, by_key: Mapping[str, Any]) -> None:
        self.by_key = dict(by_key)
        self.written: set[str] = set()

    def __getitem__(self, v: Value) -> Any:
        return self.by_key[_key_of(v.port)]

    def __setitem__(self, v: Value, value: Any) -> None:
        self.by_key[_key_of(v.port)] = value
        self.written.add(_key_of(v.port))

    def written_by(self, *bodies: Graph) -> list[str]:
        """The keys of the variables that bodies may write."""
        ops = (op for body in bodies for each in body for op in ops_inside(each))
        keys = (_key_of(op.inputs[0]) for op in ops if effect_of(op) == "writes")
        return [key for key in dict.fromkeys(keys) if key in self.by_key]

    def of_keys(self, keys: Iterable[str]) -> list[Any]:
        return [self.by_key[key] for key in keys]

    def body_on_values(
        self,
        body: Graph,
        keys: Sequence[str],
        results_at: int,
        parameters_at: int | None = None,
    ) -> Callable[..., Any]:
        """A body as a function that returns the values of variables after it, too.

        With `parameters_at` it also has parameters for the values before, else it
        captures these."""
        at, count = parameters_at, len(keys)

        def run(*xs: Any) -> tuple[Any, ...]:
            inside = VariableValues(self.by_key)
            if at is not None:
                inside.by_key.update(zip(keys, xs[at : at + count], strict=True))
                xs = xs[:at] + xs[at + count :]
            found = inside.run(body, xs)
            after = inside.of_keys(keys)
            return (*found[:results_at], *after, *found[results_at:])

        return run

    def run(self, body: Graph, xs: Sequence[Any]) -> tuple[Any, ...]:
        """Add the ops of a body to the graph being traced; returns its results."""
        into = require_tracing()
        memo: dict[Any, Any] = {}
        found = into.graph.paste(body, [lift(x, into) for x in xs], memo=memo)
        copies = [memo[op] for op in body]
        infer_ops(copies)
        _thread(into.graph, copies, self)
        for op in copies:
            if op.graph is not None:
                into.note(op)
        return tuple(None if v is None else Value(v.resolve()) for v in found)

    def take(
        self, keys: Sequence[str], results: Sequence[Any], at: int
    ) -> tuple[Any, ...]:
        """The other results of an op that returns the values of variables at `at`."""
        after = results[at : at + len(keys)]
        self.by_key.update(zip(keys, after, strict=True))
        self.written.update(keys)
        return (*results[:at], *results[at + len(keys) :])


def _thread(graph: Graph, ops: Sequence[Op], values: VariableValues) -> None:
    """Replace the ops of a graph that read, write or run bodies with variables."""
    found = [op for op in ops if _has_state(op) and effect_of(op) != "holds"]
    for op in found:  # their order is that of `ops`, and there is none afterwards
        for first in list(op.control_inputs):
            graph.uncontrol(first, op)
        for then in list(op.control_outputs):
            graph.uncontrol(op, then)
    for op in found:
        rule = operation_of(op).state_rule if is_std(op) else None
        if rule is None or values.by_key.keys().isdisjoint(_keys_in(op)):
            continue
        args, attrs = traced_arguments(op)
        source = op.provenance.sources if op.provenance else (op.name or op.type or "",)
        with tracing(graph, op, Provenance(source, BY)) as into:
            made = rule(values, *args, **attrs)
            many = made if isinstance(made, tuple | list) else (made,)
            results = [lift(value, into) for value in many]
        alive = {each for each in into.made if each.graph is not None}
        replace_op(graph, op, results, alive, BY)


# -- what has state ----------------------------------------------------------------


def _has_state(op: Op) -> bool:
    """Whether an op, or one in its bodies, declares or uses a variable."""
    return any(
        effect_of(each) in ("holds", "reads", "writes") for each in ops_inside(op)
    )


def _keys_in(op: Op) -> Iterator[str]:
    for each in ops_inside(op):
        if effect_of(each) in ("reads", "writes"):
            yield _key_of(each.inputs[0])


def _key_of(reference: OutputPort | None) -> str:
    """The key of the variable of a reference; empty for an input of the graph."""
    if reference is None or effect_of(reference.op) != "holds":
        return ""
    return str(reference.op.attrs["key"])


def _expand_holders(graph: Graph) -> None:
    """Replace ops that run bodies with variables and have no rule, where possible."""
    is_changing = True
    while is_changing:
        ops = [op for part in _bodies(graph) for op in part]
        is_changing = sum(map(_expand_holder, ops)) > 0
    for name, function in list(graph.functions.items()):
        if any(map(_has_state, function)):
            graph.remove_function(name)


def _expand_holder(op: Op) -> bool:
    passes_on = any(v is not None and isinstance(v.type, RefType) for v in op.inputs)
    if effect_of(op) is not None or not (passes_on or _has_state(op)):
        return False
    if isinstance(op, Graph):
        expand_graph(op, BY)
        return True
    if not is_std(op) or operation_of(op).state_rule is not None:
        return False
    if operation_of(op).definition is None:
        return False
    try:
        expand(op, None, BY)
    except Undecided:
        return False
    return True


def _bodies(graph: Graph) -> list[Graph]:
    """A graph and those inside it, without functions."""
    functions = {inner for f in graph.functions.values() for inner in f.graphs()}
    return [part for part in graph.graphs() if part not in functions]


def _variables(graph: Graph) -> dict[str, list[Op]]:
    """The variables to replace, by key; ops of one key are one variable."""
    found: dict[str, list[Op]] = {}
    kept: set[str] = set()
    for part in _bodies(graph):
        for op in part:
            if effect_of(op) == "holds":
                key = str(op.attrs["key"])
                found.setdefault(key, []).append(op)
                if not _is_replaceable(op):
                    kept.add(key)
    return {key: ops for key, ops in found.items() if key not in kept}


def _is_replaceable(op: Op) -> bool:
    initial = op.inputs[0] if op.inputs else None
    is_known = initial is None or constant_of(initial) is not None
    return is_known and all(map(_has_rule, [op.output.op, *op.output.user_ops]))


def _has_rule(op: Op) -> bool:
    """Whether an op that uses a variable, and all that hold it, can be replaced."""
    if isinstance(op, Graph) or not is_std(op):
        return False
    if effect_of(op) != "holds" and operation_of(op).state_rule is None:
        return False
    graph = op.graph
    holder = None if graph is None else graph.holder
    return (graph is not None and graph.graph is None) and (
        holder is None or _has_rule(holder)
    )


# -- inputs and results ------------------------------------------------------------


def _add_input(graph: Graph, key: str, ops: Sequence[Op]) -> Parameter:
    references = (op.output.type for op in ops)
    types = [t.element for t in references if isinstance(t, RefType)]
    tensors = [t for t in types if isinstance(t, TensorType)]
    held = reduce(join, tensors) if len(tensors) == len(types) else types[0]
    port = graph.parameter(held, _free_name(key, (p.name for p in graph.parameters)))
    port.attrs[STATE_NOTE] = key
    for op in ops:
        initial = op.inputs[0] if op.inputs else None
        if initial is not None:
            port.attrs.setdefault(VALUE_NOTE, constant_of(initial))
    return port


def _add_result(graph: Graph, key: str, name: str, value: Value) -> None:
    graph.result(value, _free_name(name, (port.name for port in graph.outputs)))
    graph.outputs[-1].attrs[STATE_NOTE] = key


def _free_name(name: str, taken: Iterable[str | None]) -> str:
    known, number, free = set(taken), 2, name
    while free in known:
        free, number = f"{name}_{number}", number + 1
    return free
