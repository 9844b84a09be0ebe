"""A graph from the bytes of a `Model`, op by op.

The outer fields are walked where they lie, the ops of a graph in blocks of a megabyte,
so reading takes the memory of the graph and little more. The fields that most ops have
are read in line; an op with any other goes through the message classes.

Every number that refers to something is checked where it is used, and every length
before it is used. So a hostile file costs time and memory in proportion to its size.
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
from amanda.files.binary.graph_decoder import OPS, Body, Shell, bad, provenance
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
"""What finds data in another file: by key, for a tensor of this dtype and shape."""


def decode(data: memoryview, stored: Stored | None = None) -> Graph:
    """The graph of a file; tensors share `data`, or what `stored` finds for a key."""
    start = bytes(data[: len(MAGIC)])
    if start != MAGIC:
        raise FormatError(
            "not a graph of Amanda in protobuf form",
            where="byte 0",
            expected=repr(MAGIC),
            got=repr(start),
        )
    with bulk():
        return File(data, stored).read()


class File:
    """What the graphs of one file share."""

    def __init__(self, data: memoryview, stored: Stored | None) -> None:
        self.data = data
        self._stored = stored
        self._spans: list[Span] = []
        self._shells: dict[int, Shell] = {}
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
            Body(self, shell, place).read()
            if len(self._shells) == inner:  # nothing inside can read its values
                shell.values = []
        return root.graph

    def hold(self, place: int, holder: int) -> Shell:
        """The graph at `place`, for its holder in an earlier graph."""
        if not holder < place < len(self._spans):
            raise FormatError(
                f"graph {holder} of the file cannot hold graph {place}",
                expected=f"one of {holder + 1} to {len(self._spans) - 1}",
            )
        if place in self._shells:
            raise FormatError(f"graph {place} of the file is held twice")
        return self._shell(place)

    def shell(self, place: int) -> Shell:
        """The graph at `place`, if its holder was read."""
        shell = self._shells.get(place)
        if shell is None:
            raise FormatError(f"graph {place} of the file is not around this one")
        return shell

    # -- what stands before the graphs -------------------------------------------

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
                bad(f"field {number} of the file is of another kind", start)
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
                bad("a part of a tensor is of another kind", start)
            elif number == 1:
                dtype = decode_utf8(self.data, start, end)
            elif number in (_KEY, _DATA, _SPLAT):
                found[number] = self.data[start:end]
        if len(found) > 1:
            bad("a tensor has its data twice", pos)
        try:
            if _SPLAT in found:
                one = tensor(found[_SPLAT], dtype, [])
                return Tensor.splat(one.dtype, shape, one.numpy())
            data = found.get(_DATA, self.data[:0])
            if _KEY in found:
                if self._stored is None:
                    raise FormatError("the data of a tensor is in another file")
                data = self._stored(str(found[_KEY], "utf-8"), dtype, shape)
            return tensor(data, dtype, shape)
        except (AmandaError, UnicodeDecodeError) as error:
            raise locate_error(error, f"byte {pos}") from error

    def _shell(self, place: int) -> Shell:
        """The graph at `place` with its ports, made before its holder is."""
        pos, stop = self._spans[place]
        ops = pos
        for number, _, _, end in iter_fields(self.data, pos, stop):
            if number == OPS:
                break
            ops = end
        header = messages.read(messages.Graph, self.data, pos, ops)
        if place and (header.functions or header.entries):
            bad("only the first graph of a file has functions and entries", pos)
        try:
            graph = self._graph(header)
        except (AmandaError, IndexError) as error:
            raise locate_error(error, f"byte {pos}, graph {place}") from error
        shell = self._shells[place] = Shell(graph, header, (ops, stop))
        return shell

    def _graph(self, header: messages.Graph) -> Graph:
        own = header.self or messages.Op()
        words, types = self.tables.words, self.tables.types
        graph = Graph(words[own.namespace], own.name, type=words[own.type])
        self.fill(graph, own.attrs)
        graph.provenance = provenance(own)
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

    def fill(self, holder: Any, spans: list[Span]) -> None:
        """Give attributes to an op, a port or an edge."""
        if spans:
            holder.attrs.update(self.attrs.values(self.data, spans, 0))

    def describe(
        self, port: OutputPort, told: messages.Parameter | messages.Result
    ) -> None:
        self.fill(port, told.attrs)
        for mark in told.marks:
            port.mark(self.word(mark))

    def word(self, number: int) -> str:
        word = self.tables.words[number]
        if word is None:
            raise FormatError("a word is missing: number 0 stands for none")
        return word


def tensor(data: memoryview, name: str, shape: list[int]) -> Tensor:
    """A tensor on some bytes, of which there must be as many as it takes."""
    dtype = parse_element(name)
    dims = check_shape(shape)
    if dtype.kind in ("string", "bytes"):
        return Tensor.strings(_texts(data, prod(dims)), dims, dtype)
    expected = packed_size(dtype, dims)
    if len(data) != expected:
        raise FormatError(
            f"the data of a tensor {name}{shape} is not as long as that",
            expected=f"{expected} bytes",
            got=f"{len(data)} bytes",
        )
    return Tensor.from_buffer(data, dtype, dims)


def _texts(data: memoryview, count: int) -> list[bytes]:
    """The texts of a tensor: the length of each as 8 bytes, then all of them."""
    pos = 8 * count
    if pos > len(data):
        _short_texts(count, data)
    items = []
    for (size,) in struct.iter_unpack("<Q", data[:pos]):
        items.append(bytes(data[pos : pos + size]))
        pos += size
        if pos > len(data):
            _short_texts(count, data)
    if pos != len(data):
        _short_texts(count, data)
    return items


def _short_texts(count: int, data: memoryview) -> NoReturn:
    raise FormatError(
        "the texts of a tensor do not fill its data",
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
