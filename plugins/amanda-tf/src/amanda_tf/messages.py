"""GraphDef and the messages in it, as tensorflow.proto declares them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from amanda.errors import InvalidTypeError
from amanda.formatkit import DTypeCodes, FileRecords, ProtoSchema
from amanda.types import DType

__all__ = ["ELEMENT_TYPES", "GRAPH_RECORDS", "NODE_RECORDS", "REF", "SCHEMA"]

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

NODE_RECORDS: Final = FileRecords("_tensorflow:node")
"""Of a node: device, inputs as spelled, encodings of attributes, other fields."""

GRAPH_RECORDS: Final = FileRecords("tensorflow:graph")
"""Of a graph: versions, order of nodes, other fields."""

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
