"""The messages of graph.proto as dataclasses, and how they are read and written;
those of mapping.proto stand in ruleset.py, and are read and written by the same tables.

Names and numbers stand in graph.proto; the classes give them types in Python. `Model`,
`Attr` and `Tensor` have no class: they are large or many, and read where they lie.

Amanda reads and writes these without the protobuf library: large files are walked, not
loaded; what is wrong with a file is told with its place; and the code that protoc makes
for Python runs with one major version of the library only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from amanda.files.binary import dictionary_messages
from amanda.formatkit import RecordCodec

__all__ = [
    "CODEC", "PROTO", "Attrs", "Body", "Boundary", "Capture", "Entry", "Function",
    "Graph", "Import", "InputPort", "LateInput", "LateSignal", "Op", "OutputPort",
    "Parameter", "Provenance", "Result", "Signal", "Slot", "message_classes", "read",
    "write",
]  # fmt: skip

Attrs = list[Any]
"""Messages of attributes: their bytes when written, their spans in the file when read.

Attributes are on the hot path and become values of their own, see attributes.py.
"""


# -- the messages ------------------------------------------------------------------


@dataclass(slots=True)
class Provenance:
    sources: list[str] = field(default_factory=list)
    by: str = ""


@dataclass(slots=True)
class OutputPort:
    index: int = 0
    name: int = 0
    attrs: Attrs = field(default_factory=list)
    marks: list[int] = field(default_factory=list)


@dataclass(slots=True)
class InputPort:
    index: int = 0
    name: int = 0
    attrs: Attrs = field(default_factory=list)
    edge_attrs: Attrs = field(default_factory=list)


@dataclass(slots=True)
class Signal:
    control: int = 0
    attrs: Attrs = field(default_factory=list)


@dataclass(slots=True)
class Body:
    name: str = ""
    graph: int = 0


@dataclass(slots=True)
class Op:
    type: int = 0
    name: str | None = None
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    attrs: Attrs = field(default_factory=list)
    namespace: int = 0
    graph: int = 0
    bodies: list[Body] = field(default_factory=list)
    control: list[int] = field(default_factory=list)
    signals: list[Signal] = field(default_factory=list)
    input_ports: list[InputPort] = field(default_factory=list)
    output_ports: list[OutputPort] = field(default_factory=list)
    provenance: Provenance | None = None
    feedback: bool = False


@dataclass(slots=True)
class Import:
    domain: str = ""
    version: int = 0


@dataclass(slots=True)
class Slot:
    name: str = ""
    value: int = 0


@dataclass(slots=True)
class Entry:
    name: str = ""
    inputs: list[Slot] = field(default_factory=list)
    outputs: list[Slot] = field(default_factory=list)


@dataclass(slots=True)
class Function:
    name: str = ""
    graph: int = 0


@dataclass(slots=True)
class LateSignal:
    op: int = 0
    first: int = 0
    attrs: Attrs = field(default_factory=list)


@dataclass(slots=True)
class LateInput:
    op: int = 0
    input: int = 0
    value: int = 0


@dataclass(slots=True)
class Boundary:
    op: int = 0
    attrs: Attrs = field(default_factory=list)


@dataclass(slots=True)
class Capture:
    graph: int = 0
    value: int = 0


@dataclass(slots=True)
class Result:
    value: int = 0
    type: int = 0
    name: int = 0
    attrs: Attrs = field(default_factory=list)
    edge_attrs: Attrs = field(default_factory=list)
    marks: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Parameter:
    type: int = 0
    name: int = 0
    attrs: Attrs = field(default_factory=list)
    marks: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Graph:
    self: Op | None = None
    parameters: list[Parameter] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    captures: list[Capture] = field(default_factory=list)
    sources: list[Boundary] = field(default_factory=list)
    sinks: list[Boundary] = field(default_factory=list)
    late_inputs: list[LateInput] = field(default_factory=list)
    late_signals: list[LateSignal] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    imports: list[Import] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)


PROTO: Final = Path(__file__).with_name("graph.proto")

CODEC: Final = RecordCodec(
    PROTO,
    [
        Body, Boundary, Capture, Entry, Function, Graph, Import, InputPort, LateInput,
        LateSignal, Op, OutputPort, Parameter, Provenance, Result, Signal, Slot,
        *dictionary_messages.CLASSES,
    ],
)  # fmt: skip

read = CODEC.read
write = CODEC.write


def message_classes() -> dict[str, type[Any]]:
    """Classes of the protobuf library for the messages of graph.proto, by name."""
    from amanda.formatkit import message_classes

    return message_classes(CODEC.schema)
