"""Which ops go element by element: those that any order of axes may pass through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from amanda.errors import AmandaError
from amanda.graph import Op
from amanda.types import DType, Sym, TensorType
from amanda_std.engine.annotations import TENSOR
from amanda_std.engine.diagnostics import BARE_ERRORS
from amanda_std.engine.operation import Operation
from amanda_std.engine.traits import Trait
from amanda_std.engine.values import port_type, trace
from amanda_std.hub.op_access import is_std, operation_of

__all__ = ["is_pointwise"]


def is_pointwise(
    operation: Operation, attrs: Mapping[str, Any], given: Sequence[bool]
) -> bool:
    """Does each element of the result depend on the elements at its own place only?

    A primitive says so by its shape rule; a composite is taken apart and looked at:
    `given` tells which of its arguments are there."""
    if not operation.is_composite:
        return Trait.POINTWISE in operation.traits
    return _by_meaning(operation, tuple(sorted(attrs.items())), tuple(given))


@cache
def _by_meaning(
    operation: Operation, attrs: tuple[tuple[str, Any], ...], given: tuple[bool, ...]
) -> bool:
    params = operation.form.each(len(given))
    if any(p.kind.role != TENSOR for p in params):
        return False
    dims = [Sym.named("rows"), Sym.named("columns")]
    types = [TensorType(_example(p.kind), dims) for p in params]

    def meaning(*xs: Any) -> Any:
        told = [x if there else None for x, there in zip(xs, given, strict=True)]
        return operation.function(*told, **dict(attrs))

    try:
        graph = trace(meaning, types)
    except (AmandaError, *BARE_ERRORS):
        return False  # it asks for what no order of axes may change, or for more axes
    return all(map(_goes_along, graph))


def _goes_along(op: Op) -> bool:
    """Is an op of a meaning pointwise, or a number?"""
    if op.is_constant:
        return port_type(op.output).shape.rank == 0
    if not is_std(op) or op.bodies or len(op.outputs) != 1:
        return False
    given = [value is not None for value in op.inputs]
    return is_pointwise(operation_of(op), op.attrs if op.has_attrs else {}, given)


def _example(kind: Any) -> DType:
    """An element type that an argument of this kind takes."""
    for name in ("float32", "bool", "int64"):
        if DType(name).kind in kind.kinds:
            return DType(name)
    return DType("float32")
