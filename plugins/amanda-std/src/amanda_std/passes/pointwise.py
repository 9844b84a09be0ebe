"""Pointwise ops: those that a permutation of axes may pass through."""

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
    """Whether each element of the result depends only on the same position.

    A primitive has the trait POINTWISE; the definition of a composite is traced and
    examined. `given`: which of the arguments are present."""
    if not operation.is_composite:
        return Trait.POINTWISE in operation.traits
    return _is_pointwise_definition(
        operation, tuple(sorted(attrs.items())), tuple(given)
    )


@cache
def _is_pointwise_definition(
    operation: Operation, attrs: tuple[tuple[str, Any], ...], given: tuple[bool, ...]
) -> bool:
    params = operation.form.params_of(len(given))
    if any(p.kind.role != TENSOR for p in params):
        return False
    dims = [Sym.named("rows"), Sym.named("columns")]
    types = [TensorType(_example_dtype(p.kind), dims) for p in params]

    def meaning(*xs: Any) -> Any:
        operands = [x if there else None for x, there in zip(xs, given, strict=True)]
        return operation.function(*operands, **dict(attrs))

    try:
        graph = trace(meaning, types)
    except (AmandaError, *BARE_ERRORS):
        return False  # it depends on the order or number of axes
    return all(map(_is_pointwise_op, graph))


def _is_pointwise_op(op: Op) -> bool:
    """Whether an op of a definition is pointwise or a scalar."""
    if op.is_constant:
        return port_type(op.output).shape.rank == 0
    if not is_std(op) or op.bodies or len(op.outputs) != 1:
        return False
    given = [value is not None for value in op.inputs]
    return is_pointwise(operation_of(op), op.attrs if op.has_attrs else {}, given)


def _example_dtype(kind: Any) -> DType:
    """A dtype that an argument of this kind accepts."""
    for name in ("float32", "bool", "int64"):
        if DType(name).kind in kind.kinds:
            return DType(name)
    return DType("float32")
