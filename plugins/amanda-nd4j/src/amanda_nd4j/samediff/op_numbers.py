"""The numbers of ops in SameDiff's files.

A custom op has the hash of its name. Other ops are numbered within their kind; files
since 2019 have the name of each op beside its number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final

__all__ = [
    "CUSTOM",
    "LOGIC",
    "LOGIC_NUMBERS",
    "hash_of",
    "names_by_hash",
    "op_of_2018",
    "usual_number",
]

CUSTOM: Final = 21
LOGIC: Final = 119
"""The kinds of ops that are written: custom ops, and those of control flow."""
LOGIC_NUMBERS: Final[Mapping[str, int]] = {
    "merge": 60, "loop_cond": 70, "next_iteration": 80, "exit": 90, "enter": 100,
    "switch": 30,
}  # fmt: skip
_MASK: Final = 2**64 - 1
_START: Final = 0xBB40E64DA205B064
_FACTOR: Final = 7664345821815920749
_SEED: Final = 0x544B2FBACAAF1684


@cache
def _byte_table() -> tuple[int, ...]:
    h, found = _SEED, []
    for _ in range(256):
        for _ in range(31):
            h = (h >> 7) ^ h
            h = ((h << 11) & _MASK) ^ h
            h = (h >> 10) ^ h
        found.append(h)
    return tuple(found)


def hash_of(name: str) -> int:
    """The number of a custom op, as a signed integer.

    >>> hash_of("shape_of")
    2143541193762479137
    """
    table, h = _byte_table(), _START
    for byte in name.encode():
        h = ((h * _FACTOR) & _MASK) ^ table[byte]
        h = ((h * _FACTOR) & _MASK) ^ table[0]
    return h - 2**64 if h >= 2**63 else h


def usual_number(op: str) -> tuple[int, int]:
    """The kind and the number of an op, where no file has others."""
    if op in LOGIC_NUMBERS:
        return LOGIC, LOGIC_NUMBERS[op]
    return CUSTOM, hash_of(op)


def names_by_hash(names: Iterable[str]) -> dict[int, str]:
    return {hash_of(name): name for name in names}


# -- files of 2018 ---------------------------------------------------------------------

_CUSTOM_OF_2018: Final = 11
_TRANSFORMS: Final = {
    0: "abs", 1: "ceil", 2: "cos", 3: "exp", 4: "floor", 5: "log", 6: "neg",
    8: "round", 10: "sigmoid", 11: "sign", 12: "sin", 13: "softplus", 14: "sqrt",
    15: "tanh", 16: "acos", 17: "asin", 18: "atan", 19: "hardtanh", 20: "softsign",
    21: "elu", 24: "timesoneminus", 27: "identity", 33: "relu", 35: "oneminus",
    38: "softmax", 40: "log_softmax", 49: "cube", 51: "hardsigmoid",
    53: "rationaltanh", 61: "rectifiedtanh", 63: "sinh", 64: "cosh", 65: "tan",
    67: "selu", 74: "swish", 76: "rsqrt", 77: "log1p", 78: "erf", 79: "isinf",
    80: "isnan", 81: "isfinite", 82: "acosh", 84: "asinh", 87: "rint",
    88: "logsigmoid", 90: "erfc", 91: "expm1", 93: "atanh", 94: "Reciprocal",
    95: "square",
}  # fmt: skip
_REDUCTIONS: Final = {0: "reduce_mean", 1: "reduce_sum", 3: "reduce_max",
                      4: "reduce_min", 8: "reduce_prod"}  # fmt: skip
_PAIRWISE: Final = {
    0: "add", 2: "divide", 3: "equals", 4: "greater", 5: "less", 6: "multiply",
    7: "Pow", 8: "reversesubtract", 9: "subtract", 11: "greater_equal",
    12: "less_equal", 13: "maximum", 14: "minimum", 15: "not_equals",
    18: "reversedivide", 19: "truncatediv", 20: "floordiv", 21: "floormod",
    22: "squaredsubtract", 23: "reversemod", 25: "mod", 69: "tf_atan2",
}  # fmt: skip
_LOGIC: Final = {number: name for name, number in LOGIC_NUMBERS.items()}
_NUMBERED_OF_2018: Final[Mapping[int, Mapping[int, str]]] = {
    0: _TRANSFORMS, 1: _REDUCTIONS, 5: _PAIRWISE, 119: _LOGIC,
}  # fmt: skip


def op_of_2018(node: Mapping[str, Any], custom: Mapping[int, str]) -> str | None:
    """The name of a node's op; None where its number is not known."""
    kind, number = node.get("opType", 0), node.get("opNum", 0)
    if kind == _CUSTOM_OF_2018:
        return custom.get(number)
    return _NUMBERED_OF_2018.get(kind, {}).get(number)
