"""The types of a loop's variables, which may change their shape from turn to turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from amanda.graph import Graph, Op
from amanda.types import Shape, Sym, TensorType, Type
from amanda_std.dataflow.stacked_array import is_open_type, written_type

__all__ = ["variable_type", "wider_loop_types"]


def variable_type(type: Type | None) -> Type | None:
    """The type of a loop's variable: not the content that its initial value has."""
    if not isinstance(type, TensorType):
        return type
    is_known = type.shape.has_rank and not is_open_type(type)
    return TensorType(type.dtype, type.shape if is_known else None)


def wider_loop_types(
    op: Op, inputs: Sequence[Type | None], bodies: Mapping[str, Graph]
) -> Sequence[Type | None] | None:
    """The types of all variables where one changes its shape; None where none does.

    `op` is a loop with a body `body`.
    """
    body = bodies["body"]
    now = [parameter.type for parameter in body.parameters]
    shapes = op.attrs.get("output_shapes") or []
    wider = [
        _wider_type(
            old, None if value is None else value.type,
            _elements(first, body, i), shapes[i] if i < len(shapes) else None,
        )
        for i, (old, value, first) in enumerate(
            zip(now, body.results, inputs, strict=True)
        )
    ]  # fmt: skip
    changes = any(a is not b for a, b in zip(wider, now, strict=True))
    return wider if changes else None


def _elements(first: Type | None, body: Graph, index: int) -> TensorType | None:
    """The type of the elements of an array whose initial value leaves it open."""
    if isinstance(first, TensorType) and is_open_type(first):
        return written_type(body, index)
    return None


def _wider_type(
    old: Type | None, new: Type | None, element: TensorType | None, declared: Any
) -> Type | None:
    if not isinstance(old, TensorType):
        return old
    if not old.shape.has_rank:
        if element is None:
            return old
        dims = [d if isinstance(d, int) else Sym.unknown() for d in element.shape.dims]
        return TensorType(element.dtype, [Sym.unknown(), *dims])
    if not isinstance(new, TensorType) or not new.shape.has_rank:
        return old
    if new.shape.rank != old.shape.rank:
        return TensorType(old.dtype)
    rank = old.shape.rank
    fits = isinstance(declared, Shape) and declared.has_rank and declared.rank == rank
    limits = declared.dims if fits else [0] * rank
    dims = [
        d if _keeps(d, n, is_loose=not isinstance(limit, int)) else Sym.unknown()
        for d, n, limit in zip(old.shape.dims, new.shape.dims, limits, strict=True)
    ]
    is_same = all(a is b for a, b in zip(dims, old.shape.dims, strict=True))
    return old if is_same else TensorType(old.dtype, dims)


def _keeps(old: Any, new: Any, *, is_loose: bool) -> bool:
    """Whether a dim of a variable stays as it is from one turn to the next."""
    if not isinstance(old, int):
        return True
    return old == new if isinstance(new, int) else not is_loose
