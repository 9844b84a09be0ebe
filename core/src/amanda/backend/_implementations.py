"""Reports of the implementations that backends choose for ops, by their types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from amanda.graph import Op

__all__ = ["Implementation", "function_name", "input_dtypes", "implementation_lines"]


class Implementation(NamedTuple):
    """The implementation that a backend uses for an op, or for ops of a type."""

    op: str
    """The op, as messages name it; empty: every op of the type."""
    type: str
    """The type of the op."""
    dtypes: tuple[str, ...]
    """The dtypes of its inputs, `?` where one is unknown; empty: any."""
    name: str
    """The function, kernel or op of the runtime."""

    @property
    def call(self) -> str:
        """The type with the dtypes: `add(float32, float32)`."""
        return f"{self.type}({', '.join(self.dtypes)})"


def implementation_lines(rows: Iterable[Implementation]) -> list[str]:
    """One line for each type, dtypes and implementation, with the number of ops.

    >>> row = Implementation("add 'y'", "add", ("float32", "float32"), "numpy.add")
    >>> implementation_lines([row, row._replace(op="add #3")])
    ['add(float32, float32): numpy.add, 2 ops']
    """
    counts = Counter((row.call, row.name) for row in rows)
    return [
        f"{call}: {name}, {count} op{'s' if count > 1 else ''}"
        for (call, name), count in sorted(counts.items())
    ]


def input_dtypes(op: Op) -> tuple[str, ...]:
    """The dtypes of an op's inputs; of one that is no tensor, its type."""
    from amanda.types import TensorType

    types = [value.type for value in op.inputs if value is not None]
    return tuple(
        "?" if t is None else str(t.dtype) if isinstance(t, TensorType) else str(t)
        for t in types
    )


def function_name(function: Callable[..., Any]) -> str:
    """The module and name of a function, without arguments that are bound to it.

    >>> function_name(partial(input_dtypes, op=None))
    'amanda.backend._implementations.input_dtypes'
    """
    while isinstance(function, partial):
        function = function.func
    name = getattr(function, "__qualname__", None) or getattr(
        function, "__name__", type(function).__qualname__
    )
    module = getattr(function, "__module__", None) or type(function).__module__
    return f"{module}.{name}"
