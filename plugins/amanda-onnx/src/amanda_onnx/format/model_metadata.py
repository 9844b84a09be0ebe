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

from collections.abc import Mapping, Sequence
from typing import Any, Final

from amanda.errors import FormatError
from amanda.formatkit import (
    FileRecords,
    RecordCheck,
    any_of,
    dict_of,
    is_message,
    list_of,
    of_class,
)
from amanda.tensors import Tensor
from amanda_onnx.format.messages import SCHEMA

__all__ = [
    "MODEL_KEY",
    "NOTES_KEY",
    "model_notes",
    "add_notes",
    "notes_of",
    "recorded_messages",
    "string_pairs",
]

_TEXT, _FLAG, _NUMBER = of_class(str), of_class(bool), of_class(int)
_MESSAGES: Final = list_of(is_message)
_PAIRS: Final = any_of(
    dict_of(_TEXT), list_of(lambda pair: list_of(_TEXT)(pair) and len(pair) == 2)
)
_ANYTHING: Final = {"rest": is_message, "doc_string": _TEXT, "metadata_props": _PAIRS}


def _is_place(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 31


def _is_data_record(value: object) -> bool:
    """Whether a value is the record of a tensor or a type, or a list of them."""
    if isinstance(value, list | tuple):
        return all(map(_is_data_record, value))
    return isinstance(value, Mapping) and all(
        name not in _OF_DATA or _OF_DATA[name](item) for name, item in value.items()
    )


_OF_DATA: Final[dict[str, RecordCheck]] = {
    **_ANYTHING, "name": _TEXT, "data": _TEXT, "external": _FLAG, "type": is_message,
    "denotation": _TEXT, "values": _is_data_record, "indices": _is_data_record,
}  # fmt: skip

NODE_RECORDS: Final = FileRecords(
    "onnx:notes",
    {
        **_ANYTHING, "name": _TEXT, "overload": _TEXT, "domain": _TEXT, "node": _TEXT,
        "device_configurations": _MESSAGES, "kinds": dict_of(_TEXT),
        "docs": dict_of(_TEXT), "rests": dict_of(is_message),
        "values": dict_of(_is_data_record), "initializer": _FLAG, "input": _is_place,
        "denotation": _TEXT, "quantization": any_of(_PAIRS, _MESSAGES),
        "value_info": any_of(_FLAG, _MESSAGES), "untyped": _FLAG, "type": is_message,
        "attributes": list_of(_TEXT),
    },
)  # fmt: skip
MODEL_RECORDS: Final = FileRecords(
    "onnx:model",
    {
        **_ANYTHING, "ir_version": _NUMBER, "producer_name": _TEXT,
        "producer_version": _TEXT, "domain": _TEXT, "model_version": _NUMBER,
        "training_info": list_of(of_class(Tensor)), "configuration": _MESSAGES,
    },
)  # fmt: skip
NOTES_KEY: Final = NODE_RECORDS.key
MODEL_KEY: Final = MODEL_RECORDS.key

notes_of = NODE_RECORDS.of
add_notes = NODE_RECORDS.add
model_notes = MODEL_RECORDS.of


def recorded_messages(
    notes: Mapping[str, Any], field: str, message: str
) -> Sequence[bytes]:
    """The encoded messages of a field of a graph's record, which are checked."""
    found = notes.get(field, ())
    if not _MESSAGES(found):
        raise FormatError(
            f"the field {field!r} of a graph's record is no list", got=found
        )
    for raw in found:
        SCHEMA.read(message, raw)
    return found  # type: ignore[no-any-return]


def string_pairs(given: object) -> list[tuple[str, str]]:
    """Keys and values of recorded properties, which are a dict or pairs."""
    if isinstance(given, Mapping):
        return [(str(key), str(value)) for key, value in given.items()]
    pairs = given if isinstance(given, list | tuple) else ()
    return [(str(pair[0]), str(pair[1])) for pair in pairs]
