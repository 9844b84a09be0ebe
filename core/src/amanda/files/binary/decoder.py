"""A graph from the bytes of a `Model`.

The outer fields are read in place, the ops of a graph in blocks of a megabyte, so
reading takes little more memory than the graph. The usual fields of an op are read
inline; an op with any other goes through the message classes.

Every reference and every length is checked before it is used, so a hostile file costs
time and memory in proportion to its size.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from math import prod
from typing import Any, NoReturn

from amanda.errors import AmandaError, FormatError
from amanda.files.binary import messages
from amanda.files.binary.attributes import AttrReader
from amanda.files.binary.encoder import MAGIC, MAJOR
from amanda.files.binary.graph_decoder import (
    OPS,
    GraphDecoder,
    PendingGraph,
    decode_provenance,
    raise_at,
)
from amanda.files.binary.shared_tables import ReadTables
from amanda.formatkit import Span
from amanda.formatkit.scalars import decode_utf8
from amanda.formatkit.wire import (
    BYTES,
    decode_varint,
    iter_fields,
    locate_error,
    unpack_varints,
)
from amanda.graph import Graph, OutputPort, bulk
from amanda.tensors import Tensor
from amanda.tensors.packing import check_shape, packed_size
from amanda.types import parse_element

__all__ = ["decode"]

_KEY, _DATA, _SPLAT = 3, 4, 5  # fields of a Tensor

Stored = Callable[[str, str, list[int]], memoryview]
"""Returns data in another file: by key, for a tensor of this dtype and shape."""


def decode(data: memoryview, stored: Stored | None = None) -> Graph:
    """The graph of a file; tensors share `data`, or what `stored` returns for a key."""
    start = bytes(data[: len(MAGIC)])
    if start != MAGIC:
        raise FormatError(
            "not a graph of Amanda in protobuf form",
            where="byte 0",
            expected=repr(MAGIC),
            got=repr(start),
        )
    with bulk():
        return ModelDecoder(data, stored).read()


class ModelDecoder:
    """Decodes one file; what its graphs share."""

    def __init__(self, data: memoryview, stored: Stored | None) -> None:
        self.data = data
        self._stored = stored
        self._spans: list[Span] = []
        self._shells: dict[int, PendingGraph] = {}
        self.tables = self._tables()
        self.attrs = AttrReader(self.tables)

    def read(self) -> Graph:
        if not self._spans:
            raise FormatError("a file without a graph", where=f"byte {len(self.data)}")
        root = self._shell(0)
        for place in range(len(self._spans)):
            shell = self._shells.get(place)
            if shell is None:
                raise FormatError(
                    f"nothing holds graph {place} of the file",
                    where=f"byte {self._spans[place][0]}",
                    expected="a holder in an earlier graph",
                )
            inner = len(self._shells)
            GraphDecoder(self, shell, place).read()
            if len(self._shells) == inner:  # no inner graph can capture its values
                shell.values = []
        return root.graph

    def hold(self, place: int, holder: int) -> PendingGraph:
        """The graph with index `place`, for an op of an earlier graph."""
        if not holder < place < len(self._spans):
            raise FormatError(
                f"graph {holder} of the file cannot hold graph {place}",
                expected=f"one of {holder + 1} to {len(self._spans) - 1}",
            )
        if place in self._shells:
            raise FormatError(f"graph {place} of the file is held twice")
        return self._shell(place)

    def shell(self, place: int) -> PendingGraph:
        """The graph with index `place`, if the graph around it was read."""
        shell = self._shells.get(place)
        if shell is None:
            raise FormatError(f"graph {place} of the file is not around this one")
        return shell

    # -- tables ------------------------------------------------------------------

    def _tables(self) -> ReadTables:
        words: list[str] = []
        types: list[str] = []
        tensors: list[Span] = []
        spans = {4: words, 5: types, 6: tensors, 7: self._spans}
        major = 0
        for number, kind, start, stop in iter_fields(self.data):
            if number == 2:
                major, _ = decode_varint(self.data, start, stop)
                _check_version(major)
            into: Any = spans.get(number)
            if into is None:
                continue
            if kind != BYTES:
                raise_at(f"field {number} of the file has another wire type", start)
            small = number in (4, 5)
            into.append(decode_utf8(self.data, start, stop) if small else (start, stop))
        _check_version(major)
        tables = ReadTables(words, types)
        tables.tensors += [self._tensor(*span) for span in tensors]
        return tables

    def _tensor(self, pos: int, stop: int) -> Tensor:
        dtype, shape = "", list[int]()
        found: dict[int, memoryview] = {}
        for number, kind, start, end in iter_fields(self.data, pos, stop):
            if number == 2:
                shape += unpack_varints(self.data, start, end)
            elif kind != BYTES:
                raise_at("a part of a tensor has another wire type", start)
            elif number == 1:
                dtype = decode_utf8(self.data, start, end)
            elif number in (_KEY, _DATA, _SPLAT):
                found[number] = self.data[start:end]
        if len(found) > 1:
            raise_at("a tensor has its data twice", pos)
        try:
            if _SPLAT in found:
                one = decode_tensor(found[_SPLAT], dtype, [])
                return Tensor.splat(one.dtype, shape, one.numpy())
            data = found.get(_DATA, self.data[:0])
            if _KEY in found:
                if self._stored is None:
                    raise FormatError("the data of a tensor is in another file")
                data = self._stored(str(found[_KEY], "utf-8"), dtype, shape)
            return decode_tensor(data, dtype, shape)
        except (AmandaError, UnicodeDecodeError) as error:
            raise locate_error(error, f"byte {pos}") from error

    def _shell(self, place: int) -> PendingGraph:
        """The graph with index `place` and its ports, before its ops are read."""
        pos, stop = self._spans[place]
        ops = pos
        for number, _, _, end in iter_fields(self.data, pos, stop):
            if number == OPS:
                break
            ops = end
        header = messages.read(messages.Graph, self.data, pos, ops)
        if place and (header.functions or header.entries):
            raise_at("only the first graph of a file has functions and entries", pos)
        try:
            graph = self._graph(header)
        except (AmandaError, IndexError) as error:
            raise locate_error(error, f"byte {pos}, graph {place}") from error
        shell = self._shells[place] = PendingGraph(graph, header, (ops, stop))
        return shell

    def _graph(self, header: messages.Graph) -> Graph:
        own = header.self or messages.Op()
        words, types = self.tables.words, self.tables.types
        graph = Graph(words[own.namespace], own.name, type=words[own.type])
        self.set_attrs(graph, own.attrs)
        graph.provenance = decode_provenance(own)
        for given in header.parameters:
            port = graph.parameter(types[given.type], words[given.name])
            self.describe(port, given)
        for wanted in header.results:
            index = graph.result(None, words[wanted.name]).index
            outside = graph.outputs[index]
            outside.type = types[wanted.type]
            self.describe(outside, wanted)
        for item in header.imports:
            graph.imports[item.domain] = item.version
        return graph

    # -- attributes of anything --------------------------------------------------

    def set_attrs(self, holder: Any, spans: list[Span]) -> None:
        """Set attributes of an op, a port or an edge."""
        if spans:
            holder.attrs.update(self.attrs.values(self.data, spans, 0))

    def describe(
        self, port: OutputPort, record: messages.Parameter | messages.Result
    ) -> None:
        self.set_attrs(port, record.attrs)
        for mark in record.marks:
            port.mark(self.string(mark))

    def string(self, number: int) -> str:
        string = self.tables.words[number]
        if string is None:
            raise FormatError("a string is missing: number 0 means none")
        return string


def decode_tensor(data: memoryview, name: str, shape: list[int]) -> Tensor:
    """A tensor on some bytes, whose number is checked."""
    dtype = parse_element(name)
    dims = check_shape(shape)
    if dtype.kind in ("string", "bytes"):
        return Tensor.strings(_decode_strings(data, prod(dims)), dims, dtype)
    expected = packed_size(dtype, dims)
    if len(data) != expected:
        raise FormatError(
            f"the data of a tensor {name}{shape} is not as long as that",
            expected=f"{expected} bytes",
            got=f"{len(data)} bytes",
        )
    return Tensor.from_buffer(data, dtype, dims)


def _decode_strings(data: memoryview, count: int) -> list[bytes]:
    """The strings of a tensor: 8 bytes with the length of each, then all of them."""
    pos = 8 * count
    if pos > len(data):
        _raise_string_lengths(count, data)
    items = []
    for (size,) in struct.iter_unpack("<Q", data[:pos]):
        items.append(bytes(data[pos : pos + size]))
        pos += size
        if pos > len(data):
            _raise_string_lengths(count, data)
    if pos != len(data):
        _raise_string_lengths(count, data)
    return items


def _raise_string_lengths(count: int, data: memoryview) -> NoReturn:
    raise FormatError(
        "the strings of a tensor do not fill its data",
        expected=f"{count} texts",
        got=f"{len(data)} bytes",
    )


def _check_version(major: int) -> None:
    if major != MAJOR:
        raise FormatError(
            "a graph in another version of the protobuf form",
            expected=f"version {MAJOR}",
            got=f"version {major}",
            hint="a newer Amanda may read it" if major > MAJOR else None,
        )
