"""Types and attributes of MLIR in the words of a graph, and back as text.

MLIR's own bindings read them; texts that they print are read here only where they have
no other way: dense elements of types that numpy lacks, and words of enumerations.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from amanda.dictionary import OpDef
from amanda.errors import AmandaError, FormatError
from amanda.tensors import FunctionRef, Tensor
from amanda.types import DType, Sym, TensorType, TokenType, Type

__all__ = [
    "NAME",
    "attribute",
    "attribute_text",
    "context",
    "dense_text",
    "type_of",
    "type_text",
]

NAME: Final = "amanda.name"
"""The attribute of an input or a result that is its name: others say less, or tell it
in a form of their own."""

_ELEMENTS: Final = {
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
_NAMES: Final = {name: text for text, name in _ELEMENTS.items()}
_ORDER: Final = "!stablehlo.token"
_NARROW: Final = frozenset(
    (
        "composite.version",
        "custom_call.api_version",
        "get_tuple_element.index",
        "reduce_precision.exponent_bits",
        "reduce_precision.mantissa_bits",
    )
)
"""Attributes that are integers of 32 bits; all others have 64."""
_UNITS: Final = "use_global_device_ids"
"""The attribute that is there or not there, and has no value."""
_DENSE: Final = re.compile(r"dense<(.*)> : (tensor<.*>)", re.DOTALL)
_NUMBER: Final = re.compile(r"true|false|0x[0-9A-Fa-f]+|-?[0-9.]+(?:[eE][-+]?[0-9]+)?")


def context() -> Any:
    """One that knows all dialects that JAX writes: that of a program of its own."""
    import jax

    lowered = jax.jit(lambda x: x).lower(np.float32(0))
    module: Any = lowered.compiler_ir("stablehlo")
    return module.context


# -- types -----------------------------------------------------------------------------


def type_of(found: Any) -> Type:
    """The type of a value."""
    text = str(found)
    if text == _ORDER:
        return TokenType()
    inner = re.fullmatch(r"tensor<((?:(?:\d+|\?)x)*)([^,]*)>", text)
    if inner is None or inner[2] not in _ELEMENTS:
        raise FormatError("a type of the program is not known", got=text)
    dims = [Sym.unknown() if d == "?" else int(d) for d in inner[1].split("x")[:-1]]
    return TensorType(DType(_ELEMENTS[inner[2]]), dims)


def type_text(found: Type | None) -> str:
    if isinstance(found, TokenType):
        return _ORDER
    if not isinstance(found, TensorType) or not found.shape.has_rank:
        raise FormatError("StableHLO has no such type", expected="a tensor", got=found)
    name = _NAMES.get(getattr(found.dtype, "name", ""))
    if name is None:
        raise FormatError("StableHLO has no such element type", got=found.dtype)
    sizes = ("?" if isinstance(dim, Sym) else str(dim) for dim in found.shape)
    return f"tensor<{'x'.join((*sizes, name))}>"


# -- dense elements --------------------------------------------------------------------


def dense(text: str) -> Tensor:
    """Elements as they are printed: all of them, the bytes of all, or one for all."""
    found = _DENSE.fullmatch(text)
    own = type_of(found[2]) if found else None
    if found is None or not isinstance(own, TensorType):
        raise FormatError("elements of a constant cannot be read", got=text[:80])
    shape = tuple(map(int, own.shape))
    dtype = own.dtype.numpy
    if found[1].startswith('"0x'):
        held = np.frombuffer(bytes.fromhex(found[1].strip('"')[2:]), dtype)
    else:
        held = _listed(found[1], dtype)
    if held.size == 1:
        return Tensor.of(np.full(shape, held[0], dtype))
    return Tensor.of(held.reshape(shape))


def _listed(text: str, dtype: Any) -> Any:
    """Numbers between commas; parts of complex ones in pairs; bits as 0x7FC0."""
    words = _NUMBER.findall(text)
    is_complex = dtype.kind == "c"
    part = np.dtype(f"f{dtype.itemsize // 2}") if is_complex else dtype
    if dtype.kind == "b":
        return np.array([word == "true" for word in words], dtype)
    bits = np.dtype(f"u{part.itemsize}")
    numbers = [
        np.array(int(word, 16), bits).view(part)
        if word.startswith("0x")
        else np.array(int(word) if part.kind in "iu" else float(word)).astype(part)
        for word in words
    ]
    found = np.array(numbers, part)
    return found.view(dtype) if is_complex else found


def dense_text(tensor: Tensor) -> str:
    array = np.ascontiguousarray(tensor.numpy())
    kind = type_text(tensor.type)
    if not array.size:
        return f"dense<> : {kind}"
    if array.dtype.kind == "b" or tensor.dtype.bits % 8:  # these are packed as bytes
        words = [str(word).lower() for word in array.astype(_plain(array)).ravel()]
        held = words[0] if array.size == 1 else _nested(words, array.shape)
        return f"dense<{held}> : {kind}"
    return f'dense<"0x{array.tobytes().hex().upper()}"> : {kind}'


def _plain(array: Any) -> Any:
    return (
        "bool"
        if array.dtype.kind == "b"
        else "float64"
        if array.dtype.kind == "f"
        else "int64"
    )


def _nested(words: Sequence[str], shape: Sequence[int]) -> str:
    for size in reversed(shape):
        words = [
            f"[{', '.join(words[i : i + size])}]" for i in range(0, len(words), size)
        ]
    return words[0]


# -- attributes ------------------------------------------------------------------------


def attribute(entry: OpDef | None, key: str, found: Any) -> Any:
    """An attribute as the dictionary has it; its text where that has no word for it."""
    kind = _kind(entry, key)
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
        return dense(str(found))
    if kind.startswith("enum"):
        words = [_word(each) for each in found] if kind.endswith("[]") else _word(found)
        return tuple(words) if kind.endswith("[]") else words
    return str(found)


def _kind(entry: OpDef | None, key: str) -> str:
    for each in entry.attrs if entry is not None else ():
        if each.name == key:
            return str(each.kind)
    return ""


def _word(found: Any) -> str:
    word = re.fullmatch(r"#\w+<\w+ (\w+)>", str(found))
    if word is None:
        raise FormatError("a word of an enumeration cannot be read", got=str(found))
    return word[1]


def attribute_text(entry: OpDef | None, op: str, key: str, value: Any) -> str | None:
    """An attribute as MLIR reads it; None where it is not to stand there."""
    kind = _kind(entry, key)
    if kind == "int":
        return f"{value} : {'i32' if f'{op}.{key}' in _NARROW else 'i64'}"
    if kind == "float":
        return f"{float(value)!r} : f32"
    if kind == "bool":
        if key == _UNITS:
            return "unit" if value else None
        return str(bool(value)).lower()
    if kind in ("int[]", "bool[]"):
        of = "i64" if kind == "int[]" else "i1"
        words = ", ".join(str(each).lower() for each in value)
        return f"array<{of}: {words}>" if words else f"array<{of}>"
    if kind == "tensor":
        return dense_text(value)
    if kind in ("string", "function", "function[]"):
        return _quoted(kind, value)
    if kind.startswith("enum"):
        return _enumerated(kind, value)
    return str(value)


def _quoted(kind: str, value: Any) -> str:
    from jaxlib.mlir import ir

    if kind == "string":
        return str(ir.StringAttr.get(value))
    names = [value] if kind == "function" else value
    words = ", ".join(str(ir.FlatSymbolRefAttr.get(each.name)) for each in names)
    return words if kind == "function" else f"[{words}]"


def _enumerated(kind: str, value: Any) -> str:
    name = kind.removesuffix("[]").removeprefix("enum<").removesuffix(">")
    mnemonic = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
    words = [value] if isinstance(value, str) else value
    texts = [
        f"#stablehlo<{_MNEMONICS.get(mnemonic, mnemonic)} {word}>" for word in words
    ]
    return f"[{', '.join(texts)}]" if kind.endswith("[]") else texts[0]


_MNEMONICS: Final[Mapping[str, str]] = {"compare_type": "comparison_type"}


def unreadable(error: Exception, source: str) -> AmandaError:
    """What the bindings say of a program that they cannot read."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return FormatError(
        f"{source} holds no program of StableHLO",
        got=next((line for line in lines if "error" in line.lower()), "")
        or (lines[0] if lines else type(error).__name__),
        hint="its text, its bytecode, or what serialize_portable_artifact writes",
    )
