"""Parse opsets, constructors and enumerations from OpenVINO's C++ headers.

The headers are in the wheel. Only declarations of a fixed form are parsed: the opset
tables, the op classes with their constructors, and enumerations.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

__all__ = ["OpClass", "read_constructors", "read_opsets", "read_enum_values"]

_ROW = re.compile(r"^_OPENVINO_OP_REG\((\w+), ov::op::(v\d+)\)", re.MULTILINE)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_ENUM = re.compile(r"enum class (?:OPENVINO_API )?\w+[^{;]*\{([^}]*)\}")
_VERSION = re.compile(r"namespace (?:ov::op::)?(v\d+) \{")
_CLASS = re.compile(
    r"class OPENVINO_API (\w+)\s*(?:final )?:\s*public [\w:]+\s*\{(.*?)\n\};", re.DOTALL
)
_INPUT = re.compile(r"(Output<(?:ov::)?Node>|OutputVector|NodeVector)\s*& ?(\w+)")


class OpClass(NamedTuple):
    """A class of the library: `Interpolate`, `v11`."""

    op: str
    version: str


def read_opsets(include: Path) -> dict[int, list[OpClass]]:
    """The ops of each opset, from the opset tables."""
    found = {}
    for file in (include / "openvino" / "opsets").glob("opset*_tbl.hpp"):
        number = int(file.name.removeprefix("opset").removesuffix("_tbl.hpp"))
        text = file.read_text(encoding="utf-8")
        found[number] = [OpClass(*row) for row in _ROW.findall(text)]
    return dict(sorted(found.items()))


def _header_texts(include: Path) -> list[str]:
    files = sorted((include / "openvino" / "op").rglob("*.hpp"))
    return [_COMMENT.sub("", file.read_text(encoding="utf-8")) for file in files]


def read_enum_values(include: Path) -> list[str]:
    """Members of all enumerations, in the spelling of attribute values.

    `XNOR_POPCOUNT` is `xnor-popcount`, but `TF_HALF_PIXEL` is `tf_half_pixel`.
    """
    found: dict[str, None] = {}
    for text in _header_texts(include):
        for body in _ENUM.findall(text):
            for part in body.split(","):
                word = part.partition("=")[0].strip().lower()
                if word:
                    found |= {word: None, word.replace("_", "-"): None}
    return list(found)


def read_constructors(include: Path) -> dict[OpClass, list[list[str]]]:
    """The inputs of each constructor of an op; a variadic one starts with `*`."""
    found: dict[OpClass, list[list[str]]] = {}
    for text in _header_texts(include):
        _, *parts = _VERSION.split(text)
        for version, body in zip(parts[::2], parts[1::2], strict=True):
            for name, inside in _CLASS.findall(body):
                made = _parse_constructors(name, inside)
                if made:
                    found[OpClass(name, version)] = made
    return found


def _parse_constructors(name: str, inside: str) -> list[list[str]]:
    head = re.compile(rf"(?<![~\w.>:=]){name}\(")
    taken = [_until_closed(inside, found.end()) for found in head.finditer(inside)]
    return [
        [f"*{n}" if kind.endswith("Vector") else n for kind, n in _INPUT.findall(takes)]
        for takes in taken
        if takes.strip()
    ]


def _until_closed(text: str, start: int) -> str:
    """The text up to the closing parenthesis."""
    depth, at = 1, start
    while depth:
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
    return text[start : at - 1]
