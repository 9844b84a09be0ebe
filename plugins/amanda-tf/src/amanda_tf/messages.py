"""GraphDef and the messages in it, as tensorflow.proto declares them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from amanda.errors import InvalidTypeError
from amanda.formatkit import (
    DTypeCodes,
    FileRecords,
    ProtoSchema,
    any_of,
    dict_of,
    is_message,
    list_of,
    of_class,
)
from amanda.tensors import Tensor
from amanda.types import DType

__all__ = [
    "ELEMENT_TYPES",
    "GRAPH_RECORDS",
    "NODE_RECORDS",
    "REF",
    "SAVED_RECORDS",
    "SCHEMA",
]

SCHEMA: Final = ProtoSchema.load(
    Path(__file__).with_name("tensorflow.proto"),
    located=[
        f"TensorProto.{name}_val"
        for name in ("half", "float", "double", "int", "scomplex", "int64", "bool",
                     "dcomplex", "uint32", "uint64")
    ],
)  # fmt: skip

REF: Final = 100
"""Added to the code of an element type for a reference to a variable of it."""

_TEXT, _NUMBER = of_class(str), of_class(int)


def _is_group(value: object) -> bool:
    """Whether a value is the name of outputs and how many they are."""
    is_pair = isinstance(value, list | tuple) and len(value) == 2
    return is_pair and _TEXT(value[0]) and _NUMBER(value[1])  # type: ignore[index]


NODE_RECORDS: Final = FileRecords(
    "_tensorflow:node",
    {
        "device": _TEXT, "inputs": list_of(_TEXT), "outputs": list_of(_is_group),
        "attrs": dict_of(of_class(dict)), "rest": is_message, "key": _TEXT,
        "slice": _TEXT,
    },
)  # fmt: skip
"""Of a node: device, inputs as spelled, encodings of attributes, other fields; of a
variable, its key in a checkpoint, and the slice of the tensor there."""

GRAPH_RECORDS: Final = FileRecords(
    "tensorflow:graph",
    {
        "versions": any_of(
            is_message, dict_of(any_of(_NUMBER, list_of(_NUMBER)))
        ),
        "library": of_class(bool), "library_rest": is_message, "rest": is_message,
        "order": list_of(_TEXT),
    },
)  # fmt: skip
"""Of a graph: versions, order of nodes, other fields."""

SAVED_RECORDS: Final = FileRecords(
    "tensorflow:saved-model",
    {
        "meta": is_message, "rest": is_message, "before": list_of(is_message),
        "after": list_of(is_message), "signatures": dict_of(is_message),
        "variables": dict_of(of_class(Tensor)), "files": dict_of(of_class(Tensor)),
    },
)  # fmt: skip
"""Of a SavedModel: what its MetaGraphDef has beside the graph, the tensors of its
checkpoint that no variable of the graph has, and other files of its folder."""

_NAMES: Final = {
    "float": "float32", "double": "float64", "half": "float16", "invalid": "unknown",
}  # fmt: skip


def _element_types() -> DTypeCodes:
    names = {}
    for key, code in SCHEMA.enums["DataType"].items():
        word = key.removeprefix("DT_").lower()
        name = _NAMES.get(word, word)
        try:
            names[code] = DType(name).name
        except InvalidTypeError:  # references, and types that Amanda does not have
            continue
    return DTypeCodes("TensorFlow", names)


ELEMENT_TYPES: Final = _element_types()
