"""From PyTorch: arithmetic of symbolic numbers, which are scalars."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amanda.types import DType
from amanda_std import ops
from amanda_torch.mapping.calls import torch_functions
from amanda_torch.mapping.type_promotion import BOOL, INT, as_value

__all__ = ["READ"]

DOUBLE = DType("float64")
"""The element type of symbolic numbers with a fraction."""


def _type_of(operand: Any) -> Any:
    if isinstance(operand, bool):
        return BOOL
    if isinstance(operand, int):
        return INT
    return DOUBLE if isinstance(operand, float) else operand.dtype


def _common(*operands: Any) -> list[Any]:
    """Operands as scalars of one type: double if one of them is."""
    kinds = {_type_of(operand).kind for operand in operands}
    dtype = DOUBLE if "float" in kinds else INT
    return [as_value(operand, dtype) for operand in operands]


def _binary(op: Callable[..., Any]) -> Callable[..., Any]:
    def read(a: Any, b: Any) -> Any:
        return op(*_common(a, b))

    return read


def read_quotient(a: Any, b: Any) -> Any:
    return ops.divide(as_value(a, DOUBLE), as_value(b, DOUBLE))


def read_choice(condition: Any, a: Any, b: Any) -> Any:
    return ops.where(as_value(condition, BOOL), *_common(a, b))


def read_integer(x: Any) -> Any:
    (x,) = _common(x)
    return as_value(ops.trunc(x) if x.dtype.kind == "float" else x, INT)


def _logic(op: str) -> Callable[..., Any]:
    """Of truth values the logical op, of integers that on bits."""

    def read(a: Any, b: Any) -> Any:
        is_bool = _type_of(a).kind == "bool" and _type_of(b).kind == "bool"
        dtype, kind = (BOOL, "logical") if is_bool else (INT, "bitwise")
        return ops.find(f"{kind}_{op}")(as_value(a, dtype), as_value(b, dtype))

    return read


def read_negative(x: Any) -> Any:
    return ops.negative(*_common(x))


_ARITHMETIC: dict[str, Any] = {
    "_operator.add": ops.add, "_operator.sub": ops.subtract,
    "_operator.mul": ops.multiply, "_operator.floordiv": ops.floor_divide,
    "_operator.mod": ops.remainder, "_operator.pow": ops.pow,
    "_operator.eq": ops.equal, "_operator.ne": ops.not_equal,
    "_operator.lt": ops.less, "_operator.le": ops.less_equal,
    "_operator.gt": ops.greater, "_operator.ge": ops.greater_equal,
    "_operator.lshift": ops.bitwise_left_shift,
    "_operator.rshift": ops.bitwise_right_shift,
    "torch.sym_max": ops.maximum, "torch.sym_min": ops.minimum,
}  # fmt: skip

READ = torch_functions(
    {
        **{name: _binary(op) for name, op in _ARITHMETIC.items()},
        "_operator.truediv": read_quotient,
        "_operator.neg": read_negative,
        "_operator.and_": _logic("and"),
        "_operator.or_": _logic("or"),
        "math.trunc torch.sym_int": read_integer,
        "torch.sym_float": lambda x: as_value(x, DOUBLE),
        "torch._sym_sqrt": lambda x: ops.sqrt(as_value(x, DOUBLE)),
        "torch.sym_not": lambda x: ops.logical_not(as_value(x, BOOL)),
        "torch.sym_ite": read_choice,
    },
    domain="",
)
