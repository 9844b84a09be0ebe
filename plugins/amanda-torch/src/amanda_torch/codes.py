"""Numbers in files for element types, layouts and memory formats; names of ops."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from amanda.errors import FormatError
from amanda.formatkit import DTypeCodes

__all__ = [
    "DTYPES", "KINDS_OF_FRAMEWORK", "LAYOUTS", "MEMORY_FORMATS", "code_of",
    "device_fields", "device_name", "json_number", "op_type", "target_of", "variant",
]  # fmt: skip

DTYPES: Final = DTypeCodes(
    "PyTorch",
    {
        0: "unknown", 1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64",
        6: "float16", 7: "float32", 8: "float64", 9: "complex32", 10: "complex64",
        11: "complex128", 12: "bool", 13: "bfloat16", 28: "uint16",
        29: "float8_e4m3fn", 30: "float8_e5m2", 31: "float8_e4m3fnuz",
        32: "float8_e5m2fnuz", 33: "float8_e8m0fnu", 34: "uint32", 35: "uint64",
    },
)  # fmt: skip

LAYOUTS: Final[Mapping[int, str]] = {
    0: "unknown", 1: "sparse_coo", 2: "sparse_csr", 3: "sparse_csc", 4: "sparse_bsr",
    5: "sparse_bsc", 6: "_mkldnn", 7: "strided",
}  # fmt: skip
MEMORY_FORMATS: Final[Mapping[int, str]] = {
    0: "unknown", 1: "contiguous_format", 2: "channels_last", 3: "channels_last_3d",
    4: "preserve_format",
}  # fmt: skip
KINDS_OF_FRAMEWORK: Final[Mapping[str, str]] = {
    "as_device": "any<Device>", "as_layout": "any<Layout>",
    "as_memory_format": "any<MemoryFormat>",
}  # fmt: skip
"""Kinds of attributes that are strings here, by their kind of argument in files."""

_OPS: Final = "torch.ops."
_OF_PYTHON: Final = ("_operator.", "math.", "torch.", "#")


def op_type(target: str) -> str:
    """The op type of the target of a node.

    >>> op_type("torch.ops.aten.add.Tensor"), op_type("_operator.mul")
    ('aten.add.Tensor', '_operator.mul')
    """
    return target.removeprefix(_OPS)


def target_of(type: str) -> str:
    """The target of a node of an op type.

    >>> target_of("aten.add.Tensor"), target_of("torch.sym_max")
    ('torch.ops.aten.add.Tensor', 'torch.sym_max')
    """
    return type if type.startswith(_OF_PYTHON) else _OPS + type


def variant(union: Any) -> tuple[str, Any]:
    """Kind and value of a union: an object with one field.

    >>> variant({"as_int": 3})
    ('as_int', 3)
    """
    if union.__class__ is dict and len(union) == 1:
        [item] = union.items()
        return item
    given = {} if not isinstance(union, dict) else union
    fields = [(key, value) for key, value in given.items() if value is not None]
    if len(fields) != 1:
        raise FormatError(
            "this is not a union", expected="an object with one field",
            got=f"{union!r:.60}",
        )  # fmt: skip
    return fields[0]


def device_name(fields: Mapping[str, Any]) -> str:
    """
    >>> device_name({"type": "cuda", "index": 0}), device_name({"type": "cpu"})
    ('cuda:0', 'cpu')
    """
    index = fields.get("index")
    return fields["type"] if index is None else f"{fields['type']}:{index}"


def device_fields(name: str) -> dict[str, Any]:
    """
    >>> device_fields("cuda:0")
    {'type': 'cuda', 'index': 0}
    """
    kind, _, index = name.partition(":")
    return {"type": kind, "index": int(index) if index.isdecimal() else None}


def code_of(names: Mapping[int, str], name: Any, what: str) -> int:
    """The number of a layout or memory format."""
    for code, known in names.items():
        if known == name:
            return code
    raise FormatError(f"PyTorch has no such {what}", got=name)


def json_number(value: Any) -> Any:
    """A number as JSON has it, where infinity and NaN are texts.

    >>> json_number(1.5), json_number(float("-inf"))
    (1.5, '-Infinity')
    """
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
