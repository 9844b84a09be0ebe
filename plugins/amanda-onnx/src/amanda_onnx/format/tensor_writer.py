"""Tensors as messages, in the field that they were read from or in `raw_data`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from amanda.errors import FormatError
from amanda.formatkit import MessageChunks, encode_varint_tensor
from amanda.tensors import Tensor
from amanda.types import DType
from amanda_onnx.format.element_types import CODES, FIELDS
from amanda_onnx.format.external_data import ExternalDataWriter
from amanda_onnx.format.messages import SCHEMA
from amanda_onnx.format.model_metadata import string_pairs

__all__ = ["string_entries", "sparse_chunks", "tensor_chunks"]

_MESSAGE: Final = "TensorProto"
_SHARED: Final = ("float_data", "double_data")
_EXTERNAL: Final = 1


def tensor_chunks(
    name: str,
    tensor: Tensor,
    facts: Mapping[str, Any],
    outside: ExternalDataWriter | None,
) -> MessageChunks:
    """A TensorProto; `facts` is its file record."""
    dtype = tensor.dtype
    if not isinstance(dtype, DType) or dtype not in CODES:
        raise FormatError("ONNX has no such element type", got=dtype)
    head = (
        SCHEMA.writer(_MESSAGE)
        .put_all("dims", tensor.shape)
        .put("data_type", CODES[dtype])
    )
    out = MessageChunks(head.done())
    beside = outside is not None and outside.accepts(
        tensor, bool(facts.get("external"))
    )
    field = "" if beside else str(facts.get("data", ""))
    if dtype.name == "string":
        items = tensor.numpy().reshape(-1).tolist()
        out.append(SCHEMA.writer(_MESSAGE).put_all("string_data", items).done())
    elif field and field == FIELDS[dtype]:
        _write_typed(out, field, tensor)
    out.append(SCHEMA.writer(_MESSAGE).put_if("name", name).done())
    if not beside and dtype.name != "string" and field != FIELDS[dtype]:
        out.append_tensor(SCHEMA.tag(_MESSAGE, "raw_data"), tensor)
    tail = SCHEMA.writer(_MESSAGE).put_if("doc_string", facts.get("doc_string"))
    if beside and outside is not None:
        location, start = outside.put(tensor)
        location_entries = {
            "location": location,
            "offset": str(start),
            "length": str(tensor.nbytes),
        }
        tail.put_all("external_data", string_entries(location_entries)).put(
            "data_location", _EXTERNAL
        )
    tail.put_all("metadata_props", string_entries(facts.get("metadata_props")))
    out.append(tail.put_unknown(facts.get("rest", b"")).done())
    return out


def _write_typed(out: MessageChunks, field: str, tensor: Tensor) -> None:
    if not tensor.size:
        return
    if field in _SHARED:
        out.append_tensor(SCHEMA.tag(_MESSAGE, field), tensor)
    else:
        out.append(
            SCHEMA.writer(_MESSAGE).put(field, encode_varint_tensor(tensor)).done()
        )


def sparse_chunks(
    name: str,
    value: Mapping[str, Any],
    facts: Mapping[str, Any],
    outside: ExternalDataWriter | None,
) -> MessageChunks:
    """A SparseTensorProto, given as a dict."""
    out = MessageChunks()
    for part, own in (("values", name), ("indices", "")):
        tensor = value[part]
        if not isinstance(tensor, Tensor):
            raise FormatError(f"the {part} of a sparse tensor are not a tensor")
        noted = facts.get(part) or {}
        inner = tensor_chunks(own or noted.get("name", ""), tensor, noted, outside)
        out.append_message(SCHEMA.tag("SparseTensorProto", part), inner)
    dims = SCHEMA.writer("SparseTensorProto").put_all("dims", value["dims"])
    out.append(dims.put_unknown(facts.get("rest", b"")).done())
    return out


def string_entries(pairs: object) -> list[bytes]:
    """String properties, each as a message."""
    return [
        SCHEMA.writer("StringStringEntryProto")
        .put("key", key)
        .put("value", value)
        .done()
        for key, value in string_pairs(pairs)
    ]
