"""Bodies of control flow ops: their result types, captures, inlining and gradients.

A body is a Python function, a graph, or (while a graph runs) a callable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from amanda.errors import InvalidTypeError, UsageError
from amanda.graph import Graph, Op, OutputPort
from amanda.mapping import expanded_sizes, expect_bounded_expansion
from amanda.tensors import FunctionRef
from amanda.types import (
    OptionalType,
    SequenceType,
    Shape,
    Sym,
    TensorType,
    TupleType,
    Type,
    join,
)
from amanda_std.engine.values import (
    UNKNOWN,
    Operators,
    Typed,
    Value,
    is_types_only,
    lift,
    require_tracing,
    trace,
    value_type,
)
from amanda_std.ops.tensor.creation import zeros_like
from amanda_std.runtime.containers import join_types, type_of, without_content

_open: list[Graph] = []
"""Bodies being inlined, outermost first."""


def as_results(returned: Any) -> tuple[Any, ...]:
    """The results of a body as a tuple."""
    return tuple(returned) if isinstance(returned, tuple | list) else (returned,)


def result_types(body: Any, types: Sequence[Type]) -> tuple[Type, ...]:
    """Result types of a body for parameters of the given types.

    A graph keeps these types as those of its parameters."""
    if isinstance(body, Graph):
        _infer_graph(body, types)
        return tuple(UNKNOWN if v is None else value_type(v) for v in body.results)
    if is_types_only():
        given = [Typed(t) if isinstance(t, TensorType) else t for t in types]
        return tuple(map(_type_of, as_results(body(*given))))
    graph = trace(body, types)
    try:
        return result_types(graph, types)
    finally:
        discard(graph)


def _type_of(value: Any) -> Type:
    """Type of a result: a type, a graph value or an array."""
    if isinstance(value, Operators):
        return value.type
    if isinstance(value, OutputPort):
        return value_type(value)
    return value if isinstance(value, Type) else type_of(value)


def _infer_graph(body: Graph, types: Sequence[Type]) -> None:
    from amanda_std.passes.infer import infer

    if len(types) != len(body.parameters):
        raise InvalidTypeError(
            f"{body.label} has another number of parameters than values given",
            expected=len(body.parameters),
            got=len(types),
        )
    changed = False
    for parameter, given in zip(body.parameters, types, strict=True):
        if parameter.type != given and (given != UNKNOWN or parameter.type is None):
            parameter.type = given
            changed = True
    if changed:
        infer(body)


def discard(graph: Graph) -> None:
    """Remove all ops of a graph, so that its captures have no users in it."""
    for i in reversed(range(len(graph.results))):
        graph.remove_result(i)
    for op in reversed(graph):
        graph.remove(op, "typing")


def common_types(branches: Sequence[tuple[str, Sequence[Type]]]) -> list[Type]:
    """The widest common types of the results of all branches."""
    (first, result), *others = branches
    for name, types in others:
        if len(types) != len(result):
            raise InvalidTypeError(
                "the branches return different numbers of values",
                expected=f"{len(result)} as in {first!r}",
                got=f"{len(types)} in {name!r}",
            )
        result = [widest_type(a, b) for a, b in zip(result, types, strict=True)]
    return list(result)


def widest_type(a: Type, b: Type) -> Type:
    """The narrowest type that covers both, without content where they differ."""
    if a == b:
        return a
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        return join(without_static_content(a), without_static_content(b))
    return join_types([a, b]) if type(a) is type(b) else UNKNOWN


def without_static_content(type: Type) -> Any:
    """The type without static content, which another iteration may change."""
    return without_content(type)


def carried_types(
    body: Any, init: Sequence[Any], before: Sequence[Type], after: Sequence[Type],
    skip: int,
) -> list[Any]:  # fmt: skip
    """The types of loop-carried values: dims that change become unknown (fixed point).

    Each iteration widens something, and no type can be widened more often than its rank
    plus two, so it terminates."""
    now: list[Any] = [without_static_content(t) for t in init]
    most = 2 + sum(3 + _dims_or_none(t) for t in now)
    for _ in range(most):
        got = result_types(body, [*before, *now, *after])[skip : skip + len(now)]
        if len(got) != len(now):
            raise InvalidTypeError(
                "a body must return the carried values first",
                expected=f"{skip + len(now)} results or more",
                got=skip + len(got),
            )
        wide = [
            widest_type(a, without_static_content(b))
            for a, b in zip(now, got, strict=True)
        ]
        if all(_is_fixed_point(w, n) for w, n in zip(wide, now, strict=True)):
            return now
        now = wide
    return [TensorType(t.dtype) if isinstance(t, TensorType) else t for t in now]


def _dims_or_none(type: Any) -> int:
    known = isinstance(type, TensorType) and type.shape.has_rank
    return len(type.shape.dims) if known else 0


def _is_fixed_point(after: Any, before: Any) -> bool:
    """Whether no type became wider; unknown dims are fresh ones each time."""
    if not isinstance(after, TensorType) or not isinstance(before, TensorType):
        return bool(after == before)
    if after.dtype != before.dtype or after.shape.has_rank != before.shape.has_rank:
        return False
    if not after.shape.has_rank:
        return True
    if after.shape.rank != before.shape.rank:
        return False
    pairs = zip(after.shape.dims, before.shape.dims, strict=True)
    return all(_is_anonymous(b) or (not _is_anonymous(a)) for a, b in pairs)


def _is_anonymous(dim: Any) -> bool:
    return isinstance(dim, Sym) and dim.is_anonymous


def stacked_type(row: Any, count: Any, axis: int = 0) -> TensorType:
    """Type of `count` values of type `row` stacked along an axis."""
    if not isinstance(row, TensorType):
        raise InvalidTypeError("only tensors can be stacked", got=row)
    if not row.shape.has_rank:
        return TensorType(row.dtype)
    dims = list(row.shape.dims)
    at = axis % (len(dims) + 1)
    return TensorType(row.dtype, Shape([*dims[:at], count, *dims[at:]]))


def holds_containers(op: Op) -> bool:
    """Whether the op or a body of it returns a sequence, an optional or a tuple.

    The number of values in it may differ between branches and iterations."""
    results = (v for body in op.bodies.values() for v in body.results if v is not None)
    containers = SequenceType | OptionalType | TupleType
    return any(isinstance(v.type, containers) for v in (*op.outputs, *results))


def inline(body: Graph | Callable[..., Any], xs: Sequence[Any]) -> tuple[Any, ...]:
    """Inline a body: copy its ops to the graph being traced, for arguments xs."""
    if not isinstance(body, Graph):
        return as_results(body(*xs))
    if body in _open:
        raise _cycle_error(body)
    if not _open:
        _expect_bounded(body)
    into = require_tracing()
    memo: dict[Any, Any] = {}
    outputs = into.graph.paste(body, [lift(x, into) for x in xs], memo=memo)
    copies = [memo[op] for op in body]
    for copy in copies:
        into.note(copy)
    from amanda_std.passes.infer import infer_ops

    _open.append(body)
    try:
        infer_ops(copies)
    finally:
        _open.pop()
    return tuple(None if port is None else Value(port) for port in outputs)


def _expect_bounded(body: Graph) -> None:
    """Raise LimitError if a body, with the functions that it calls, has too many ops.

    Counting costs less than inlining, which copies each function at least once."""
    sizes = expanded_sizes([body], _called_functions, _cycle_error)
    expect_bounded_expansion(sizes[body], len(sizes))


def _cycle_error(body: Graph) -> UsageError:
    names = " -> ".join(repr(g.name or "?") for g in (*_open, body))
    return UsageError(
        f"{body.label} calls itself without end",
        got=names,
        hint="write the repetition as a loop: ops.loop, ops.while_",
    )


def _called_functions(op: Op) -> list[Graph]:
    """The functions of the graph to which attributes of an op refer."""
    if not op.has_attrs or op.graph is None:
        return []
    refs = [value for value in op.attrs.values() if isinstance(value, FunctionRef)]
    known = op.graph.root.functions if refs else {}
    return [known[ref.name] for ref in refs if ref.name in known]


def gradient_or_zeros(gradient: Any, of: Any) -> Any:
    """A gradient, or zeros if there is none."""
    return zeros_like(of) if gradient is None else gradient
