"""Primitives of `shapes` whose operands are permuted, or of another type, first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from amanda_jax.formats.jaxprs import shapes
from amanda_jax.formats.jaxprs.shapes import expect
from amanda_std import ops

__all__ = ["READ"]


def reshape_permuted(
    x: Any, *sizes: Any, new_sizes: Any, dimensions: Any, sharding: Any = None
) -> Any:
    expect(dimensions is not None, "axes stay in their order")
    permuted = ops.transpose(x, perm=tuple(dimensions))
    return shapes.reshape(permuted, *sizes, new_sizes=new_sizes, sharding=sharding)


def _find_place(name: str) -> Callable[..., Any]:
    """The place of the first true, or false, element."""
    find = shapes.READ[name]

    def read(x: Any, *, axes: Any, index_dtype: Any) -> Any:
        expect(x.dtype.kind == "bool", "the elements are no conditions")
        return find(ops.astype(x, dtype="uint8"), axes=axes, index_dtype=index_dtype)

    read.__name__ = f"{name}_of_conditions"
    return read


def sort_by_parts(*xs: Any, dimension: int, is_stable: bool, num_keys: int) -> Any:
    """Conditions are sorted as integers, complex numbers by real and imaginary part."""
    kinds = {key.dtype.kind for key in xs[:num_keys]}
    expect(kinds & {"bool", "complex"}, "the keys are real numbers")
    keys = [part for key in xs[:num_keys] for part in _sortable_parts(key)]
    found = shapes.sort(
        *keys, *xs, dimension=dimension, is_stable=is_stable, num_keys=len(keys)
    )
    return found[len(keys) :]


def _sortable_parts(key: Any) -> list[Any]:
    if key.dtype.kind == "complex":
        return [ops.real(key), ops.imag(key)]
    return [ops.astype(key, dtype="uint8") if key.dtype.kind == "bool" else key]


READ: Final[dict[str, Callable[..., Any]]] = {
    "argmax": _find_place("argmax"),
    "argmin": _find_place("argmin"),
    "reshape": reshape_permuted,
    "sort": sort_by_parts,
}
