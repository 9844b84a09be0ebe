"""From ONNX: sequences, optionals and strings."""

from __future__ import annotations

from typing import Any

from amanda.types import DType, TensorType
from amanda_onnx.mapping.static_values import dtype_of
from amanda_std import ops
from amanda_std.mappings import expect

__all__ = ["READ", "cast_string"]

_CASES = {"NONE": "none", "LOWER": "lower", "UPPER": "upper"}
_OWN_LETTERS = ("tr", "az", "lt")
"""Locales in which the case of letters follows other rules."""


def read_identity(x: Any) -> Any:
    """Of a sequence, optional or map; a rule reads the op of tensors."""
    expect(not isinstance(x.type, TensorType), "a rule reads Identity of tensors")
    return x


def read_sequence_empty(*, dtype: int | None = None) -> Any:
    return ops.sequence_empty(dtype=dtype_of(1 if dtype is None else dtype))


def read_optional(x: Any = None, *, type: Any = None) -> Any:
    return ops.optional(x, type=None if x is not None else type)


def read_string_normalizer(
    x: Any, *, case_change_action: str = "NONE", is_case_sensitive: int = 0,
    stopwords: Any = (), locale: str = "en_US",
) -> Any:  # fmt: skip
    """Case conversion does not depend on the locale here."""
    expect(
        case_change_action in _CASES, f"unknown case_change_action {case_change_action}"
    )
    expect(not locale.startswith(_OWN_LETTERS), f"unsupported locale {locale}")
    return ops.string_normalize(
        x,
        case=_CASES[case_change_action],
        stopwords=tuple(stopwords),
        case_sensitive=bool(is_case_sensitive),
    )


def cast_string(x: Any, dtype: DType) -> Any:
    """A cast from or to strings."""
    if x.dtype.kind == "string":
        return x if dtype.kind == "string" else ops.string_to_number(x, dtype=dtype)
    return ops.string_from_number(x)


READ: dict[str, Any] = {
    "Identity": read_identity,
    "SequenceEmpty": read_sequence_empty,
    "Optional": read_optional,
    "StringNormalizer": read_string_normalizer,
}
