"""The reference backend's C file as data: its table of ops, the parts of kernels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Final, NamedTuple

from amanda_native import REFERENCE_SOURCE

__all__ = ["C_TYPES", "KernelRow", "kernel_rows", "source_of_parts"]

C_TYPES: Final = MappingProxyType(
    {
        "float32": ("FLOAT32", "float"),
        "int32": ("INT32", "int32_t"),
        "int64": ("INT64", "int64_t"),
        "bool": ("BOOL", "uint8_t"),
    }
)
"""The constant and the type in C of each element type that kernels compute with."""

_LETTERS: Final = {"float32": "f", "int32": "i", "int64": "i", "bool": "b"}
_ROW: Final = re.compile(
    r'(SAME_SHAPE|PAIR|REDUCTION)\((\w+), "(\w+)"|'
    r'{"(\w+)", "([\w*]+)", "(\w+)", "[^"]*",\s*s_\w+,\s*k_(\w+)'
)
_INPUTS: Final = {"SAME_SHAPE": "t", "PAIR": "tt", "REDUCTION": "tA"}
_PART: Final = re.compile(r"/\* part (\w+):([\w ]*)\*/\n")


class KernelRow(NamedTuple):
    """A row of the table of ops in the C file."""

    inputs: str
    """A letter for each: t a tensor, o one that may be omitted, * any number, i
    indices, capitals are shape arguments."""
    types: str
    """f for float32, i for integers, b for bool."""
    kernel: str

    def takes_dtype(self, name: str) -> bool:
        return _LETTERS.get(name, "?") in self.types


@cache
def kernel_rows() -> Mapping[str, KernelRow]:
    """The rows by op type."""
    table = _source().partition("OPS[] = {")[2].partition("};")[0]
    found = {}
    for macro, short, short_types, name, inputs, types, kernel in _ROW.findall(table):
        if macro:
            found[short] = KernelRow(_INPUTS[macro], short_types, short)
        else:
            found[name] = KernelRow(inputs, types, kernel)
    return MappingProxyType(found)


@cache
def _source() -> str:
    return REFERENCE_SOURCE.read_text("utf-8")


class _Part(NamedTuple):
    needs: tuple[str, ...]
    text: str


@cache
def _parts() -> Mapping[str, _Part]:
    """The parts of the file by name, in order."""
    text = _source().partition("/* end of parts */")[0]
    _, *rest = _PART.split(text)
    names, needs, texts = rest[::3], rest[1::3], rest[2::3]
    rows = zip(names, needs, texts, strict=True)
    return {name: _Part(tuple(need.split()), body) for name, need, body in rows}


def source_of_parts(names: Iterable[str]) -> str:
    """The C source of parts and of what they need, in the order of the file."""
    parts, wanted, waiting = _parts(), set[str](), ["tensor", *names]
    while waiting:
        name = waiting.pop()
        if name not in wanted:
            wanted.add(name)
            waiting += parts[name].needs
    return "\n".join(
        part.text.strip() for name, part in parts.items() if name in wanted
    )
