"""A graph as the bytes of a `Model`.

An op with type, name, inputs, outputs and attributes is encoded inline; rare parts go
through the message classes. Ops are held encoded, about twenty bytes each, until the
tables in front of them are complete. The data of tensors is not read here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from amanda.errors import FormatError
from amanda.files.binary import messages
from amanda.files.binary.attributes import AttrWriter
from amanda.files.binary.messages import write
from amanda.files.binary.shared_tables import WriteTables
from amanda.files.content import expect_valid_content
from amanda.formatkit.scalars import encode_utf8
from amanda.formatkit.wire import (
    BYTES,
    encode_field,
    encode_key,
    encode_varint,
    pack_varints,
)
from amanda.graph import ControlPort, Edge, Graph, InputPort, Op, OutputPort, bulk
from amanda.tensors import Tensor

__all__ = ["MAGIC", "MAJOR", "MINOR", "EncodedModel", "encode"]

MAGIC = b"\x0a\x0camanda/graph"
MAJOR, MINOR = 1, 0
ByteChunk = bytes | bytearray | memoryview

_VERSION = (
    b"\x10" + encode_varint(MAJOR) + (b"\x18" + encode_varint(MINOR) if MINOR else b"")
)

# Fields of Model and Op, and the ops of a Graph; a test compares the numbers.
_STRINGS, _TYPES, _TENSORS, _GRAPHS = 4, 5, 6, 7
_OP = b"\x7a"
_TYPE, _NAME, _INPUTS, _OUTPUTS = b"\x08", b"\x12", b"\x1a", b"\x22"
_ATTR, _NAMESPACE = b"\x2a", b"\x30"


class EncodedModel:
    """A graph as bytes, except the data of its tensors."""

    def __init__(self, tables: WriteTables, graphs: list[list[bytes | bytearray]]):
        self.tensors = tables.tensors
        self.wishes = tables.wishes
        self._words = tables.words
        self._types = tables.types
        self._graphs = graphs

    def size(self) -> int:
        """The approximate number of bytes of `inline`."""
        data = sum([tensor.nbytes for tensor in self.tensors if not is_splat(tensor)])
        return data + sum([len(part) for parts in self._graphs for part in parts])

    def inline(self) -> Iterator[ByteChunk]:
        """The bytes of a file that contains the data of its tensors."""
        for piece in self._pieces(self.tensors):
            if isinstance(piece, Tensor):
                yield from piece.chunks()
            else:
                yield piece

    def with_keys(self, keys: Mapping[int, str]) -> Iterator[ByteChunk]:
        """The bytes of a file whose tensors are in another one, under these keys."""
        return cast("Iterator[ByteChunk]", self._pieces(self.tensors, keys))

    def _pieces(
        self, tensors: list[Tensor], keys: Mapping[int, str] | None = None
    ) -> Iterator[ByteChunk | Tensor]:
        """The bytes in order, and a tensor in place of its data."""
        yield MAGIC + _VERSION
        yield b"".join(
            [encode_field(_STRINGS, encode_utf8(word)) for word in self._words]
        )
        yield b"".join(
            [encode_field(_TYPES, encode_utf8(text)) for text in self._types]
        )
        for place, tensor in enumerate(tensors):
            size = 0
            head = encode_field(1, str(tensor.dtype).encode())
            if tensor.shape:
                head += encode_field(2, pack_varints(tensor.shape))
            if is_splat(tensor):
                head += encode_field(5, encode_item(tensor))
            elif keys is not None:
                head += encode_field(3, encode_utf8(keys[place]))
            elif size := tensor.nbytes:
                head += encode_key(4, BYTES) + encode_varint(size)
            yield encode_key(_TENSORS, BYTES) + encode_varint(len(head) + size) + head
            if size:
                yield tensor
        for parts in self._graphs:
            yield encode_key(_GRAPHS, BYTES) + encode_varint(sum(map(len, parts)))
            yield from parts


def is_splat(tensor: Tensor) -> bool:
    """Whether one element is written for all."""
    return tensor.stores_one_element and tensor.size > 1


def encode_item(tensor: Tensor) -> bytes:
    """The packed bytes of the first element."""
    first = bytes(next(tensor.chunks(1)))
    bits = tensor.dtype.bits
    return first[: bits // 8] if bits >= 8 else bytes([first[0] & (1 << bits) - 1])


def encode(graph: Graph) -> EncodedModel:
    """Encode a root graph and all graphs inside."""
    expect_valid_content(graph)
    with bulk():
        return _ModelEncoder().run(graph)


class _ValueNumbers:
    """The numbers of a graph's values; captures are negative."""

    __slots__ = ("count", "of", "place")

    def __init__(self, graph: Graph, place: int) -> None:
        self.place = place  # of the graph in the file
        self.of: dict[OutputPort | None, int] = {}
        self.count = 0
        self.add(graph.parameters)

    def add(self, ports: Iterable[OutputPort]) -> None:
        for port in ports:
            self.of[port] = self.count
            self.count += 1


