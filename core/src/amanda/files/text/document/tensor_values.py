"""Tensors in text: few elements as numbers, a repeated one once, others packed.

{dtype: int64, shape: [2], values: [1, 784]}
{dtype: float32, shape: [784, 10], splat: 0.0}
{dtype: string, shape: [2], strings: [yes, "no"]}
{dtype: float32, shape: [3, 3], data: AACAPwAAgD8...}       (base64, little-endian)
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from amanda.errors import FormatError, LimitError
from amanda.files.text.syntax.plain_data import Plain, Tagged, quote_short
from amanda.tensors import Tensor
from amanda.types import DType, ElementType, Quantized, parse_element

__all__ = ["decode_base64", "tensor_to_data", "tensor_from_data"]

_FEW = 16
_MOST = 1 << 30  # bytes in a text form; larger tensors need a binary form
_NUMBERS = frozenset({"bool", "int", "uint", "float"})  # kinds written as numbers
_KEYS = frozenset({"dtype", "shape", "values", "splat", "strings", "data"})


def tensor_to_data(tensor: Tensor) -> dict[str, Plain]:
    """A tensor as plain data.

    >>> tensor_to_data(Tensor.of([0.5, 1], "float32"))
    {'dtype': 'float32', 'shape': [2], 'values': [0.5, 1.0]}
    """
    dtype = tensor.dtype
    fields: dict[str, Plain] = {"dtype": str(dtype), "shape": list(tensor.shape)}
    if dtype.kind in ("string", "bytes"):
        items = tensor.numpy().reshape(-1).tolist()
        return {**fields, "strings": [_plain_text(item) for item in items]}
    if tensor.stores_one_element and tensor.size > 1:
        one = _first_element(tensor)
        numbers = _numbers(Tensor.from_buffer(one, dtype, ()))
        return {**fields, "splat": _tag_numbers(one) if numbers is None else numbers[0]}
    if tensor.size <= _FEW:
        numbers = _numbers(tensor)
        if numbers is not None:
            return {**fields, "values": numbers}
    if tensor.nbytes > _MOST:
        raise LimitError(
            "a tensor is too large for a text form",
            got=f"{tensor.nbytes:,} bytes",
            expected=f"at most {_MOST:,}",
            hint="save the graph as .amanda",
        )
    return {**fields, "data": base64.b64encode(b"".join(tensor.chunks())).decode()}


def _tag_numbers(data: bytes) -> Tagged:
    return Tagged("bytes", base64.b64encode(data).decode())


def _plain_text(item: bytes) -> Plain:
    try:
        return item.decode()
    except UnicodeDecodeError:
        return _tag_numbers(item)


def _first_element(tensor: Tensor) -> bytes:
    """The packed bytes of one element."""
    block = bytes(next(tensor.chunks(1)))
    bits = tensor.dtype.bits
    if bits >= 8:
        return block[: bits // 8]
    return bytes([block[0] & ((1 << bits) - 1)])


def _numbers(tensor: Tensor) -> list[Plain] | None:
    """The elements as the shortest numbers that preserve every bit, if possible."""
    dtype = tensor.dtype
    if not isinstance(dtype, DType) or dtype.kind not in _NUMBERS:
        return None
    array = tensor.numpy().reshape(-1)
    packed = b"".join(tensor.chunks())
    # text loses the sign of a NaN, a bool of another byte than 0 and 1, and padding
    # bits, so numbers are converted to text and back
    convert = _PYTHON[dtype.kind][-1]
    forms = [[convert(x) for x in array]]
    if dtype.kind == "float":  # the shortest text first
        forms = [[float(str(x)) for x in array], [float(repr(x)) for x in forms[0]]]
    for numbers in forms:
        try:
            again = _tensor_of_numbers(numbers, dtype)
        except FormatError:
            continue
        if b"".join(again.chunks()) == packed:
            return list(numbers)
    return None


def _tensor_of_numbers(numbers: list[Any], dtype: ElementType) -> Tensor:
    """A flat tensor of Python numbers, checked against `dtype`."""
    import numpy as np

    numbers = [_number_of_tag(number) for number in numbers]
    for number in numbers:
        if type(number) not in _PYTHON[dtype.kind]:
            raise FormatError(f"not an element of {dtype}", got=quote_short(number))
    first = np.dtype(_WIDEST[dtype.kind])
    try:
        with np.errstate(all="ignore"):
            wide = np.array(numbers, first)
            array = wide.astype(dtype.numpy)
            back = array.astype(first)
    except OverflowError as error:
        raise FormatError(f"an element is out of the range of {dtype}") from error
    kept = back == wide
    if dtype.kind == "float":  # rounding is allowed, overflow is not
        kept = (np.isinf(back) == np.isinf(wide)) & (np.isnan(back) == np.isnan(wide))
    if not kept.all():
        raise FormatError(f"an element is out of the range of {dtype}")
    return Tensor.of(array, dtype)


def float_from_tag(data: Plain) -> float:
    """A float that JSON lacks: nan, inf or -inf."""
    if data not in ("nan", "inf", "-inf"):
        raise FormatError("not a float", expected="nan, inf or -inf")
    return float(data)


def _number_of_tag(number: Any) -> Any:
    is_float = isinstance(number, Tagged) and number.tag == "float"
    return float_from_tag(number.value) if is_float else number


_PYTHON: dict[str, tuple[type, ...]] = {
    "bool": (bool,),
    "int": (int,),
    "uint": (int,),
    "float": (int, float),
}
_WIDEST = {"bool": "bool", "int": "int64", "uint": "uint64", "float": "float64"}


def tensor_from_data(fields: dict[str, Plain]) -> Tensor:
    """The tensor of plain data; raises an AmandaError without position."""
    how = [key for key in ("values", "splat", "strings", "data") if key in fields]
    if len(how) != 1 or not _KEYS.issuperset(fields):
        raise FormatError(
            "a tensor is a `dtype`, a `shape` and its elements",
            expected="one of values, splat, strings, data",
            got=", ".join(map(quote_short, list(fields)[:10])),
        )
    dtype, shape = _element(fields.get("dtype")), fields.get("shape")
    if type(shape) is not list or not all(type(dim) is int for dim in shape):
        raise FormatError(
            "the shape of a tensor is a list of ints", got=quote_short(shape)
        )
    return _MAKERS[how[0]](fields[how[0]], dtype, shape)


def _element(text: Plain) -> ElementType:
    if isinstance(text, Tagged) and text.tag == "dtype":
        text = text.value
    if type(text) is not str:
        raise FormatError("the dtype of a tensor is text", got=quote_short(text))
    return parse_element(text)


def _from_values(data: Plain, dtype: ElementType, shape: list[int]) -> Tensor:
    if type(data) is not list:
        raise FormatError("`values` is a list of numbers", got=quote_short(data))
    _require_numeric(dtype)
    flat = _tensor_of_numbers(data, dtype)
    return _check_size(b"".join(flat.chunks()), dtype, shape)


def _require_numeric(dtype: ElementType) -> None:
    if isinstance(dtype, Quantized) or dtype.kind not in _NUMBERS:
        raise FormatError(f"elements of {dtype} are not written as numbers")


def _check_size(data: bytes, dtype: ElementType, shape: list[int]) -> Tensor:
    tensor = Tensor.from_buffer(data, dtype, shape)
    if tensor.nbytes != len(data):
        raise FormatError(
            "a tensor has more elements than its shape",
            expected=f"{tensor.nbytes:,} bytes",
            got=f"{len(data):,} bytes",
        )
    return tensor


def _from_splat(data: Plain, dtype: ElementType, shape: list[int]) -> Tensor:
    if isinstance(data, Tagged) and data.tag != "float":
        one = _check_size(_bytes(data), dtype, [])
    else:
        _require_numeric(dtype)
        one = _tensor_of_numbers([data], dtype)
    return Tensor.splat(dtype, shape, one.numpy().reshape(()))


def _from_strings(data: Plain, dtype: ElementType, shape: list[int]) -> Tensor:
    if type(data) is not list:
        raise FormatError("`strings` is a list of texts", got=quote_short(data))
    items = [_bytes(item) if isinstance(item, Tagged) else item for item in data]
    return Tensor.strings(items, shape, dtype)


def _from_data(data: Plain, dtype: ElementType, shape: list[int]) -> Tensor:
    return _check_size(decode_base64(data), dtype, shape)


def _bytes(data: Tagged) -> bytes:
    if data.tag != "bytes":
        raise FormatError(
            f"a value tagged {quote_short(data.tag)} is not an element of a tensor"
        )
    return decode_base64(data.value)


def decode_base64(data: Plain) -> bytes:
    """The bytes of base64 text; blanks and line breaks are ignored."""
    if type(data) is not str:
        raise FormatError("bytes are written as text in base64", got=quote_short(data))
    try:
        return base64.b64decode("".join(data.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise FormatError(f"the bytes are not base64: {error}") from error


_MAKERS = {
    "values": _from_values,
    "splat": _from_splat,
    "strings": _from_strings,
    "data": _from_data,
}
