"""Array libraries: the array namespace of a value, and tables of kernels.

The function of a primitive is its kernel, written over the array namespace of its
arguments. A library for which that fails or is slow brings a `Kernels` table with a
row for the op."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any

import numpy as np

from amanda.types import DType, TensorType
from amanda_std.engine.literals import NUMBER_KINDS, as_tensor

_NUMPY = (np.ndarray, np.generic, int, float, bool, complex, list, type(None))


def xp(*arrays: Any) -> Any:
    """The array namespace of the arrays; numpy for numbers and lists."""
    for array in arrays:
        if not isinstance(array, _NUMPY):
            return array.__array_namespace__()
    return np


def all_numpy(values: Iterable[Any]) -> bool:
    """Whether no array among the values belongs to another library."""
    return not any(
        not all_numpy(v)
        if isinstance(v, list | tuple)
        else hasattr(v, "__array_namespace__") and not isinstance(v, _NUMPY)
        for v in values
    )


class Kernels(Mapping[str, Callable[..., Any]]):
    """The kernels of one array library: a row for each op that needs its own.

    >>> table = Kernels("numpy", {"exp": np.exp})
    >>> table.library, list(table)
    ('numpy', ['exp'])
    """

    def __init__(
        self,
        library: str,
        rows: Mapping[str, Callable[..., Any]],
        *,
        fresh: Iterable[str] = (),
        in_place: Iterable[str] = (),
        into: Iterable[str] = (),
    ) -> None:
        self.library = library
        self._rows = dict(rows)
        self.in_place = frozenset(in_place)
        """Rows that accept `out=`, which may alias an operand."""
        self.into = frozenset(into)
        """Rows that accept `out=`, which must not alias an operand."""
        self.fresh = frozenset(fresh) | self.in_place | self.into
        """Ops whose results share no memory with their operands."""

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return self._rows[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def also(self, rows: Mapping[str, Callable[..., Any]]) -> Kernels:
        """A table with more rows, which take precedence."""
        kept = self._rows.keys() - rows.keys()
        return Kernels(
            self.library,
            {**self._rows, **rows},
            fresh=self.fresh & kept,
            in_place=self.in_place & kept,
            into=self.into & kept,
        )


_current: ContextVar[Kernels | None] = ContextVar("amanda_std_kernels", default=None)


def current_kernels() -> Kernels | None:
    """The table of the enclosing `use_kernels`, if any."""
    return _current.get()


class use_kernels:  # noqa: N801 - read as a verb
    """Context in which ops called on arrays take kernels from this table first."""

    __slots__ = ("_kernels", "_token")

    def __init__(self, kernels: Kernels | None) -> None:
        self._kernels = kernels

    def __enter__(self) -> None:
        self._token = _current.set(self._kernels)

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)


def number_as_array(value: Any, dtype: DType | None, beside: Any) -> Any:
    """A Python number as an array of the dtype of the other operands."""
    if dtype is None:
        return np.asarray(value)
    if dtype.kind not in NUMBER_KINDS[type(value)]:
        as_tensor(value, dtype)  # says what is wrong
    return xp(*beside).asarray(value, dtype=dtype.numpy)


def array_type(array: Any) -> TensorType:
    """The type of an array, with its content if that is small and integer."""
    from amanda_std.inference.shape_arguments import MAX_KNOWN_ELEMENTS

    dtype = DType.of(array)
    shape = np.shape(array)
    if dtype.kind in ("int", "uint", "bool") and isinstance(array, _NUMPY):
        known = np.asarray(array)
        if known.size <= MAX_KNOWN_ELEMENTS:
            return TensorType(dtype, shape, value=known.tolist())
    return TensorType(dtype, shape)


def in_float32(function: Callable[..., Any], *args: Any, **attrs: Any) -> Any:
    """Call a composite on numpy arrays, with small floats (float16, bfloat16, float8)
    computed in float32.

    numpy promotes Python numbers differently for extension dtypes, and a result that
    is rounded once is more accurate. Beside arrays of another library, whose elements
    stay small, those of numpy do too."""
    small = [
        a.dtype for a in args if isinstance(a, _NUMPY[:2]) and is_small_float(a.dtype)
    ]
    if not small or not all_numpy(args):
        return function(*args, **attrs)
    single = np.dtype("float32")
    wide = [
        a.astype(single) if isinstance(a, _NUMPY[:2]) and is_small_float(a.dtype) else a
        for a in args
    ]
    made = function(*wide, **attrs)
    if isinstance(made, tuple | list):
        return tuple(m.astype(small[0]) if m.dtype == single else m for m in made)
    return made.astype(small[0]) if made.dtype == single else made


def is_small_float(dtype: Any) -> bool:
    """Whether this float dtype is not one of numpy's own."""
    return bool(dtype.kind == "V" and DType.of(dtype).kind == "float")