class _ModelEncoder:
    """Encodes one file; what its graphs share."""

    def __init__(self) -> None:
        self.tables = WriteTables()
        self.attrs = AttrWriter(self.tables)
        self.heads: dict[str | None, bytes] = {}
        self.queue: list[Graph] = []
        self.numbers: dict[Graph, _ValueNumbers] = {}

    def run(self, root: Graph) -> EncodedModel:
        self.queue.append(root)
        written = []
        for place, graph in enumerate(self.queue):
            held = len(self.queue)
            written.append(_GraphEncoder(self, graph, place).run())
            if len(self.queue) == held:  # no inner graph can capture its values
                del self.numbers[graph]
        return EncodedModel(self.tables, written)

    def place(self, graph: Graph) -> int:
        """The index of a graph in the file, assigned when its holder is encoded."""
        self.queue.append(graph)
        return len(self.queue) - 1

    def head(self, kind: str | None) -> bytes:
        """The encoded type of an op."""
        if kind is None:
            return b""
        made = self.heads[kind] = _TYPE + encode_varint(self.tables.word(kind))
        return made

    def payloads(self, holder: Any, has: bool) -> list[bytes]:
        """The attributes of an op, a port or an edge, if it `has` any."""
        return self.attrs.payloads(holder.attrs) if has else []

    def edge_payloads(self, port: InputPort) -> list[bytes]:
        """The attributes of the edge that ends at an input port."""
        return self.attrs.payloads(port.edge_attrs) if port.has_edge_attrs else []


