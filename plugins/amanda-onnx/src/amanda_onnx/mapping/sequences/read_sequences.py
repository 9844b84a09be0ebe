"""From ONNX: functions for sequences, optionals and texts."""

from __future__ import annotations

from typing import Any

from amanda.types import DType, TensorType
from amanda_onnx.mapping.static_values import dtype_of, expect
from amanda_std import ops

__all__ = ["READ", "text_cast"]

_CASES = {"NONE": "none", "LOWER": "lower", "UPPER": "upper"}


def identity(x: Any) -> Any:
    """What is no tensor is handed on; tensors have a row."""
    expect(not isinstance(x.type, TensorType), "a tensor has a row of its own")
    return x


def sequence_empty(*, dtype: int | None = None) -> Any:
    return ops.sequence_empty(dtype=dtype_of(1 if dtype is None else dtype))


def optional(x: Any = None, *, type: Any = None) -> Any:
    return ops.optional(x, type=None if x is not None else type)


def string_normalizer(
    x: Any, *, case_change_action: str = "NONE", is_case_sensitive: int = 0,
    stopwords: Any = (), locale: str = "en_US",
) -> Any:  # fmt: skip
    """The case of letters does not depend on the locale here; few letters do."""
    expect(case_change_action in _CASES, f"no change of case {case_change_action!r}")
    expect(not locale.startswith(("tr", "az", "lt")), f"no letters of {locale} yet")
    return ops.string_normalize(
        x,
        case=_CASES[case_change_action],
        stopwords=tuple(stopwords),
        case_sensitive=bool(is_case_sensitive),
    )


def text_cast(x: Any, dtype: DType) -> Any:
    """A cast from or to texts."""
    if x.dtype.kind == "string":
        return x if dtype.kind == "string" else ops.string_to_number(x, dtype=dtype)
    return ops.string_from_number(x)


READ: dict[str, Any] = {
    "Identity": identity,
    "SequenceEmpty": sequence_empty,
    "Optional": optional,
    "StringNormalizer": string_normalizer,
}
