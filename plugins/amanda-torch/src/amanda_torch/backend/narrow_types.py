"""Element types that PyTorch stores but hardly computes: they are widened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from amanda.types import TensorType, unknown
from amanda_std.backends import Operation
from amanda_torch.backend.arrays import TORCH_DTYPES

__all__ = ["NARROW", "may_be_narrow", "in_wider_type"]

NARROW: Final = {
    torch.uint16: torch.int32,
    torch.uint32: torch.int64,
    torch.float8_e4m3fn: torch.float32,
    torch.float8_e4m3fnuz: torch.float32,
    torch.float8_e5m2: torch.float32,
    torch.float8_e5m2fnuz: torch.float32,
    torch.float8_e8m0fnu: torch.float32,
}
"""The type in which each is computed. Integers wrap around when they are stored."""


def may_be_narrow(type_: Any) -> bool:
    """Whether a tensor of this type may need to be widened."""
    if not isinstance(type_, TensorType):
        return False
    dtype: Any = type_.dtype
    return dtype is unknown or TORCH_DTYPES.get(dtype) in NARROW


def in_wider_type(
    operation: Operation, kernel: Callable[..., Any]
) -> Callable[..., Any]:
    """A kernel that computes narrow types in wider ones.

    Ops with a dtype of their own, such as casts, and those that pass values on, get
    tensors as they are."""
    if "dtype" in operation.form.attributes or not _shares_dtype(operation):
        return kernel
    kinds = operation.form.results
    many, varies = operation.form.many, operation.form.varies

    def call(*args: Any, **attrs: Any) -> Any:
        narrow = next((d for a in args if (d := _dtype(a)) in NARROW), None)
        if narrow is None:
            return kernel(*args, **attrs)
        results = kernel(
            *(a.to(NARROW[d]) if (d := _dtype(a)) in NARROW else a for a in args),
            **attrs,
        )
        if not many:
            return _narrow(results, kinds[0], narrow)
        of_each = kinds * len(results) if varies else kinds
        rows = zip(results, of_each, strict=True)
        return tuple(_narrow(y, kind, narrow) for y, kind in rows)

    return call


def _narrow(result: Any, kind: Any, narrow: Any) -> Any:
    """A result of the common dtype, or of one that is always narrow, as that."""
    if kind.role != "tensor":
        return result
    if kind.shared:
        return result.to(narrow)
    own = TORCH_DTYPES.get(kind.dtype)
    return result.to(own) if own in NARROW else result


def _shares_dtype(operation: Operation) -> bool:
    return any(p.role == "tensor" for p in operation.form.params)


def _dtype(value: Any) -> Any:
    return getattr(value, "dtype", None)
