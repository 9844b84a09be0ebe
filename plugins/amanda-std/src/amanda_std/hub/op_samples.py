"""Samples of ops as graphs, for the suites of backends.

class TestBackend(BackendSuite):
    backend = "mine"

    def samples(self):
        return op_samples(KERNELS)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from amanda.backend import refusals
from amanda.types import TensorType
from amanda_std.engine.arrays import array_type
from amanda_std.engine.operation import Operation
from amanda_std.engine.samples import Sample
from amanda_std.engine.values import trace

if TYPE_CHECKING:
    from amanda.graph import Op
    from amanda.testing import BackendSample

__all__ = ["op_samples"]

EXACT = {"bool", "int32", "int64", "float32", "float64"}
"""Element types whose results have the precision that suites expect."""


def op_samples(
    names: Iterable[str],
    most: int | None = None,
    takes: Callable[[Op], object] | None = None,
) -> dict[str, Callable[[], BackendSample]]:
    """Graphs of one op each, with feeds and expected results, by op and number.

    `most` limits the samples of each op. Left out are samples of other values than
    tensors of numbers, those of half precision, and those with ops that the method
    `takes` of a backend refuses.
    """
    from amanda_std.ops import find

    return {
        f"{name}_{i}": partial(_graph_sample, find(name), sample)
        for name in names
        for i, sample in enumerate(islice(_supported_samples(find(name), takes), most))
    }


def _supported_samples(
    operation: Operation, takes: Callable[[Op], object] | None
) -> Iterator[Sample]:
    for sample in _numeric_samples(operation):
        graph = None if takes is None else _graph_sample(operation, sample).graph
        if graph is None or takes is None or not refusals(graph, takes):
            yield sample


def _numeric_samples(operation: Operation) -> Iterator[Sample]:
    for sample in operation.samples_rule() if operation.samples_rule else ():
        values = [*_tensors(operation, sample), *_results(sample)]
        if sample.tolerance is None and all(_is_exact(value) for value in values):
            yield sample


def _tensors(operation: Operation, sample: Sample) -> list[Any]:
    """The arguments that are tensors: what the graph is fed."""
    params = operation.form.params_of(len(sample.args))
    rows = zip(params, sample.args, strict=True)
    return [a for p, a in rows if p.kind.role == "tensor" and a is not None]


def _results(sample: Sample) -> list[Any]:
    return sample.expected if isinstance(sample.expected, list) else [sample.expected]


def _is_exact(value: Any) -> bool:
    return isinstance(value, np.ndarray | np.generic) and value.dtype.name in EXACT


def _graph_sample(operation: Operation, sample: Sample) -> BackendSample:
    from amanda.testing import BackendSample

    feeds = [np.asarray(value) for value in _tensors(operation, sample)]
    params = operation.form.params_of(len(sample.args))

    def call(*values: Any) -> Any:
        rest = iter(values)
        rows = zip(params, sample.args, strict=True)
        args = [
            next(rest) if p.kind.role == "tensor" and a is not None else a
            for p, a in rows
        ]
        return operation(*args, **sample.attrs)

    types = [TensorType(array_type(feed).dtype, feed.shape) for feed in feeds]
    return BackendSample(trace(call, types), feeds, _results(sample))
