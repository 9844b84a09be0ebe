"""The smallest model that fails like a given one.

>>> import amanda, numpy as np
>>> from amanda_std import ops
>>> graph = amanda.Graph("amanda/std/1")
>>> x = graph.parameter("float32[4]", "x")
>>> y = ops.exp(ops.log(ops.tanh(x)))
>>> graph.result(ops.add(y, x), "y")
result graph[y]
>>> def fails(graph, feeds):
...     bad = any(op.type == "log" for op in graph)
...     return Failure("test", "it has a logarithm") if bad else None
>>> found = reduce(graph, {"x": np.ones(4, "float32")}, fails)
>>> [op.type for op in found.graph]
['log']
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from amanda.backend import extract_graph
from amanda.errors import AmandaError
from amanda.graph import Graph
from amanda.tensors import Tensor
from amanda_inspect.bisection import bisect
from amanda_inspect.reduction.bodies import drop_functions, open_bodies
from amanda_inspect.reduction.bypass import bypass_ops
from amanda_inspect.reduction.failures import Failure, Test
from amanda_inspect.reduction.models import Model, Recorder, count_ops
from amanda_inspect.reduction.running import RunTest
from amanda_inspect.reduction.search import (
    OutOfTime,
    Search,
    Step,
    cut_chunks,
    keep_one_result,
    shorten_end,
    shorten_start,
)
from amanda_inspect.reduction.sizes import (
    drop_attributes,
    shrink_sizes,
    simplify_arrays,
)
from amanda_inspect.windows import Backend, with_constants

__all__ = ["Reduction", "find_failing_op", "reduce"]

NUMPY = Backend("numpy", {})


@dataclass
class Reduction:
    """A reduced model, which fails like the original."""

    graph: Graph
    feeds: dict[str, Any]
    failure: Failure
    """How the reduced model fails."""
    original: Failure
    steps: list[Step] = field(default_factory=list)
    tests: int = 0
    """How many models were tested."""
    is_complete: bool = True
    """Whether the search ended before the time did."""
    drawn: int = 0
    """Inputs with random values, since nothing computes those of the model."""

    @property
    def ops(self) -> int:
        """The number of ops at any depth, without constants."""
        return count_ops(self.graph)


def reduce(
    graph: Graph,
    feeds: Mapping[Any, Any],
    test: Test,
    *,
    values: Backend = NUMPY,
    seconds: float | None = None,
    tell: Callable[[str], object] | None = None,
) -> Reduction:
    """Reduce a model that fails to a small one that fails in the same way.

    `test` returns how a model fails, or None. Parts of the model are replaced by what
    the backend `values` computes there. After `seconds` the smallest model so far is
    returned. `tell` is called with a line about each step.
    """
    model = Model.of(graph, feeds)
    failure = test(model.graph, model.feeds)
    if failure is None:
        raise AmandaError(
            "the model does not fail, so there is nothing to reduce",
            expected="an error, a difference, a crash, or a test that exits with 0",
        )
    deadline = None if seconds is None else time.monotonic() + seconds
    search = Search(
        test, failure, model, Recorder(values), deadline, tell or (lambda _: None)
    )
    is_complete = _search(search)
    _record_types(search)
    return Reduction(
        search.model.graph, dict(search.model.feeds), search.failure, failure,
        search.steps, search.tests, is_complete, search.recorder.drawn,
    )  # fmt: skip


def _search(search: Search) -> bool:
    """Run all steps; whether there was time for them."""
    with suppress(OutOfTime):
        keep_one_result(search)
        has_bodies = any(op.bodies for op in search.model.graph)
        if isinstance(search.test, RunTest) and not has_bodies:
            _cut_around_first_error(search, search.test)
        shorten_end(search)
        shorten_start(search)
        _remove_ops(search)
        shrink_sizes(search)
        simplify_arrays(search)
        drop_attributes(search)
        _remove_ops(search)
        return True
    return False


def _remove_ops(search: Search) -> None:
    """Remove ops until no single one can be removed."""
    steps = (cut_chunks, open_bodies, drop_functions, bypass_ops, keep_one_result)
    before = -1
    while len(search.steps) > before:
        before = len(search.steps)
        for step in steps:
            step(search)


def _cut_around_first_error(search: Search, test: RunTest) -> bool:
    """Try the op alone that bisection finds."""
    if test.reference is None:
        return False
    model = search.model
    found = bisect(
        model.graph, model.graph, dict(model.feeds),
        backend=test.reference.name, options=test.reference.options,
        other_backend=test.backend.name, other_options=test.backend.options,
    ).first  # fmt: skip
    if found is None or found.op.graph is not model.graph:
        return False
    op = found.op
    values = [v for v in dict.fromkeys(op.inputs) if v and v.op is not model.graph]
    values = [v for v in values if not v.op.is_constant]
    return search.accept_cut(values, list(op.outputs), f"{op.label} alone")


def _record_types(search: Search) -> None:
    """Give results the types that they have, where the model can be run."""
    graph = search.model.graph
    results = [value for value in graph.results if value is not None]
    with suppress(Exception):  # where it cannot, they stay as they are
        arrays = search.recorder.compute(search.model, results) or {}
        for port, array in arrays.items():
            port.type = Tensor.of(array).type


def find_failing_op(
    graph: Graph,
    reference: Graph,
    feeds: Mapping[Any, Any],
    backend: Backend,
) -> tuple[Model, RunTest]:
    """The first op of a model that differs from another model, as a model with a test.

    `feeds` are those of the reference; both run on the backend. The op reads the values
    of the reference, and has to give what that one gives.
    """
    found = bisect(
        reference, graph, feeds, backend=backend.name, options=backend.options
    ).first
    if found is None or found.values is None or found.values.op.graph is None:
        raise AmandaError(
            "no op of the model differs from the reference",
            expected="models that differ beyond rounding",
        )
    values, home = found.values, found.values.op.graph
    ops = with_constants([*values.unmatched, values.op])
    part, reads = extract_graph(home, ops, list(values.made))
    inputs = {}
    for i, (port, read) in enumerate(zip(part.parameters, reads, strict=True)):
        port.name = port.name or f"input_{i}"
        inputs[port.name] = values.inputs[read]
    expected = {}
    for i, (end, value) in enumerate(zip(part.outputs, values.made, strict=True)):
        end.name = end.name or f"output_{i}"
        expected[end.name] = values.wanted[value]
    return Model(part, inputs), RunTest(backend, expected=expected)
