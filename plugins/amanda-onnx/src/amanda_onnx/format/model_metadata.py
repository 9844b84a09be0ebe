"""File records of ONNX: what a model contains that no part of a graph stands for.

They are stored under two keys that no ONNX attribute can have, as dicts:

- `onnx:notes` in the attributes of an op, a port or a graph
- `onnx:model` in the attributes of a root graph: versions, producer and so on

Passes can ignore them. The record of an op stays with the op, and the writer drops what
no longer applies.

of an op        name (if another op has it), doc_string, metadata_props, overload,
                domain (if written as `ai.onnx`), device_configurations; of attributes
                by name: kinds, docs, values (records of the tensors in them)
of a constant   node: the attribute of the `Constant` node that it was; without, it is
                an initializer. input: its position among the inputs, if it is one too
of a port       doc_string, metadata_props, denotation, quantization (names of tensors
                by role), value_info (listed though redundant), untyped (an empty type),
                type (the bytes of a type that ours does not fully represent)
of a graph      doc_string, metadata_props, value_info and quantization of values that
                do not exist; of a function: domain, overload, attributes (those without
                a default; the others are the graph's own)
rest            fields unknown to this version, as they are encoded
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
    """Keys and values of recorded properties, which are a dict or pairs."""
    if isinstance(given, Mapping):
        return [(str(key), str(value)) for key, value in given.items()]
    pairs = given if isinstance(given, list | tuple) else ()
    return [(str(pair[0]), str(pair[1])) for pair in pairs]
