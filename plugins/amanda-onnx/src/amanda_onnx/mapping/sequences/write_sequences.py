"""To ONNX: sequences, optionals and strings."""

from __future__ import annotations

from typing import Any

from amanda.types import DType
from amanda_onnx.format.element_types import CODES

__all__ = ["WRITE"]


def write_sequence_empty(o: Any, *, dtype: Any = None) -> Any:
    return o.SequenceEmpty(dtype=CODES[DType("float32") if dtype is None else dtype])


def write_optional(o: Any, x: Any = None, *, type: Any = None) -> Any:
    return o.Optional(type=type) if x is None else o.Optional(x)


def write_string_normalize(o: Any, x: Any, *, case: str, stopwords: Any,
                           case_sensitive: bool) -> Any:  # fmt: skip
    more = {"stopwords": list(stopwords)} if stopwords else {}
    return o.StringNormalizer(
        x,
        case_change_action=case.upper(),
        is_case_sensitive=int(case_sensitive),
        **more,
    )


def write_string_from_number(o: Any, x: Any) -> Any:
    return o.Cast(x, to=CODES[DType("string")])


def write_string_to_number(o: Any, x: Any, *, dtype: Any) -> Any:
    return o.Cast(x, to=CODES[dtype])


WRITE: dict[str, Any] = {
    "sequence_empty": write_sequence_empty,
    "optional": write_optional,
    "string_normalize": write_string_normalize,
    "string_from_number": write_string_from_number,
    "string_to_number": write_string_to_number,
}
