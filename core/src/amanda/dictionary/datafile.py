"""The data file of a dictionary history: the definitions of each op, by version.

    {"format": 1, "namespace": "amanda/onnx", "versions": ["1", "2", ...], ...}

    Relu
      doc one line of documentation
      in X one line of documentation of an input (or attribute, output: attr, out)
      1 (X: T, *, consumed_inputs?: int[]) -> (Y: T)  T in {f16, f32, f64}
      6 (X: T) -> (Y: T)  T in {f16, f32, f64}
      9 gone

The first line is the header. An op is its name and, indented, its definitions as
signatures, each preceded by the version that introduced it. So a change of one op
changes its own lines, and one op can be read without parsing the others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from amanda.dictionary.op_definition import OpDef
from amanda.dictionary.signature import format_definition, parse_signature
from amanda.errors import AmandaError, NamespaceError

__all__ = [
    "FORMAT",
    "GONE",
    "DictionaryHeader",
    "OpHistory",
    "argument_docs",
    "definition_steps",
    "definition_text",
    "encode_data_file",
    "op_places",
    "parse_header",
    "parse_op",
]

FORMAT: Final = 1
GONE: Final = "gone"

_DOCUMENTED: Final = ("in", "attr", "out")
_NEXT = re.compile(rb"\n(?! )")
_NAME = re.compile(rb"\n([^ \n][^\n]*)")


@dataclass(frozen=True)
class DictionaryHeader:
    """Properties of all versions of a dictionary.

    - `recorded`: ops carry type variables as attributes, as in TensorFlow, although
      they can be inferred from the inputs
    - `hints`: prefixes of attributes without a meaning of their own
    - `domains`: the names of this namespace in `Graph.imports`
    - `deprecated`: a deprecated op is a fault in a graph of that version
    - `reference`: the key of a dict that refers to an attribute of the enclosing
      function, so that the value is unknown
    - `overload`: the separator before the overload name, as in `aten.add.Tensor`
    - `named_inputs`: a port takes a number, as an attribute of its name; an attribute,
      or an item of one, takes a value, as an input of its name
    """

    namespace: str
    versions: tuple[str, ...]
    source: str = ""
    recorded: bool = False
    hints: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    deprecated: bool = False
    reference: str = ""
    overload: str = ""
    named_inputs: bool = False


@dataclass(frozen=True)
class OpHistory:
    """All versions of one op: pairs of a version and a definition's text, or `GONE`.

    `docs` has the documentation of inputs, attributes and outputs, as `OpDef.docs`."""

    name: str
    doc: str
    steps: tuple[tuple[str, str], ...]
    docs: Mapping[str, str] = field(default_factory=dict)


def encode_data_file(head: DictionaryHeader, ops: Iterable[OpHistory]) -> bytes:
    """Encode a data file, with ops sorted by name."""
    fields = {k: v for k, v in asdict(head).items() if v or k == "versions"}
    lines = [json.dumps({"format": FORMAT, **fields}, ensure_ascii=False), ""]
    for op in sorted(ops, key=lambda op: op.name):
        lines.append(op.name)
        if op.doc:
            lines.append(f"  doc {op.doc}")
        lines += [f"  {part} {doc}" for part, doc in op.docs.items()]
        lines += [f"  {version} {text}" for version, text in op.steps]
    return ("\n".join(lines) + "\n").encode()


def parse_header(data: bytes, file: str) -> DictionaryHeader:
    """Parse the header of a data file."""
    line, _, _ = data.partition(b"\n")
    try:
        fields: Mapping[str, Any] = json.loads(line)
        version = fields["format"]
        if version != FORMAT:
            raise NamespaceError(
                "the data file of the dictionary has an unsupported format",
                who=file,
                expected=f"format {FORMAT}",
                got=f"format {version}",
                hint="update amanda-core and amanda-namespaces together",
            )
        known = {key: value for key, value in fields.items() if key != "format"}
        lists = {key: tuple(v) for key, v in known.items() if isinstance(v, list)}
        return DictionaryHeader(**{**known, **lists})
    except (ValueError, KeyError, TypeError) as error:
        raise NamespaceError(
            "the data file of the dictionary has no valid header",
            who=file,
            got=str(error),
        ) from error


def op_places(data: bytes) -> dict[str, int]:
    """The offset of the first line of each op, by name."""
    header = data.find(b"\n")
    return {found[1].decode(): found.start(1) for found in _NAME.finditer(data, header)}


def parse_op(data: bytes, at: int) -> OpHistory:
    """The op whose first line is at an offset."""
    found = _NEXT.search(data, data.index(b"\n", at))
    end = found.start() if found else len(data)
    name, *lines = data[at:end].decode().split("\n")
    doc = ""
    docs: dict[str, str] = {}
    steps: list[tuple[str, str]] = []
    for line in lines:
        word, _, rest = line.strip().partition(" ")
        if word == "doc":
            doc = rest
        elif word in _DOCUMENTED:
            name_of_part, _, text = rest.partition(" ")
            docs[f"{word} {name_of_part}"] = text
        else:
            steps.append((word, rest))
    return OpHistory(name, doc, tuple(steps), docs)


def argument_docs(definitions: Iterable[OpDef]) -> dict[str, str]:
    """The documentation of inputs, attributes and outputs in the last definition.

    Of those that it lacks: in the last one that has them."""
    docs: dict[str, str] = {}
    for definition in definitions:
        docs |= definition.docs
    return docs


def definition_steps(
    steps: Iterable[tuple[str, OpDef | None]], *, always: bool = False
) -> tuple[tuple[str, str], ...]:
    """Versions with definition texts; unchanged definitions only with `always`.

    >>> a, b = parse_signature("A(x: f32) -> ()"), parse_signature("A() -> ()")
    >>> definition_steps([("1", a), ("2", a), ("3", b), ("4", None)])
    (('1', '(x: f32) -> ()'), ('3', '() -> ()'), ('4', 'gone'))
    """
    texts: list[tuple[str, str]] = []
    before: OpDef | None = None
    for version, definition in steps:
        if definition is before and not always:  # the usual case; needs no text
            continue
        before = definition
        text = GONE if definition is None else definition_text(definition)
        if always or (texts[-1][1] if texts else GONE) != text:
            texts.append((version, text))
    return tuple(texts)


def definition_text(definition: OpDef) -> str:
    """The text of a definition in a data file, checked by parsing it again.

    A default that is NaN, or a name with a bracket in it, is refused here, not by the
    reader of the file.
    """
    text = format_definition(definition)
    try:
        parsed = parse_signature(definition.name + text)
    except AmandaError as error:
        raise NamespaceError(
            f"the definition of {definition.name} cannot be parsed again",
            got=definition.name + text,
            where=error.message,
        ) from error
    if parsed != definition or definition.name != parsed.name or "\n" in text:
        raise NamespaceError(
            f"the definition of {definition.name} parses as a different one",
            expected=definition.name + text,
            got=parsed,
        )
    return text
