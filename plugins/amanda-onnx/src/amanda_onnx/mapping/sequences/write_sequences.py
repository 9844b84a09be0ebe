"""To ONNX: functions for sequences, optionals and texts."""

from __future__ import annotations

from typing import Any

from amanda.types import DType
from amanda_onnx.format.element_types import CODES

__all__ = ["WRITE"]

_TEXT = CODES[DType("string")]


def sequence_empty(o: Any, *, dtype: Any = None) -> Any:
    return o.SequenceEmpty(dtype=CODES[DType("float32") if dtype is None else dtype])


def optional(o: Any, x: Any = None, *, type: Any = None) -> Any:
    return o.Optional(type=type) if x is None else o.Optional(x)


def string_normalize(o: Any, x: Any, *, case: str, stopwords: Any,
                     case_sensitive: bool) -> Any:  # fmt: skip
    words = {"stopwords": list(stopwords)} if stopwords else {}
    return o.StringNormalizer(
        x,
        case_change_action=case.upper(),
        is_case_sensitive=int(case_sensitive),
        **words,
    )


def string_from_number(o: Any, x: Any) -> Any:
    return o.Cast(x, to=_TEXT)


def string_to_number(o: Any, x: Any, *, dtype: Any) -> Any:
    return o.Cast(x, to=CODES[dtype])


WRITE: dict[str, Any] = {
    "sequence_empty": sequence_empty,
    "optional": optional,
    "string_normalize": string_normalize,
    "string_from_number": string_from_number,
    "string_to_number": string_to_number,
}
