"""Attribute values as text. The kind of the attribute decides the syntax.

true, 3, 1e-05, 1+2j, "NHWC", f32, [1, ?, 3], @function, u8[4] x ff0000ff, [1, 2], RELU,
none; values of kinds without a syntax are JSON.
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
from amanda.errors import UsageError
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
    """The nearest float32, which is the precision of files.

    >>> round_to_float32(1e-05)
    9.999999747378752e-06
    """
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return copysign(inf, value)
    return rounded


def _format_float(value: float) -> str:
    """The shortest text that denotes this float32."""
    if not isfinite(value):
        return repr(value)
    for digits in range(1, 10):
        text = f"{value:.{digits}g}"
        if round_to_float32(float(text)) == value:
            return repr(float(text))
    return repr(value)


def _format_shape(value: Shape) -> str:
    if not value.has_rank:
        return "[...]"
    return f"[{', '.join('?' if isinstance(dim, Sym) else str(dim) for dim in value)}]"


def _format_tensor(value: Tensor) -> str:
    content = b"".join(value.chunks()).hex()
    assert isinstance(value.dtype, DType)
    return f"{short_dtype_name(value.dtype)}{list(value.shape)} x {content}"


def _format_number(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value).strip("()")


def _format_member(value: Any) -> str:
    number = getattr(value, "number", None)
    return str(value) if number is None else f"{value} = {number}"


_FORMATTERS: dict[str, Callable[[Any], str]] = {
    "bool": lambda value: "true" if value else "false",
    "int": str,
    "float": _format_float,
    "double": lambda value: repr(float(value)),
    "complex": lambda value: repr(complex(value)).strip("()"),
    "number": _format_number,
    "dim": str,
    "string": lambda value: json.dumps(value, ensure_ascii=False),
    "dtype": format_pattern,
    "type": format_pattern,
    "shape": _format_shape,
    "tensor": _format_tensor,
    "function": lambda value: f"@{value.name}",
    "enum": _format_member,
    "sparse": lambda value: json.dumps(value),
    "any": lambda value: json.dumps(value, ensure_ascii=False),
}


def format_literal(kind: str, value: Any) -> str:
    """A value of a kind as text.

    >>> format_literal("float", round_to_float32(1e-05))
    '1e-05'
    >>> format_literal("string[]", ["a", "b"])
    '["a", "b"]'
    """
    base = kind.rstrip("?")
    if value is None and base != kind:
        return _NONE
    if base.endswith("]"):
        element = base[: base.rindex("[")]
        return f"[{', '.join(format_literal(element, item) for item in value)}]"
    name = base.partition("<")[0]
    if name not in _FORMATTERS:
        raise UsageError(
            f"there is no kind of attributes {kind!r}",
            expected=", ".join(_FORMATTERS),
        )
    return _FORMATTERS[name](value)


def parse_literal(kind: str, scanner: SignatureScanner) -> Any:
    """Parse a value of a kind; lists become tuples."""
    base = kind.rstrip("?")
    if base != kind and scanner.peek(_NONE):
        scanner.take(_NONE)
        return None
    if not base.endswith("]"):
        return _PARSERS[base.partition("<")[0]](scanner)
    element = base[: base.rindex("[")]
    scanner.expect("[")
    items: list[Any] = []
    while not scanner.take("]"):
        if items:
            scanner.expect(",")
        items.append(parse_literal(element, scanner))
    return tuple(items)


def _parse_bool(scanner: SignatureScanner) -> bool:
    word = scanner.match(NAME, "true or false")
    if word not in ("true", "false"):
        raise scanner.fault("true or false")
    return word == "true"


def _parse_float(scanner: SignatureScanner) -> float:
    text = scanner.match(_FLOAT, "a float")
    return _ODD_FLOATS[text] if text in _ODD_FLOATS else round_to_float32(float(text))


def _parse_number(scanner: SignatureScanner) -> Any:
    if scanner.peek("true") or scanner.peek("false"):
        return _parse_bool(scanner)
    text = scanner.match(_NUMBER, "a number")
    for read in (int, float, complex):
        try:
            return read(text)
        except ValueError:
            continue
    raise scanner.fault("a number")


def _parse_enum(scanner: SignatureScanner) -> EnumMember:
    """Parse an enum member; its number may follow."""
    name = scanner.match(_WORD, "the name of a member")
    return EnumMember(
        name, int(scanner.match(_INT, "an int")) if scanner.take("=") else None
    )


def _parse_shape(scanner: SignatureScanner) -> Shape:
    scanner.expect("[")
    if scanner.take("..."):
        scanner.expect("]")
        return Shape(None)
    dims: list[int | Sym] = []
    while not scanner.take("]"):
        if dims:
            scanner.expect(",")
        unknown = scanner.take("?")
        dims.append(Sym.unknown() if unknown else int(scanner.match(_INT, "a dim")))
    return Shape(dims)


def _parse_tensor(scanner: SignatureScanner) -> Tensor:
    dtype = scanner.pattern()
    assert isinstance(dtype, DType)
    shape = [int(dim) for dim in _parse_shape(scanner).dims if isinstance(dim, int)]
    scanner.expect("x")
    content = bytes.fromhex(scanner.match(_HEX, "hexadecimal digits"))
    return Tensor.from_buffer(content, dtype, shape)


def _parse_function(scanner: SignatureScanner) -> FunctionRef:
    scanner.expect("@")
    return FunctionRef(scanner.match(NAME, "the name of a function"))


def _parse_json(scanner: SignatureScanner) -> Any:
    scanner.peek("")
    try:
        value, scanner.at = json.JSONDecoder().raw_decode(scanner.text, scanner.at)
    except ValueError as error:
        raise scanner.fault("a JSON value") from error
    return value


_PARSERS: dict[str, Callable[[SignatureScanner], Any]] = {
    "bool": _parse_bool,
    "int": lambda scanner: int(scanner.match(_INT, "an int")),
    "float": _parse_float,
    "double": lambda scanner: float(scanner.match(_NUMBER, "a float")),
    "complex": lambda scanner: complex(scanner.match(_NUMBER, "a complex number")),
    "number": _parse_number,
    "dim": lambda scanner: int(scanner.match(_INT, "an int")),
    "string": lambda scanner: json.loads(scanner.match(_STRING, "a quoted string")),
    "dtype": SignatureScanner.pattern,
    "type": SignatureScanner.pattern,
    "shape": _parse_shape,
    "tensor": _parse_tensor,
    "function": _parse_function,
    "enum": _parse_enum,
    "sparse": _parse_json,
    "any": _parse_json,
}
