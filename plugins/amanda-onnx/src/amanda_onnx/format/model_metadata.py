"""What a model of ONNX says that no part of a graph stands for.

It is kept under two keys that no attribute of ONNX can have, as a dict of plain values:

- `onnx:notes` among the attributes of an op, of a port and of a graph
- `onnx:model` among the attributes of a root graph: versions, producer and the like

Whoever changes a graph need not know of them. What was noted of an op goes with it, and
a note that fits no longer is dropped by the writer.

of an op        name (where another op has it), doc_string, metadata_props, overload,
                domain (where written `ai.onnx`), device_configurations; of attributes
                by name: kinds, docs, values (what there is to say of a tensor in it)
of a constant   node: the attribute of the `Constant` node that it was; without, it is
                an initializer. input: its place among the inputs, where it is one, too
of a port       doc_string, metadata_props, denotation, quantization (names of tensors
                by role), value_info (listed there though nobody expects it), untyped
                (there is a type, and it is empty), type (the bytes of one that ours
                does not hold whole)
of a graph      doc_string, metadata_props, value_info and quantization of values that
                do not exist; of a function: domain, overload, attributes (those without
                a default; the others are the graph's own)
rest            fields that no version of ONNX known here has, as they are
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from amanda.formatkit import FileRecords

__all__ = [
    "MODEL_KEY",
    "NOTES_KEY",
    "model_notes",
    "add_notes",
    "notes_of",
    "string_pairs",
]

NODE_RECORDS: Final = FileRecords("onnx:notes")
MODEL_RECORDS: Final = FileRecords("onnx:model")
NOTES_KEY: Final = NODE_RECORDS.key
MODEL_KEY: Final = MODEL_RECORDS.key

notes_of = NODE_RECORDS.of
add_notes = NODE_RECORDS.add
model_notes = MODEL_RECORDS.of


def string_pairs(given: object) -> list[tuple[str, str]]:
    """Keys and values of noted properties: a dict, or pairs where a key comes twice."""
    if isinstance(given, Mapping):
        return [(str(key), str(value)) for key, value in given.items()]
    pairs = given if isinstance(given, list | tuple) else ()
    return [(str(pair[0]), str(pair[1])) for pair in pairs]
