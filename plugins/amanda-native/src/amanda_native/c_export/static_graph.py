"""Graphs of static shape in the ops that have kernels in C, or why they are not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

import amanda
from amanda.errors import BackendError
from amanda.types import TensorType
from amanda_native.c_export.definitions import DEFINITIONS
from amanda_native.c_export.kernel_source import C_TYPES, kernel_rows
from amanda_std import NAMESPACE
from amanda_std.backends import infer, is_not_composite, lower

if TYPE_CHECKING:
    from amanda.graph import Graph, Op, OutputPort

__all__ = ["static_graph", "tensor_type"]

_MAX_RANK = 8
_MOST_FOLDED = 30
"""Ops in a chain that constants decide."""
_PASSES = ("inline", "fold", "share", "drop")


def static_graph(graph: Graph) -> Graph:
    """A copy of a graph in ops of the reference backend, with static types.

    BackendError lists all that stands in the way.
    """
    made = amanda.convert(graph, NAMESPACE) if graph.namespace != NAMESPACE else graph
    _expect_static(made.parameters)
    made = made.clone()
    amanda.improve(made, *_PASSES)
    infer(made)
    refused = _lower(made)
    amanda.improve(made, *_PASSES)
    refused = refused or [f"{op.label}: {why}" for op, why in _refusals(made)]
    if refused:
        raise BackendError(
            "the graph has ops that are not written as C",
            expected=f"ops that lower to {', '.join(kernel_rows())}",
            hint="run it on another backend, or replace these ops",
            problems=dict.fromkeys(refused),
        )
    infer(made)
    _expect_static([*made.parameters, *(port for op in made for port in op.outputs)])
    if None in made.results:
        raise BackendError(
            "a result has no value",
            where=f"result {made.results.index(None)}",
            hint="remove the result, or connect it",
        )
    return made


def _lower(graph: Graph) -> list[str]:
    """Lower a graph; what is refused. Types that a loop has once it is unrolled may
    allow what they did not before, so it is tried again as long as less is refused."""
    before: list[str] | None = None
    while True:
        refused = [str(each) for each in lower(graph, _takes_or_folds, DEFINITIONS)]
        if not refused or (before is not None and len(refused) >= len(before)):
            return refused
        before = refused
        infer(graph)


def _expect_static(values: Sequence[OutputPort]) -> None:
    """Raise BackendError for values without static shape and supported type."""
    rows = [(value, _type_problem(value)) for value in values]
    if problems := [f"{v}: {v.type}, {why}" for v, why in rows if why is not None]:
        raise BackendError(
            "the graph is not of static shape and supported types",
            expected=f"sizes that are numbers, and {', '.join(C_TYPES)}",
            hint="`amanda export --dim NAME=SIZE` fixes sizes of inputs",
            problems=problems,
        )


def _takes_or_folds(op: Op) -> Literal[True] | str:
    """Whether an op has a kernel in C, or is computed when the graph is exported."""
    return True if _reads_constants(op, _MOST_FOLDED) else _takes(op)


def _reads_constants(op: Op, depth: int) -> bool:
    """Whether constants alone decide the results of a primitive, at some depth."""
    if op.is_constant:
        return True
    if not depth or op.is_graph or not op.inputs or op.bodies:
        return False
    if not is_not_composite(op):
        return False
    return all(v is None or _reads_constants(v.op, depth - 1) for v in op.inputs)


def _takes(op: Op) -> Literal[True] | str:
    """Whether an op has a kernel in C, as far as its types are known."""
    row = kernel_rows().get(op.type or "")
    if row is None:
        return f"there is no kernel in C for {op.type}"
    if op.type in DEFINITIONS:
        return f"{op.type} is written as other ops"
    for letter, value in zip(row.inputs.ljust(len(op.inputs), row.inputs[0]), op.inputs,
                             strict=False):  # fmt: skip
        type_ = None if value is None else value.type
        is_data = letter in "to*" and not (op.type == "where" and value is op.inputs[0])
        if is_data and isinstance(type_, TensorType) and type_.dtype.kind != "unknown":
            name = str(type_.dtype)
            if not row.takes_dtype(name):
                return f"{op.type} of {name} has no kernel in C"
    if op.attrs.get("mode", "constant") != "constant":
        return f"padding by {op.attrs['mode']} has no kernel in C"
    return True


def _refusals(graph: Graph) -> Iterator[tuple[Op, str]]:
    for op in graph:
        answer = True if op.is_constant else _takes(op)
        if answer is not True:
            yield op, answer


def _type_problem(value: OutputPort) -> str | None:
    kind = value.type
    if not isinstance(kind, TensorType):
        return "no tensor"
    if str(kind.dtype) not in C_TYPES:
        return "another element type"
    if not kind.shape.has_rank or not all(isinstance(d, int) for d in kind.shape.dims):
        return "a size that is no number"
    return "too many axes" if len(kind.shape.dims) > _MAX_RANK else None


def tensor_type(value: OutputPort) -> tuple[str, tuple[int, ...]]:
    """The element type and shape of a value of a static graph."""
    kind = value.type
    assert isinstance(kind, TensorType)
    return str(kind.dtype), tuple(d for d in kind.shape.dims if isinstance(d, int))
