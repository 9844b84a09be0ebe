"""What the inputs, attributes and outputs of an op are: `ops/arguments.txt`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amanda.dictionary import OpDef
    from amanda_std.engine.operation import Operation

Section = Mapping[str, str]


def argument_docs(operation: Operation, entry: OpDef) -> dict[str, str]:
    """The documentation of an op's ports and attributes, as `OpDef.docs`."""
    theme = ".".join(operation.function.__module__.split(".")[1:3])
    known = sections()
    lines: dict[str, str] = {}
    for name in ("all", theme, operation.name):
        lines |= known.get(name, {})
    found = {
        f"{kind} {part.name}": lines.get(part.name, "")
        for kind, parts in (("in", entry.inputs), ("attr", entry.attrs))
        for part in parts
    }
    names = [port.name for port in entry.outputs]
    docs = [operation.doc] if len(names) == 1 else [lines.get(n, "") for n in names]
    found |= {f"out {name}": doc for name, doc in zip(names, docs, strict=True)}
    return {key: doc for key, doc in found.items() if doc}


@cache
def sections() -> Mapping[str, Section]:
    """The lines of each section, by name; one for several ops is under each."""
    text = files("amanda_std.ops").joinpath("arguments.txt").read_text("utf-8")
    found: dict[str, dict[str, str]] = {}
    current: list[str] = []
    for line in text.splitlines():
        if line.startswith("["):
            current = line.strip("[]").split()
            for name in current:
                found.setdefault(name, {})
        elif line and not line.startswith("#"):
            argument, _, doc = line.partition(" ")
            for name in current:
                found[name][argument] = doc.strip()
    return found
