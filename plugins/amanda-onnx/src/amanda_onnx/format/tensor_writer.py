"""Tensors as messages: in the field that they were read from, else in `raw_data`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from amanda.errors import FormatError
from amanda.tensors import Tensor
from amanda.types import DType
from amanda_onnx.format import varint_data
from amanda_onnx.format.element_types import CODES, FIELDS
from amanda_onnx.format.message_chunks import ExternalDataWriter, MessageChunks
from amanda_onnx.format.messages import Writer, tag
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
    """A TensorProto; `facts` are what was noted of it."""
    dtype = tensor.dtype
    if not isinstance(dtype, DType) or dtype not in CODES:
        raise FormatError("ONNX has no such element type", got=dtype)
    head = Writer(_MESSAGE).many("dims", tensor.shape).put("data_type", CODES[dtype])
    out = MessageChunks(head.done())
    beside = outside is not None and outside.takes(tensor, bool(facts.get("external")))
    field = "" if beside else str(facts.get("data", ""))
    if dtype.name == "string":
        items = tensor.numpy().reshape(-1).tolist()
        out.add(Writer(_MESSAGE).many("string_data", items).done())
    elif field and field == FIELDS[dtype]:
        _typed(out, field, tensor)
    out.add(Writer(_MESSAGE).some("name", name).done())
    if not beside and dtype.name != "string" and field != FIELDS[dtype]:
        out.data(tag(_MESSAGE, "raw_data"), tensor)
    tail = Writer(_MESSAGE).some("doc_string", facts.get("doc_string"))
    if beside and outside is not None:
        location, start = outside.put(tensor)
        told = {
            "location": location,
            "offset": str(start),
            "length": str(tensor.nbytes),
        }
        tail.many("external_data", string_entries(told)).put("data_location", _EXTERNAL)
    tail.many("metadata_props", string_entries(facts.get("metadata_props")))
    out.add(tail.raw(facts.get("rest", b"")).done())
    return out


def _typed(out: MessageChunks, field: str, tensor: Tensor) -> None:
    if not tensor.size:
        return
    if field in _SHARED:
        out.data(tag(_MESSAGE, field), tensor)
    else:
        out.add(Writer(_MESSAGE).put(field, varint_data.encode_tensor(tensor)).done())


def sparse_chunks(
    name: str,
    value: Mapping[str, Any],
    facts: Mapping[str, Any],
    outside: ExternalDataWriter | None,
) -> MessageChunks:
    """A SparseTensorProto of the dict that stands for one."""
    out = MessageChunks()
    for part, own in (("values", name), ("indices", "")):
        tensor = value[part]
        if not isinstance(tensor, Tensor):
            raise FormatError(f"the {part} of a sparse tensor are no tensor")
        noted = facts.get(part) or {}
        inner = tensor_chunks(own or noted.get("name", ""), tensor, noted, outside)
        out.take(tag("SparseTensorProto", part), inner)
    dims = Writer("SparseTensorProto").many("dims", value["dims"])
    out.add(dims.raw(facts.get("rest", b"")).done())
    return out


def string_entries(pairs: object) -> list[bytes]:
    """String properties, each as a message."""
    return [
        Writer("StringStringEntryProto").put("key", key).put("value", value).done()
        for key, value in string_pairs(pairs)
    ]
