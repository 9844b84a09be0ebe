"""Types and attributes of MLIR as those of a graph, and back as text.

MLIR's bindings read them; their printed form is parsed here only where the bindings
have no other way: dense elements of types that NumPy lacks, and enum values."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Final

import numpy as np

from amanda.dictionary import OpDef
from amanda.errors import AmandaError, FormatError
from amanda.graph import is_note
from amanda.tensors import FunctionRef, Tensor
from amanda.types import DType, Sym, TensorType, TokenType, Type

__all__ = [
    "NAME",
    "read_attribute",
    "attribute_text",
    "context",
    "dense_text",
    "type_of",
    "type_text",
]

NAME: Final = "amanda.name"
"""The attribute with the name of an input or a result; other sources of names are
incomplete, or in a form of their own."""

_ELEMENT_TYPES: Final = {
    "i1": "bool",
    **{f"i{n}": f"int{n}" for n in (2, 4, 8, 16, 32, 64)},
    **{f"ui{n}": f"uint{n}" for n in (2, 4, 8, 16, 32, 64)},
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "bf16": "bfloat16",
    "complex<f32>": "complex64",
    "complex<f64>": "complex128",
    "f4E2M1FN": "float4_e2m1fn",
    "f6E2M3FN": "float6_e2m3fn",
    "f6E3M2FN": "float6_e3m2fn",
    "f8E3M4": "float8_e3m4",
    "f8E4M3": "float8_e4m3",
    "f8E4M3B11FNUZ": "float8_e4m3b11fnuz",
    "f8E4M3FN": "float8_e4m3fn",
    "f8E4M3FNUZ": "float8_e4m3fnuz",
    "f8E5M2": "float8_e5m2",
    "f8E5M2FNUZ": "float8_e5m2fnuz",
    "f8E8M0FNU": "float8_e8m0fnu",
}
_TYPE_NAMES: Final = {name: text for text, name in _ELEMENT_TYPES.items()}
_STABLEHLO_ORDER: Final = "!stablehlo.token"
_INT32_ATTRIBUTES: Final = frozenset(
    (
        "composite.version",
        "custom_call.api_version",
        "get_tuple_element.index",
        "reduce_precision.exponent_bits",
        "reduce_precision.mantissa_bits",
    )
)
"""Attributes that are 32-bit integers; all others are 64-bit."""
_UNIT_ATTRIBUTE: Final = "use_global_device_ids"
"""A unit attribute: present or absent, without a value."""
_DENSE: Final = re.compile(r"dense<(.*)> : (tensor<.*>)", re.DOTALL)
_NUMBER: Final = re.compile(r"true|false|0x[0-9A-Fa-f]+|-?[0-9.]+(?:[eE][-+]?[0-9]+)?")


def context() -> Any:
    """An MLIR context with all dialects that JAX writes: that of a lowered function."""
    import jax

    lowered = jax.jit(lambda x: x).lower(np.float32(0))
    module: Any = lowered.compiler_ir("stablehlo")
    return module.context


# -- types -----------------------------------------------------------------------------


def type_of(found: Any) -> Type:
    """The type of a value."""
    text = str(found)
    if text == _STABLEHLO_ORDER:
        return TokenType()
    inner = re.fullmatch(r"tensor<((?:(?:\d+|\?)x)*)([^,]*)>", text)
    if inner is None or inner[2] not in _ELEMENT_TYPES:
        raise FormatError("a type of the program is not known", got=text)
    dims = [Sym.unknown() if d == "?" else int(d) for d in inner[1].split("x")[:-1]]
    return TensorType(DType(_ELEMENT_TYPES[inner[2]]), dims)


def type_text(found: Type | None) -> str:
    if isinstance(found, TokenType):
        return _STABLEHLO_ORDER
    if not isinstance(found, TensorType) or not found.shape.has_rank:
        raise FormatError("StableHLO has no such type", expected="a tensor", got=found)
    name = _TYPE_NAMES.get(getattr(found.dtype, "name", ""))
    if name is None:
        raise FormatError("StableHLO has no such element type", got=found.dtype)
    sizes = ("?" if isinstance(dim, Sym) else str(dim) for dim in found.shape)
    return f"tensor<{'x'.join((*sizes, name))}>"


# -- dense elements --------------------------------------------------------------------


def parse_dense(text: str) -> Tensor:
    """Elements as MLIR prints them: a list, hexadecimal bytes, or one for all."""
    found = _DENSE.fullmatch(text)
    own = type_of(found[2]) if found else None
    if found is None or not isinstance(own, TensorType):
        raise FormatError("elements of a constant cannot be read", got=text[:80])
    shape = tuple(map(int, own.shape))
    dtype = own.dtype.numpy
    if found[1].startswith('"0x'):
        elements = np.frombuffer(bytes.fromhex(found[1].strip('"')[2:]), dtype)
    else:
        elements = _parse_numbers(found[1], dtype)
    if elements.size == 1 and prod(shape) != 1:
        return Tensor.splat(own.dtype, shape, elements[0])
    if elements.size != prod(shape):
        raise FormatError(
            "the elements of a constant do not fit its shape",
            expected=f"{prod(shape)} for {own}",
            got=elements.size,
        )
    return Tensor.of(elements.reshape(shape))


def _parse_numbers(text: str, dtype: Any) -> Any:
    """Numbers separated by commas; complex ones in pairs; bit patterns as 0x7FC0."""
    items = _NUMBER.findall(text)
    is_complex = dtype.kind == "c"
    part = np.dtype(f"f{dtype.itemsize // 2}") if is_complex else dtype
    if dtype.kind == "b":
        return np.array([word == "true" for word in items], dtype)
    bits = np.dtype(f"u{part.itemsize}")
    numbers = [
        np.array(int(word, 16), bits).view(part)
        if word.startswith("0x")
        else np.array(int(word) if part.kind in "iu" else float(word)).astype(part)
        for word in items
    ]
    found = np.array(numbers, part)
    return found.view(dtype) if is_complex else found


def dense_text(tensor: Tensor) -> str:
    kind = type_text(tensor.type)
    one = tensor.is_splat and tensor.size > 1
    array = tensor.numpy()
    array = np.ascontiguousarray(array[(0,) * array.ndim] if one else array)
    if not array.size:
        return f"dense<> : {kind}"
    if (
        array.dtype.kind == "b" or tensor.dtype.bits % 8
    ):  # packed elements are written as numbers
        items = [
            str(word).lower() for word in array.astype(_printable_dtype(array)).ravel()
        ]
        elements = items[0] if array.size == 1 else _nest_lists(items, array.shape)
        return f"dense<{elements}> : {kind}"
    return f'dense<"0x{array.tobytes().hex().upper()}"> : {kind}'


def _printable_dtype(array: Any) -> Any:
    return (
        "bool"
        if array.dtype.kind == "b"
        else "float64"
        if array.dtype.kind == "f"
        else "int64"
    )


def _nest_lists(items: Sequence[str], shape: Sequence[int]) -> str:
    for size in reversed(shape):
        items = [
            f"[{', '.join(items[i : i + size])}]" for i in range(0, len(items), size)
        ]
    return items[0]


# -- attributes ------------------------------------------------------------------------


def _read_note(found: Any) -> Any:
    """The value of a free note: JSON in a string, else the text."""
    text = getattr(found, "value", None)
    try:
        return json.loads(text) if isinstance(text, str) else str(found)
    except (ValueError, RecursionError):
        return text


def read_attribute(definition: OpDef | None, key: str, found: Any) -> Any:
    """An attribute as its definition has it; the text where that has no kind for it."""
    if is_note(key):
        return _read_note(found)
    kind = _kind(definition, key)
    if kind == "int" or kind == "float":
        return found.value
    if kind == "bool":
        return getattr(found, "value", True)
    if kind in ("int[]", "bool[]"):
        return tuple(found)
    if kind == "string":
        return found.value
    if kind == "function":
        return FunctionRef(found.value)
    if kind == "function[]":
        return tuple(FunctionRef(each.value) for each in found)
    if kind == "tensor":
        return parse_dense(str(found))
    if kind.startswith("enum"):
        items = (
            [_enum_value(each) for each in found]
            if kind.endswith("[]")
            else _enum_value(found)
        )
        return tuple(items) if kind.endswith("[]") else items
    return str(found)


def _kind(definition: OpDef | None, key: str) -> str:
    for each in definition.attrs if definition is not None else ():
        if each.name == key:
            return str(each.kind)
    return ""


def _enum_value(found: Any) -> str:
    word = re.fullmatch(r"#\w+<\w+ (\w+)>", str(found))
    if word is None:
        raise FormatError("an enum value cannot be read", got=str(found))
    return word[1]


def attribute_text(
    definition: OpDef | None, op: str, key: str, value: Any
) -> str | None:
    """An attribute as MLIR parses it; None where it is to be absent."""
    kind = _kind(definition, key)
    if kind == "int":
        return f"{value} : {'i32' if f'{op}.{key}' in _INT32_ATTRIBUTES else 'i64'}"
    if kind == "float":
        return f"{float(value)!r} : f32"
    if kind == "bool":
        if key == _UNIT_ATTRIBUTE:
            return "unit" if value else None
        return str(bool(value)).lower()
    if kind in ("int[]", "bool[]"):
        of = "i64" if kind == "int[]" else "i1"
        items = ", ".join(str(each).lower() for each in value)
        return f"array<{of}: {items}>" if items else f"array<{of}>"
    if kind == "tensor":
        return dense_text(value)
    if kind in ("string", "function", "function[]"):
        return _symbol_text(kind, value)
    if kind.startswith("enum"):
        return _enum_text(kind, value)
    return str(value)


def _symbol_text(kind: str, value: Any) -> str:
    from jaxlib.mlir import ir

    if kind == "string":
        return str(ir.StringAttr.get(value))
    names = [value] if kind == "function" else value
    items = ", ".join(str(ir.FlatSymbolRefAttr.get(each.name)) for each in names)
    return items if kind == "function" else f"[{items}]"


def _enum_text(kind: str, value: Any) -> str:
    name = kind.removesuffix("[]").removeprefix("enum<").removesuffix(">")
    mnemonic = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
    items = [value] if isinstance(value, str) else value
    texts = [
        f"#stablehlo<{_MNEMONICS.get(mnemonic, mnemonic)} {word}>" for word in items
    ]
    return f"[{', '.join(texts)}]" if kind.endswith("[]") else texts[0]


_MNEMONICS: Final[Mapping[str, str]] = {"compare_type": "comparison_type"}


def parse_error(error: Exception, source: str) -> AmandaError:
    """The error for a program that the bindings cannot parse."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return FormatError(
        f"{source} is no StableHLO program",
        got=next((line for line in lines if "error" in line.lower()), "")
        or (lines[0] if lines else type(error).__name__),
        hint="text, bytecode, and portable artifacts can be read",
    )