class _GraphEncoder:
    """Encodes one graph."""

    def __init__(self, file: _ModelEncoder, graph: Graph, place: int) -> None:
        self._file = file
        self._tables = file.tables
        self._graph = graph
        self._numbers = file.numbers[graph] = _ValueNumbers(graph, place)
        self._captures: list[OutputPort] = []
        self._late: list[tuple[int, int, OutputPort]] = []
        self._late_signals: list[messages.LateControlEdge] = []
        self._index = 0
        self._places: dict[Op, int] | None = None

    def run(self) -> list[bytes | bytearray]:
        """The encoded fields: the header, and the ops."""
        out = bytearray()
        for op in self._graph:
            payload = self._subgraph(op) if isinstance(op, Graph) else self._op(op)
            out += _OP + encode_varint(len(payload)) + payload
            self._index += 1
        return [write(self._header()), out]

    # -- ops ---------------------------------------------------------------------

    def _op(self, op: Op) -> bytes:
        file, numbers = self._file, self._numbers
        payload = file.heads.get(op.type) or file.head(op.type)
        if op.name is not None:
            name = encode_utf8(op.name)
            payload += _NAME + encode_varint(len(name)) + name
        inputs = op.inputs
        if inputs:
            payload += _INPUTS + self._references(inputs)
        outputs = op.outputs
        rare = op.side_record is not None  # the side record, which most ops do without
        if outputs:
            numbers.add(outputs)
            payload += _OUTPUTS + _with_length(
                [self._tables.type(p.type) for p in outputs]
            )
            for port in outputs:
                rare = rare or port.name is not None
        if op.has_attrs:
            attrs = file.attrs.payloads(op.attrs, op.name)
            payload += b"".join(
                [_ATTR + encode_varint(len(attr)) + attr for attr in attrs]
            )
        return payload + self._rare_op(op) if rare else payload

    def _references(self, inputs: Sequence[OutputPort | None]) -> bytes:
        """The inputs of an op, counted back from its own first output."""
        numbers, before = self._numbers.of, self._numbers.count
        try:
            back = [before - numbers[value] for value in inputs]
        except KeyError:  # a capture, a later op, nothing at all
            back = [self._reference(value, i) for i, value in enumerate(inputs)]
        return _with_length(back)

    def _reference(self, value: OutputPort | None, i: int = -1) -> int:
        """The distance back to a value from the last one; captures precede the first.

        `i` is the index of the input; -1 for a reference from the end of the graph.
        """
        if value is None:
            return 0
        numbers = self._numbers
        number = numbers.of.get(value)
        if number is None:
            if value.graph is self._graph:
                self._late.append((self._index, i, value))
                return 0
            self._captures.append(value)
            number = numbers.of[value] = -len(self._captures)
        return numbers.count - number

    def _rare_op(self, op: Op) -> bytes:
        """The rare parts of an op."""
        space = op.own_namespace
        head = b""
        if space is not None:
            head = _NAMESPACE + encode_varint(self._tables.word(space))
        facts = messages.Op(
            bodies=[
                messages.Body(key, self._file.place(body))
                for key, body in op.bodies.items()
            ],
            feedback=op.feedback,
            output_ports=self._output_ports(op),
            provenance=_provenance(op),
        )
        return head + write(self._add_order_and_ports(op, facts, names=True))

    def _subgraph(self, op: Graph) -> bytes:
        """A graph as an op: its edges only; the rest is in its own message."""
        inputs = op.inputs
        back = _INPUTS + self._references(inputs) if inputs else b""
        facts = self._add_order_and_ports(
            op, messages.Op(graph=self._file.place(op)), names=False
        )
        self._numbers.add(op.outputs)
        return back + write(facts)

    def _add_order_and_ports(
        self, op: Op, facts: messages.Op, *, names: bool
    ) -> messages.Op:
        """Add control edges, names and attributes of input ports."""
        self._signals(op, facts)
        payloads = self._file.payloads
        for port in op.input_ports:
            made = messages.InputPort(port.index)
            if names:
                made.name = self._tables.word(port.name)
                made.attrs = payloads(port, port.has_attrs)
            made.edge_attrs = self._file.edge_payloads(port)
            if made.name or made.attrs or made.edge_attrs:
                facts.input_ports.append(made)
        return facts

    def _output_ports(self, op: Op) -> list[messages.OutputPort]:
        found = []
        for port in op.outputs:
            made = messages.OutputPort(
                port.index,
                self._tables.word(port.name),
                self._file.payloads(port, port.has_attrs),
                self._marks(port),
            )
            if made.name or made.attrs or made.marks:
                found.append(made)
        return found

    def _marks(self, port: OutputPort) -> list[int]:
        return [self._tables.word(label) for label in sorted(port.marks)]

    # -- control edges -----------------------------------------------------------

    def _signals(self, op: Op, facts: messages.Op) -> None:
        for first in op.control_inputs:
            edge = Edge(ControlPort(first, "out"), ControlPort(op, "in"))
            attrs = self._file.payloads(edge, edge.has_attrs)
            place = self._place(first)
            back = self._index - place
            if back <= 0:
                late = messages.LateControlEdge(self._index, place, attrs)
                self._late_signals.append(late)
                continue
            if attrs:
                facts.signals.append(messages.ControlEdge(len(facts.control), attrs))
            facts.control.append(back)

    def _place(self, op: Op) -> int:
        """The index of an op in this graph; computed for the first control edge."""
        if self._places is None:
            self._places = {op: i for i, op in enumerate(self._graph)}
        return self._places[op]

    # -- the graph itself --------------------------------------------------------

    def _header(self) -> messages.Graph:
        """Everything but the ops; encoded after them, when all values have numbers."""
        graph = self._graph
        made = messages.Graph(
            self=self._self(),
            parameters=[self._parameter(port) for port in graph.parameters],
            results=[self._result(port) for port in graph.result_ports],
            sources=[self._source_edge(op) for op in graph.inner_control_sources],
            sinks=[self._sink_edge(op) for op in graph.inner_control_sinks],
            late_signals=self._late_signals,
            functions=[
                messages.Function(name, self._file.place(function))
                for name, function in graph.functions.items()
            ],
            entries=[
                messages.EntryPoint(
                    name,
                    self._named_values(entry.inputs),
                    self._named_values(entry.outputs),
                )
                for name, entry in graph.entries.items()
            ],
            imports=[messages.Import(*item) for item in graph.imports.items()],
        )
        made.late_inputs = [
            messages.LateInput(op, i, self._reference(value))
            for op, i, value in self._late
        ]
        made.captures = [self._capture(value) for value in self._captures]
        return made

    def _self(self) -> messages.Op:
        graph = self._graph
        return messages.Op(
            type=self._tables.word(graph.type),
            name=graph.name,
            attrs=self._file.payloads(graph, graph.has_attrs),
            namespace=self._tables.word(graph.own_namespace),
            provenance=_provenance(graph),
        )

    def _parameter(self, port: OutputPort) -> messages.Parameter:
        return messages.Parameter(
            self._tables.type(port.type),
            self._tables.word(port.name),
            self._file.payloads(port, port.has_attrs),
            self._marks(port),
        )

    def _result(self, port: InputPort) -> messages.Result:
        outside = self._graph.outputs[port.index]
        return messages.Result(
            self._reference(port.source),
            self._tables.type(outside.type),
            self._tables.word(outside.name),
            self._file.payloads(outside, outside.has_attrs),
            self._file.edge_payloads(port),
            self._marks(outside),
        )

    def _source_edge(self, op: Op) -> messages.Boundary:
        edge = Edge(ControlPort(self._graph, "in", True), ControlPort(op, "in"))
        return self._boundary(op, edge)

    def _sink_edge(self, op: Op) -> messages.Boundary:
        edge = Edge(ControlPort(op, "out"), ControlPort(self._graph, "out", True))
        return self._boundary(op, edge)

    def _boundary(self, op: Op, edge: Edge) -> messages.Boundary:
        attrs = self._file.payloads(edge, edge.has_attrs)
        return messages.Boundary(self._place(op), attrs)

    def _named_values(
        self, values: Mapping[str, OutputPort]
    ) -> list[messages.NamedValue]:
        return [
            messages.NamedValue(name, self._reference(v)) for name, v in values.items()
        ]

    def _capture(self, value: OutputPort) -> messages.Capture:
        home = value.graph
        numbers = self._file.numbers.get(home) if home is not None else None
        number = None if numbers is None else numbers.of.get(value)
        if numbers is None or number is None:
            raise FormatError(
                f"{self._graph.label} reads a value that is not in the file",
                got=f"{value} of {home.label if home is not None else 'no graph'}",
                hint="save the graph around it, or a clone that has it as parameter",
            )
        return messages.Capture(numbers.place, numbers.count - number)


def _with_length(values: list[int]) -> bytes:
    """Packed numbers, preceded by their length."""
    raw = pack_varints(values)
    return encode_varint(len(raw)) + raw


def _provenance(op: Op) -> messages.Provenance | None:
    told = op.provenance
    return None if told is None else messages.Provenance(list(told.sources), told.by)
