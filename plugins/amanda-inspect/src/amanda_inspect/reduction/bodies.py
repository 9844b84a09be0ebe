"""Bodies are put in place of the op that has them, and functions of their calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from amanda.errors import AmandaError
from amanda.graph import Graph, Op, OutputPort
from amanda_inspect.reduction.models import (
    Model,
    ops_of,
    reads_from_outside,
    replace_values,
)
from amanda_inspect.reduction.search import Search
from amanda_inspect.windows import constant_array

__all__ = ["drop_functions", "open_bodies"]


def open_bodies(search: Search) -> bool:
    """Replace an op by one of its bodies, on what a first call of it may read."""
    graph = search.model.graph
    nested = [op for op in graph.walk() if op.graph is not graph and op.bodies]
    return any(
        search.accept(candidate, what)
        for op in (*nested, *ops_of(graph))
        for candidate, what in _candidates(search, op)
    )


def _candidates(search: Search, op: Op) -> Iterator[tuple[Model | None, str]]:
    if op.is_graph:
        yield _inline_graph(search.model, op), f"the ops of {op.label}"
        return
    for key, body in op.bodies.items():
        if not body.parameters and len(body.results) == len(op.outputs):
            what = f"the ops of {key} of {op.label}"
            yield _inline_branch(search.model, op, key), what
    if op.graph is not search.model.graph:
        return
    called = _called_functions(op)
    for key, body in (*op.bodies.items(), *called):
        arrays = _inputs_of_body(search, op, body)
        if arrays is not None:
            what = f"{key} of {op.label} instead of it"
            yield _replace_by_body(search.model, op, body, arrays), what


def _called_functions(op: Op) -> list[tuple[str, Graph]]:
    """The functions that an op calls, by its attributes or its type."""
    assert op.graph is not None
    functions = op.graph.root.functions
    named = [getattr(v, "name", None) for v in op.attrs.values()]
    names = [name for name in functions if name in (*named, op.type)]
    names += [
        name for name in functions
        if "::" in name and name.split("::")[1] == op.type and name not in names
    ]  # fmt: skip
    return [(f"function {name}", functions[name]) for name in names]


def _inline_graph(model: Model, op: Op) -> Model | None:
    graph, memo = model.copy()
    graph.inline(memo[op])
    return model.with_graph(graph)


def _inline_branch(model: Model, op: Op, key: str) -> Model | None:
    """The ops of a branch without inputs in place of the op that has it."""
    graph, memo = model.copy()
    at = memo.get(op) or memo[op.outputs[0]].op
    home = at.graph
    with home.before(at):
        values = home.paste(at.bodies[key])
    if any(value is None for value in values):
        return None
    home.replace(at, values, "reduction")
    for each in reversed(home):
        if not each.is_graph and not any(port.is_used for port in each.outputs):
            home.remove(each, "reduction")
    return model.with_graph(graph)


def _inputs_of_body(search: Search, op: Op, body: Graph) -> list[Any] | None:
    """What a body may read in its first call: inputs of the op of the same type, the
    first items of longer ones, the number 0, the value true."""
    reads = [port for port in reads_from_outside([op], set()) if port in op.inputs]
    known = search.recorder.arrays(search.model, reads)
    if known is None:
        return None
    free = [
        known[port] if port in known else constant_array(port)
        for port in op.inputs
        if port is not None
    ]
    found = []
    for parameter in body.parameters:
        value = _first_value(parameter, free)
        if value is None:
            return None
        found.append(value)
    return found


def _first_value(parameter: OutputPort, free: list[Any]) -> Any:
    """The first array that fits a parameter, which is then taken; None for none."""
    import numpy as np

    kind: Any = parameter.type
    if kind is None or not hasattr(kind, "dtype"):
        return free.pop(0) if free else None
    name, rank = str(kind.dtype), kind.shape.rank if kind.shape.has_rank else None
    if rank == 0 and name == "int64" and parameter.index == 0:
        return np.asarray(0, "int64")
    for i, array in enumerate(free):
        if str(array.dtype) == name and (rank is None or array.ndim == rank):
            return free.pop(i)
    for i, array in enumerate(free):
        if str(array.dtype) == name and array.ndim == (rank or 0) + 1 and len(array):
            return free.pop(i)[0]
    return np.asarray(True) if rank == 0 and name == "bool" else None


def _replace_by_body(
    model: Model, op: Op, body: Graph, arrays: Sequence[Any]
) -> Model | None:
    """The ops of a body instead of an op; its results are those of the model."""
    graph, memo = model.copy()
    feeds: dict[str, Any] = {}
    inputs = []
    for i, array in enumerate(arrays):
        port = graph.parameter(None, _fresh_input(graph, f"body_input_{i}"))
        feeds[str(port.name)] = array
        inputs.append(port)
    at = memo.get(op) or memo[op.outputs[0]].op
    mine = at.bodies.get(body.body_name or "") or _function_of(graph, body)
    try:
        with graph.before(at):
            values = graph.paste(mine, inputs)
    except AmandaError:  # it captures what is not in order here
        return None
    made = model.with_graph(graph, feeds).with_results(v for v in values if v)
    if made is None:
        return None
    typed: dict[OutputPort, Any] = {
        port: made.feeds[str(port.name)] for port in made.graph.parameters
    }
    return replace_values(
        made, typed, [v for v in made.graph.results if v], constants=True
    )


def _function_of(graph: Graph, body: Graph) -> Graph:
    (name,) = [n for n, f in body.root.functions.items() if f is body]
    return graph.functions[name]


def _fresh_input(graph: Graph, stem: str) -> str:
    names = {port.name for port in graph.parameters}
    return next(n for n in (stem + "_" * i for i in range(99)) if n not in names)


def drop_functions(search: Search) -> bool:
    """Remove functions, all or each."""
    names = list(search.model.graph.functions)
    if not names:
        return False
    choices = [(), *([n for n in names if n != each] for each in names)]
    return any(
        search.accept(_with_functions(search.model, kept), "fewer functions")
        for kept in choices
        if len(kept) < len(names)
    )


def _with_functions(model: Model, names: Sequence[str]) -> Model | None:
    results = [value for value in model.graph.results if value is not None]
    graph = model.graph.clone(results, functions=list(names))
    return model.with_graph(graph)
