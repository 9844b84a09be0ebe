"""What OpenVINO's C++ headers say, which its wheel brings: opsets, inputs, words.

Only declarations of a fixed form are read: the tables of the opsets, the classes of the
ops with their constructors, and enumerations.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

__all__ = ["Key", "constructors", "opsets", "words"]

_ROW = re.compile(r"^_OPENVINO_OP_REG\((\w+), ov::op::(v\d+)\)", re.MULTILINE)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_ENUM = re.compile(r"enum class (?:OPENVINO_API )?\w+[^{;]*\{([^}]*)\}")
_VERSION = re.compile(r"namespace (?:ov::op::)?(v\d+) \{")
_CLASS = re.compile(
    r"class OPENVINO_API (\w+)\s*(?:final )?:\s*public [\w:]+\s*\{(.*?)\n\};", re.DOTALL
)
_INPUT = re.compile(r"(Output<(?:ov::)?Node>|OutputVector|NodeVector)\s*& ?(\w+)")


class Key(NamedTuple):
    """An op as a class of the library: `Interpolate`, `v11`."""

    op: str
    version: str


def opsets(include: Path) -> dict[int, list[Key]]:
    """The ops of each opset, as the tables list them."""
    found = {}
    for file in (include / "openvino" / "opsets").glob("opset*_tbl.hpp"):
        number = int(file.name.removeprefix("opset").removesuffix("_tbl.hpp"))
        text = file.read_text(encoding="utf-8")
        found[number] = [Key(*row) for row in _ROW.findall(text)]
    return dict(sorted(found.items()))


def _texts(include: Path) -> list[str]:
    files = sorted((include / "openvino" / "op").rglob("*.hpp"))
    return [_COMMENT.sub("", file.read_text(encoding="utf-8")) for file in files]


def words(include: Path) -> list[str]:
    """The words of all enumerations, as attributes may have them.

    `XNOR_POPCOUNT` is `xnor-popcount` there, and `TF_HALF_PIXEL` stays in one piece.
    """
    found: dict[str, None] = {}
    for text in _texts(include):
        for body in _ENUM.findall(text):
            for part in body.split(","):
                word = part.partition("=")[0].strip().lower()
                if word:
                    found |= {word: None, word.replace("_", "-"): None}
    return list(found)


def constructors(include: Path) -> dict[Key, list[list[str]]]:
    """The inputs that each constructor of an op takes; `*` before one that repeats."""
    found: dict[Key, list[list[str]]] = {}
    for text in _texts(include):
        _, *parts = _VERSION.split(text)
        for version, body in zip(parts[::2], parts[1::2], strict=True):
            for name, inside in _CLASS.findall(body):
                made = _constructors(name, inside)
                if made:
                    found[Key(name, version)] = made
    return found


def _constructors(name: str, inside: str) -> list[list[str]]:
    head = re.compile(rf"(?<![~\w.>:=]){name}\(")
    taken = [_until_closed(inside, found.end()) for found in head.finditer(inside)]
    return [
        [f"*{n}" if kind.endswith("Vector") else n for kind, n in _INPUT.findall(takes)]
        for takes in taken
        if takes.strip()
    ]


def _until_closed(text: str, start: int) -> str:
    """What stands between an open bracket and the one that closes it."""
    depth, at = 1, start
    while depth:
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
    return text[start : at - 1]
