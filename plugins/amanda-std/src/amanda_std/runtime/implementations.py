"""The implementations of ops: rows of kernel tables, and definitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from amanda.backend import Implementation, function_name, input_dtypes
from amanda.graph import Op
from amanda_std.engine.arrays import Kernels
from amanda_std.engine.kernel_dispatch import KernelDispatch


class ChosenKernel(NamedTuple):
    """What a step of a program calls for an op."""

    op: str
    type: str
    dtypes: tuple[str, ...]
    function: Callable[..., Any] | None
    """The kernel; None for the definition of the op."""
    library: str

    @staticmethod
    def of(op: Op, function: Any, kernels: Kernels | None) -> ChosenKernel:
        kind = op.type or "?"
        library = "numpy" if kernels is None else kernels.library
        row = function if kernels is not None and kind in kernels else None
        return ChosenKernel("", kind, input_dtypes(op), row, library)

    def implementation(self) -> Implementation:
        """The entry of a report, with the name of the function."""
        name = _name(self.function, self.library)
        return Implementation(self.op, self.type, self.dtypes, name)


def implementations_in_table(
    op_type: str, kernels: Kernels
) -> Iterator[Implementation]:
    """The implementations of an op type: one for each dtype that has its own.

    >>> [each.name for each in implementations_in_table("mean", Kernels("mine", {}))]
    ['its definition, over mine arrays']
    """
    function = kernels.get(op_type)
    if not isinstance(function, KernelDispatch):
        yield Implementation("", op_type, (), _name(function, kernels.library))
        return
    for dtypes, one in function:
        for dtype in dtypes or ("",):
            named = (dtype,) if dtype else ()
            yield Implementation("", op_type, named, _name(one, kernels.library))


def _name(function: Callable[..., Any] | None, library: str) -> str:
    if function is None:
        return f"its definition, over {library} arrays"
    if isinstance(function, KernelDispatch):
        names = dict.fromkeys(function_name(one) for _, one in function)
        return f"by dtype in each call: {', '.join(names)}"
    return function_name(function)
