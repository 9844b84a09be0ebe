"""Dimension numbers: small protobuf messages in attributes of XLA ops.

Every field is a number or a packed list of numbers, so only these are decoded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from amanda.mapping import Decline

__all__ = ["CONV", "DOT", "GATHER", "SCATTER", "decode_numbers"]

DOT = {1: "lhs_contracting", 2: "rhs_contracting", 3: "lhs_batch", 4: "rhs_batch"}
CONV = {
    3: "kernel_input_feature", 4: "kernel_output_feature", 6: "kernel_spatial",
    7: "input_batch", 8: "input_feature", 9: "output_batch", 10: "output_feature",
    11: "input_spatial", 12: "output_spatial",
}  # fmt: skip
GATHER = {
    1: "offset_dims", 2: "collapsed_dims", 3: "start_index_map", 4: "index_vector_dim",
    5: "operand_batching_dims", 6: "indices_batching_dims",
}  # fmt: skip
SCATTER = {
    1: "window_dims", 2: "inserted_dims", 3: "index_map", 4: "index_vector_dim",
    5: "operand_batching_dims", 6: "indices_batching_dims",
}  # fmt: skip


def decode_numbers(
    message: bytes | str, fields: Mapping[int, str]
) -> dict[str, list[int]]:
    """The numbers of each field, by name; empty lists for those that are absent."""
    data = message if isinstance(message, bytes) else message.encode()
    found: dict[str, list[int]] = {name: [] for name in fields.values()}
    items = iter(data)
    for first in items:
        key = _varint(first, items)
        if key & 7 == 0:
            values = [_next_varint(items)]
        elif key & 7 == 2:
            packed = iter([_next_byte(items) for _ in range(_next_varint(items))])
            values = [_varint(byte, packed) for byte in packed]
        else:
            raise Decline("dimension numbers that are no list of numbers")
        if key >> 3 in fields:
            found[fields[key >> 3]] += values
    return found


def _next_byte(items: Iterator[int]) -> int:
    byte = next(items, None)
    if byte is None:
        raise Decline("truncated dimension numbers")
    return byte


def _next_varint(items: Iterator[int]) -> int:
    return _varint(_next_byte(items), items)


def _varint(byte: int, items: Iterator[int]) -> int:
    value, shift = byte & 0x7F, 0
    while byte & 0x80:
        byte, shift = _next_byte(items), shift + 7
        value |= (byte & 0x7F) << shift
    return value
