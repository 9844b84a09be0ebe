"""Values of attributes as signatures write them. The kind tells how to read one.

true, 3, 1e-05, "NHWC", f32, [1, ?, 3], @function, u8[4] x ff0000ff, [1, 2]
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable
from math import copysign, inf, isfinite, nan
from typing import Any

from amanda.dictionary.patterns import NAME, Words, short, written_pattern
from amanda.tensors import FunctionRef, Tensor
from amanda.types import DType, Shape, Sym

__all__ = ["float32_of", "literal", "read_literal"]

_INT = re.compile(r"-?[0-9]+")
_FLOAT = re.compile(r"-?(?:inf|nan|[0-9.]+(?:e[-+]?[0-9]+)?)")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_HEX = re.compile(r"[0-9a-f]*")
_ODD_FLOATS = {"inf": inf, "-inf": -inf, "nan": nan}


def float32_of(value: float) -> float:
    """The nearest number that a float32 can hold, which is what files have.

    >>> float32_of(1e-05)
    9.999999747378752e-06
    """
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return copysign(inf, value)
    return rounded


def _float_text(value: float) -> str:
    """The shortest text that means this float32."""
    if not isfinite(value):
        return repr(value)
    for digits in range(1, 10):
        text = f"{value:.{digits}g}"
        if float32_of(float(text)) == value:
            return repr(float(text))
    return repr(value)


def _shape_text(value: Shape) -> str:
    if not value.has_rank:
        return "[...]"
    return f"[{', '.join('?' if isinstance(dim, Sym) else str(dim) for dim in value)}]"


def _tensor_text(value: Tensor) -> str:
    content = b"".join(value.chunks()).hex()
    assert isinstance(value.dtype, DType)
    return f"{short(value.dtype)}{list(value.shape)} x {content}"


_WRITE: dict[str, Callable[[Any], str]] = {
    "bool": lambda value: "true" if value else "false",
    "int": str,
    "float": _float_text,
    "string": lambda value: json.dumps(value, ensure_ascii=False),
    "dtype": written_pattern,
    "type": written_pattern,
    "shape": _shape_text,
    "tensor": _tensor_text,
    "function": lambda value: f"@{value.name}",
    "sparse": lambda value: json.dumps(value),
    "any": lambda value: json.dumps(value),
}


def literal(kind: str, value: Any) -> str:
    """A value of this kind as text.

    >>> literal("float", float32_of(1e-05)), literal("string[]", ["a", "b"])
    ('1e-05', '["a", "b"]')
    """
    if kind.endswith("[]"):
        write = _WRITE[kind[:-2]]
        return f"[{', '.join(map(write, value))}]"
    return _WRITE[kind](value)


def read_literal(kind: str, words: Words) -> Any:
    """The value of this kind that comes next; lists become tuples."""
    if not kind.endswith("[]"):
        return _READ[kind](words)
    read = _READ[kind[:-2]]
    words.expect("[")
    items: list[Any] = []
    while not words.take("]"):
        if items:
            words.expect(",")
        items.append(read(words))
    return tuple(items)


def _read_bool(words: Words) -> bool:
    word = words.match(NAME, "true or false")
    if word not in ("true", "false"):
        raise words.fault("true or false")
    return word == "true"


def _read_float(words: Words) -> float:
    text = words.match(_FLOAT, "a float")
    return _ODD_FLOATS[text] if text in _ODD_FLOATS else float32_of(float(text))


def _read_shape(words: Words) -> Shape:
    words.expect("[")
    if words.take("..."):
        words.expect("]")
        return Shape(None)
    dims: list[int | Sym] = []
    while not words.take("]"):
        if dims:
            words.expect(",")
        unknown = words.take("?")
        dims.append(Sym.unknown() if unknown else int(words.match(_INT, "a dim")))
    return Shape(dims)


def _read_tensor(words: Words) -> Tensor:
    dtype = words.pattern()
    assert isinstance(dtype, DType)
    shape = [int(dim) for dim in _read_shape(words).dims if isinstance(dim, int)]
    words.expect("x")
    content = bytes.fromhex(words.match(_HEX, "hexadecimal digits"))
    return Tensor.from_buffer(content, dtype, shape)


def _read_function(words: Words) -> FunctionRef:
    words.expect("@")
    return FunctionRef(words.match(NAME, "the name of a function"))


def _read_json(words: Words) -> Any:
    words.peek("")
    try:
        value, words.at = json.JSONDecoder().raw_decode(words.text, words.at)
    except ValueError as error:
        raise words.fault("a value as JSON has it") from error
    return value


_READ: dict[str, Callable[[Words], Any]] = {
    "bool": _read_bool,
    "int": lambda words: int(words.match(_INT, "an int")),
    "float": _read_float,
    "string": lambda words: json.loads(words.match(_STRING, "a text in quotes")),
    "dtype": Words.pattern,
    "type": Words.pattern,
    "shape": _read_shape,
    "tensor": _read_tensor,
    "function": _read_function,
    "sparse": _read_json,
    "any": _read_json,
}
