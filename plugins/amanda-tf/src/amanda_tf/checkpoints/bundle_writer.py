"""Writing a bundle; the elements pass through in blocks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

from amanda.errors import FormatError
from amanda.files import replace_file
from amanda.formatkit import encode_varint
from amanda.tensors import Tensor
from amanda.types import Shape
from amanda_tf.checkpoints.bundle import INDEX, data_path, length_bytes
from amanda_tf.checkpoints.crc import crc_of, mask_crc
from amanda_tf.checkpoints.table import table_bytes
from amanda_tf.messages import ELEMENT_TYPES
from amanda_tf.saved_messages import SAVED
from amanda_tf.tensors import encode_shape

__all__ = ["write_bundle"]

_ALIGNMENT: Final = 64
"""Tensors begin at multiples of this, so that maps of the file are aligned."""


def write_bundle(prefix: str | Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors by their keys, in one data file and an index."""
    if "" in tensors:
        raise FormatError(
            "a tensor without a key, which is the header's", who=os.fspath(prefix),
            expected="a name for each variable",
        )  # fmt: skip
    header = SAVED.writer("BundleHeaderProto").put("num_shards", 1)
    version = SAVED.writer("VersionDef").put("producer", 1).done()
    rows = [(b"", header.put("version", version).done())]
    sorted_keys = sorted(tensors, key=str.encode)
    with replace_file(data_path(os.fspath(prefix), 0, 1)) as file:
        for key in sorted_keys:
            file.write(b"\0" * (-file.tell() % _ALIGNMENT))
            rows.append((key.encode(), _write(file, tensors[key])))
    with replace_file(os.fspath(prefix) + INDEX) as file:
        file.write(table_bytes(rows))


def _write(file: BinaryIO, tensor: Tensor) -> bytes:
    """Write the elements of a tensor; returns its BundleEntryProto."""
    entry: Any = SAVED.writer("BundleEntryProto")
    entry.put("dtype", ELEMENT_TYPES.code(tensor.dtype))
    entry.put("shape", encode_shape(Shape(tensor.shape)))
    offset, crc = file.tell(), 0
    if tensor.dtype.name == "string":
        items = tensor.numpy().reshape(-1).tolist()
        lengths = [len(item) for item in items]
        crc = crc_of(length_bytes(lengths))
        stored = mask_crc(crc).to_bytes(4, "little")
        file.write(b"".join(map(encode_varint, lengths)) + stored)
        blocks: Any = [stored, *items]
        file.writelines(items)
        crc = crc_of(blocks, crc)
    else:
        for block in tensor.chunks():
            file.write(block)
            crc = crc_of([block], crc)
    entry.put_if("offset", offset).put_if("size", file.tell() - offset)
    return bytes(entry.put("crc32c", mask_crc(crc)).done())
