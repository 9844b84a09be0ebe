"""Values of attributes as signatures write them. The kind tells how to read one.

true, 3, 1e-05, 1+2j, "NHWC", f32, [1, ?, 3], @function, u8[4] x ff0000ff, [1, 2], RELU,
none; what has no kind of its own is written as JSON has it.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable
from math import copysign, inf, isfinite, nan
from typing import Any

from amanda.dictionary.op_definition import EnumMember
from amanda.dictionary.type_patterns import (
    NAME,
    SignatureScanner,
    format_pattern,
    short_dtype_name,
)
from amanda.tensors import FunctionRef, Tensor
from amanda.types import DType, Shape, Sym

__all__ = ["format_literal", "parse_literal", "round_to_float32"]

_INT = re.compile(r"-?[0-9]+")
_FLOAT = re.compile(r"-?(?:inf|nan|[0-9.]+(?:e[-+]?[0-9]+)?)")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_HEX = re.compile(r"[0-9a-f]*")
_NUMBER = re.compile(
    r"[-+]?(?:inf|nan|[0-9.]+(?:e[-+]?[0-9]+)?)j?(?:[-+][0-9.einfa+-]+j)?"
)
_WORD = re.compile(r"[A-Za-z0-9_.+-]+")
_NONE = "none"
_ODD_FLOATS = {"inf": inf, "-inf": -inf, "nan": nan}


def round_to_float32(value: float) -> float:
    """The nearest number that a float32 can hold, which is what files have.

    >>> round_to_float32(1e-05)
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
        if round_to_float32(float(text)) == value:
            return repr(float(text))
    return repr(value)


def _shape_text(value: Shape) -> str:
    if not value.has_rank:
        return "[...]"
    return f"[{', '.join('?' if isinstance(dim, Sym) else str(dim) for dim in value)}]"


def _tensor_text(value: Tensor) -> str:
    content = b"".join(value.chunks()).hex()
    assert isinstance(value.dtype, DType)
    return f"{short_dtype_name(value.dtype)}{list(value.shape)} x {content}"


def _number_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value).strip("()")


def _member_text(value: Any) -> str:
    number = getattr(value, "number", None)
    return str(value) if number is None else f"{value} = {number}"


_WRITE: dict[str, Callable[[Any], str]] = {
    "bool": lambda value: "true" if value else "false",
    "int": str,
    "float": _float_text,
    "double": lambda value: repr(float(value)),
    "complex": lambda value: repr(complex(value)).strip("()"),
    "number": _number_text,
    "dim": str,
    "string": lambda value: json.dumps(value, ensure_ascii=False),
    "dtype": format_pattern,
    "type": format_pattern,
    "shape": _shape_text,
    "tensor": _tensor_text,
    "function": lambda value: f"@{value.name}",
    "enum": _member_text,
    "sparse": lambda value: json.dumps(value),
    "any": lambda value: json.dumps(value, ensure_ascii=False),
}


def format_literal(kind: str, value: Any) -> str:
    """A value of this kind as text.

    >>> format_literal("float", round_to_float32(1e-05))
    '1e-05'
    >>> format_literal("string[]", ["a", "b"])
    '["a", "b"]'
    """
    plain = kind.rstrip("?")
    if value is None and plain != kind:
        return _NONE
    if plain.endswith("]"):
        element = plain[: plain.rindex("[")]
        return f"[{', '.join(format_literal(element, item) for item in value)}]"
    return _WRITE[plain.partition("<")[0]](value)


def parse_literal(kind: str, words: SignatureScanner) -> Any:
    """The value of this kind that comes next; lists become tuples."""
    plain = kind.rstrip("?")
    if plain != kind and words.peek(_NONE):
        words.take(_NONE)
        return None
    if not plain.endswith("]"):
        return _READ[plain.partition("<")[0]](words)
    element = plain[: plain.rindex("[")]
    words.expect("[")
    items: list[Any] = []
    while not words.take("]"):
        if items:
            words.expect(",")
        items.append(parse_literal(element, words))
    return tuple(items)


def _read_bool(words: SignatureScanner) -> bool:
    word = words.match(NAME, "true or false")
    if word not in ("true", "false"):
        raise words.fault("true or false")
    return word == "true"


def _read_float(words: SignatureScanner) -> float:
    text = words.match(_FLOAT, "a float")
    return _ODD_FLOATS[text] if text in _ODD_FLOATS else round_to_float32(float(text))


def _read_number(words: SignatureScanner) -> Any:
    if words.peek("true") or words.peek("false"):
        return _read_bool(words)
    text = words.match(_NUMBER, "a number")
    for read in (int, float, complex):
        try:
            return read(text)
        except ValueError:
            continue
    raise words.fault("a number")


def _read_enum(words: SignatureScanner) -> EnumMember:
    """A member; in the list of all of them its number may follow."""
    name = words.match(_WORD, "the name of a value")
    return EnumMember(
        name, int(words.match(_INT, "an int")) if words.take("=") else None
    )


def _read_shape(words: SignatureScanner) -> Shape:
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


def _read_tensor(words: SignatureScanner) -> Tensor:
    dtype = words.pattern()
    assert isinstance(dtype, DType)
    shape = [int(dim) for dim in _read_shape(words).dims if isinstance(dim, int)]
    words.expect("x")
    content = bytes.fromhex(words.match(_HEX, "hexadecimal digits"))
    return Tensor.from_buffer(content, dtype, shape)


def _read_function(words: SignatureScanner) -> FunctionRef:
    words.expect("@")
    return FunctionRef(words.match(NAME, "the name of a function"))


def _read_json(words: SignatureScanner) -> Any:
    words.peek("")
    try:
        value, words.at = json.JSONDecoder().raw_decode(words.text, words.at)
    except ValueError as error:
        raise words.fault("a value as JSON has it") from error
    return value


_READ: dict[str, Callable[[SignatureScanner], Any]] = {
    "bool": _read_bool,
    "int": lambda words: int(words.match(_INT, "an int")),
    "float": _read_float,
    "double": lambda words: float(words.match(_NUMBER, "a float")),
    "complex": lambda words: complex(words.match(_NUMBER, "a complex number")),
    "number": _read_number,
    "dim": lambda words: int(words.match(_INT, "an int")),
    "string": lambda words: json.loads(words.match(_STRING, "a text in quotes")),
    "dtype": SignatureScanner.pattern,
    "type": SignatureScanner.pattern,
    "shape": _read_shape,
    "tensor": _read_tensor,
    "function": _read_function,
    "enum": _read_enum,
    "sparse": _read_json,
    "any": _read_json,
}
