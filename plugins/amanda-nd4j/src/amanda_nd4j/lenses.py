"""Lenses for Deeplearning4j's rules, in addition to those of the core."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from typing import Any, Final

from amanda.mapping import Decline, RuleSet, equivalent_values
from amanda.tensors import Tensor
from amanda.types import DType

__all__ = ["TYPE_CODES", "add_lenses"]

TYPE_CODES: Final = {
    "bool": 1, "float16": 3, "float32": 5, "float64": 6, "int8": 7, "int16": 8,
    "int32": 9, "int64": 10, "uint8": 11, "uint16": 12, "uint32": 13, "uint64": 14,
    "bfloat16": 17, "string": 50,
}  # fmt: skip
"""nd4j's numbers of element types."""


def add_lenses(rules: RuleSet) -> None:
    """Add these lenses to a rule set."""
    rules.table(
        "type_code",
        [(DType(name), code) for name, code in TYPE_CODES.items()],
        "an element type to nd4j's number for it",
    )
    for name, do, undo, draw, doc, partial in _ROWS:
        rules.lens(name, do, undo, draw, doc, partial=partial, exact=name in _EXACT,
                   takes_none=name == "stated")  # fmt: skip


def _first_element(value: Any) -> Any:
    while isinstance(value, list | tuple):
        if not value:
            raise Decline("a constant without elements has no first one")
        value = value[0]
    return value


def _to_tensor(value: Any, dtype: Any) -> Tensor:
    return Tensor.of(value, dtype)


def _plain_content(value: Any, *_: Any) -> Any:
    """The content of a constant, which rules get as numbers and lists."""
    return value.tolist() if isinstance(value, Tensor) else value


def _to_first(value: Any, *_: Any) -> Any:
    return _first_element(_plain_content(value))


def _scalar_tensor(value: Any, dtype: Any) -> Tensor:
    return Tensor.of([[value]], dtype)


def _single_element(value: Any, dtype: Any = None) -> Any:
    """The element of a tensor with one element."""
    if not isinstance(value, Tensor):
        raise Decline(f"{value!r} is not a tensor")
    if dtype is not None and (str(value.dtype) != dtype or value.shape != (1,)):
        raise Decline(f"a tensor {value.type}, not one element of {dtype}")
    return _first_element(value.tolist())


def _string_of(value: Any) -> str:
    found = _first_element(_plain_content(value))
    return found.decode() if isinstance(found, bytes) else str(found)


def _dim_at(value: int, shape: Sequence[Any], index: int) -> int:
    size = shape[index]
    return size if isinstance(size, int) else value


def _undo_dim(value: int, shape: Sequence[Any], index: int) -> int:
    if value not in (-1, shape[index]):
        raise Decline(f"{value} is not dim {index} of {list(shape)}")
    return -1


def _is_within(value: str, whole: str) -> bool:
    return value in whole


def _undo_within(value: Any, whole: str) -> str:
    if not value:
        raise Decline(f"the value is unknown where it is not in {whole!r}")
    return whole


def _default_if_absent(value: Any, default: Any) -> Any:
    return None if equivalent_values(value, default) else value


def _absent_if_default(value: Any, default: Any) -> Any:
    return default if value is None else value


def _item_or_fallback(
    value: Sequence[Any], index: int, least: int, fallback: int
) -> Any:
    return value[index if len(value) >= least else fallback]


def _flatten_dims(value: Sequence[int], axis: int) -> list[int]:
    return [math.prod(value[:axis]), math.prod(value[axis:])]


def _decline(*_: Any) -> Any:
    raise Decline("nothing tells what this was made of")


def _draw_float(random: Random) -> float:
    return random.choice([0.0, 1.5, -2.0])


_ROWS: Final = (
    (
        "number",
        _to_tensor,
        _to_first,
        lambda r: (r.randint(-9, 9), "int32"),
        "a number to a constant: number(v, dtype)",
        "",
    ),
    (
        "numbers",
        _to_tensor,
        _plain_content,
        lambda r: ([r.randint(-9, 9), 1], "int64"),
        "numbers, or one, to a constant: numbers(v, dtype)",
        "",
    ),
    (
        "first",
        _first_element,
        lambda v: v,
        lambda r: (r.randint(-9, 9),),
        "the first number of a constant",
        "constants without elements",
    ),
    (
        "double",
        float,
        lambda v: v,
        lambda r: (_draw_float(r),),
        "a number to the float",
        "what is no real number",
    ),
    (
        "positive",
        lambda v: v > 0,
        int,
        lambda r: (r.randint(0, 1),),
        "is a number more than 0",
        "",
    ),
    (
        "one_by_one",
        _scalar_tensor,
        _to_first,
        lambda r: (_draw_float(r), "float32"),
        "a number to a tensor of one row and one column",
        "",
    ),
    (
        "one_element",
        lambda v, dtype: Tensor.of([v], dtype),
        _single_element,
        lambda r: (_draw_float(r), "float32"),
        "a number to a tensor of one element: one_element(v, dtype)",
        "other tensors",
    ),
    (
        "element",
        _single_element,
        _decline,
        lambda r: (Tensor.of([_draw_float(r)], "float32"),),
        "the first element of a tensor",
        "undo: anything",
    ),
    (
        "text_tensor",
        lambda v: Tensor.strings([v], ()),
        _string_of,
        lambda r: (r.choice(["", "ab"]),),
        "a text to a tensor of it",
        "",
    ),
    (
        "dim",
        _dim_at,
        _undo_dim,
        lambda r: (-1, [r.randint(1, 9)], 0),
        "a dim, or the value where it is not known: dim(v, shape, index)",
        "",
    ),
    (
        "within",
        _is_within,
        _undo_within,
        lambda _: ("ab", "ab"),
        "does another text contain this one: within(v, whole)",
        "undo: what is not",
    ),
    (
        "stated",
        _default_if_absent,
        _absent_if_default,
        lambda r: ([r.randint(1, 2), 1], [1, 1]),
        "a list that is left out where it is the usual one: stated(v, usual)",
        "",
    ),
    (
        "item_or",
        _item_or_fallback,
        _decline,
        lambda r: ([r.randint(0, 9), 1], 0, 1, 0),
        "an item, or another where there are fewer: item_or(v, index, least, other)",
        "undo: anything",
    ),
    (
        "flat_dims",
        _flatten_dims,
        _decline,
        lambda r: ([2, r.randint(1, 9)], 1),
        "the sizes before an axis and from it on: flat_dims(v, axis)",
        "undo: anything",
    ),
)
_EXACT: Final = frozenset({"numbers", "one_element", "text_tensor"})
