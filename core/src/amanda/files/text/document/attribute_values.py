"""Attribute values to plain data and back.

Values that YAML and JSON have are plain; the others are tagged.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from amanda.errors import AmandaError, FormatError, LimitError
from amanda.files.text.construct.parsed_graph import Where
from amanda.files.text.document.tensor_values import (
    decode_base64,
    float_from_tag,
    tensor_from_data,
    tensor_to_data,
)
from amanda.files.text.syntax.plain_data import (
    Block,
    Path,
    Plain,
    Rows,
    Tagged,
    locate_error,
    quote_short,
)
from amanda.tensors import FunctionRef, Tensor
from amanda.tensors.values import MAX_DEPTH
from amanda.types import (
    DType,
    OpaqueType,
    Quantized,
    Shape,
    Sym,
    Symbols,
    Type,
    parse_dim,
    parse_element,
    parse_shape,
    parse_type,
)

__all__ = ["ValueDecoder", "ValueEncoder"]

_MAX_BITS = 256  # of an int, as `check_attr` has it
_PARTS = 2  # of a complex number


class ValueEncoder:
    """Converts the attribute values of one document to plain data."""

    def __init__(self, symbols: Symbols, weights: list[Tensor] | None = None) -> None:
        self.symbols = symbols
        self.weights = weights
        """Tensors that are written as their index in this list; None: in place."""
        self.types: dict[Type, str] = {}

    def port_type(self, type: Type) -> Plain:
        """As text; types of another type system are tagged."""
        if isinstance(type, OpaqueType):
            return Tagged("opaque", type.content)
        return self.type_text(type)

    def type_text(self, type: Type) -> str:
        text = self.types.get(type)
        if text is None:
            text = self.types[type] = type.text(self.symbols)
        return text

    def value(self, value: Any) -> Plain:
        kind = type(value)
        if kind in _AS_IS:
            return value
        if kind is list or kind is tuple or kind is dict:
            return self._container(value)
        return self._leaf(value)

    def _leaf(self, value: Any) -> Plain:
        if isinstance(value, int) and value.bit_length() > _MAX_BITS:
            raise LimitError(
                "an int that is too large", expected=f"at most {_MAX_BITS} bits"
            )
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, complex):
            return Tagged("complex", [value.real, value.imag])
        if isinstance(value, DType | Quantized):
            return Tagged("dtype", str(value))
        if isinstance(value, Shape):
            if not value.has_rank:
                return Tagged("shape", "...")
            return Tagged("shape", [self._dim(dim) for dim in value])
        if isinstance(value, Sym):
            return Tagged("dim", value.text(self.symbols))
        if isinstance(value, OpaqueType):
            return Tagged("opaque", value.content)
        if isinstance(value, Type):
            return Tagged("type", self.type_text(value))
        if isinstance(value, Tensor):
            return Tagged("tensor", self._tensor(value))
        if isinstance(value, FunctionRef):
            return Tagged("function", value.name)
        if isinstance(value, bytes | bytearray | memoryview):
            return Tagged("bytes", base64.b64encode(value).decode())
        raise FormatError(
            "an attribute value that no text form can hold", got=type(value).__name__
        )

    def _tensor(self, tensor: Tensor) -> dict[str, Plain]:
        if self.weights is None:
            return tensor_to_data(tensor)
        self.weights.append(tensor)
        index = len(self.weights) - 1
        shape = list(tensor.shape)
        return {"dtype": str(tensor.dtype), "shape": shape, "weight": index}

    def _dim(self, dim: int | Sym) -> Plain:
        return dim.text(self.symbols) if isinstance(dim, Sym) else dim

    def _container(self, value: Any) -> Plain:
        """Lists and maps, without recursion."""
        made: list[Plain] = []
        work: list[tuple[Any, Callable[[Plain], Any], int]] = [(value, made.append, 1)]
        while work:
            item, put, depth = work.pop()
            if type(item) not in _CONTAINERS:
                put(self.value(item))
            elif depth > MAX_DEPTH:
                raise _too_deep()
            elif type(item) is dict:
                new_map: dict[str, Plain] = dict.fromkeys(item)
                put(new_map)
                for key, inner in reversed(item.items()):
                    work.append((inner, _setter(new_map, key), depth + 1))
            else:
                new_list: list[Plain] = [None] * len(item)
                put(new_list)
                work.extend(
                    (item[i], _setter(new_list, i), depth + 1)
                    for i in range(len(item) - 1, -1, -1)
                )
        return made[0]


_AS_IS = frozenset({str, float, bool, type(None)})
_CONTAINERS = frozenset({list, tuple, dict})
_PLAIN_CONTAINERS = frozenset({list, dict, Block, Rows})


def _too_deep(where: str | None = None) -> LimitError:
    return LimitError(
        "an attribute is nested too deeply",
        where=where,
        expected=f"at most {MAX_DEPTH} lists and maps in each other",
    )


def _setter(holder: Any, key: Any) -> Callable[[Plain], None]:
    def put(value: Plain) -> None:
        holder[key] = value

    return put


class ValueDecoder:
    """Converts plain data of one document to attribute values."""

    def __init__(self, symbols: Symbols, where: Where) -> None:
        self.symbols, self.where = symbols, where

    def value(self, data: Plain, path: Path) -> Any:
        if type(data) not in _PLAIN_CONTAINERS:
            return self._leaf(data, path)
        made: list[Any] = []
        work: list[tuple[Plain, Callable[[Any], Any], Path, int]] = [
            (data, made.append, path, 1)
        ]
        while work:
            item, put, at, depth = work.pop()
            if type(item) not in _PLAIN_CONTAINERS:
                put(self._leaf(item, at))
                continue
            if depth > MAX_DEPTH:
                raise _too_deep(self.where(at))
            is_map = isinstance(item, dict)
            new: Any = dict.fromkeys(item) if is_map else [None] * len(item)
            put(new)
            for key, inner in item.items() if is_map else enumerate(item):
                work.append((inner, _setter(new, key), Path(at, key), depth + 1))
        return made[0]

    def _leaf(self, data: Plain, path: Path) -> Any:
        if type(data) is Tagged:
            return self._decode_tagged(data, path)
        if type(data) is int and data.bit_length() > _MAX_BITS:
            raise LimitError(
                "an int that is too large",
                where=self.where(path),
                expected=f"at most {_MAX_BITS} bits",
                got=f"{data.bit_length()} bits",
            )
        return data

    def _decode_tagged(self, data: Tagged, path: Path) -> Any:
        decode = _DECODERS.get(data.tag)
        try:
            if decode is None:
                raise FormatError(
                    f"no kind of value is called {quote_short(data.tag)}",
                    expected=", ".join(_DECODERS),
                )
            return decode(self, data.value)
        except AmandaError as error:
            raise locate_error(error, self.where(path)) from error

    def _dtype(self, data: Plain) -> Any:
        return parse_element(_text(data, "an element type"))

    def _shape(self, data: Plain) -> Shape:
        if type(data) is str:
            return parse_shape(f"[{data}]", self.symbols)
        if not isinstance(data, list):
            raise FormatError("a shape is a list of dims", got=quote_short(data))
        return Shape([self._dim(dim) for dim in data])

    def _dim(self, data: Plain) -> Any:
        if type(data) is int:
            return data
        return parse_dim(_text(data, "a dim"), self.symbols)

    def _type(self, data: Plain) -> Type:
        return parse_type(_text(data, "a type"), self.symbols)

    def _opaque(self, data: Plain) -> Type:
        return OpaqueType(_text(data, "a type of another system"))

    def _function(self, data: Plain) -> FunctionRef:
        return FunctionRef(_text(data, "a function's name"))

    def _bytes(self, data: Plain) -> bytes:
        return decode_base64(_text(data, "bytes"))

    def _tensor(self, data: Plain) -> Tensor:
        if not isinstance(data, dict):
            raise FormatError("a tensor is a map", got=quote_short(data))
        return tensor_from_data(data)

    def _float(self, data: Plain) -> float:
        return float_from_tag(data)

    def _complex(self, data: Plain) -> complex:
        if not isinstance(data, list) or len(data) != _PARTS:
            raise FormatError(
                "a complex number is a list", expected="its real and imaginary part",
                got=quote_short(data),
            )  # fmt: skip
        return complex(*map(self._part, data))

    def _part(self, data: Plain) -> float:
        if type(data) is Tagged and data.tag == "float":
            return float_from_tag(data.value)
        if type(data) is not float and type(data) is not int:
            raise FormatError(
                "a part of a complex number is a number", got=quote_short(data)
            )
        return float(data)


def _text(data: Plain, what: str) -> str:
    if type(data) is not str:
        raise FormatError(f"{what} is written as text", got=quote_short(data))
    return data


_DECODERS: dict[str, Callable[[ValueDecoder, Plain], Any]] = {
    "dtype": ValueDecoder._dtype,
    "shape": ValueDecoder._shape,
    "dim": ValueDecoder._dim,
    "type": ValueDecoder._type,
    "opaque": ValueDecoder._opaque,
    "bytes": ValueDecoder._bytes,
    "tensor": ValueDecoder._tensor,
    "function": ValueDecoder._function,
    "float": ValueDecoder._float,
    "complex": ValueDecoder._complex,
}
