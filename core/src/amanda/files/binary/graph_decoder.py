"""The ops of one graph of a file.

Ops are read in blocks of a megabyte. Their usual fields are read inline; an op with any
other field goes through the message classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from amanda.errors import AmandaError, FormatError
from amanda.files.binary import messages
from amanda.files.content import expect_constant
from amanda.formatkit import Span
from amanda.formatkit.wire import (
    BYTES,
    decode_varint,
    iter_fields,
    locate_error,
    unpack_varints,
)
from amanda.graph import CONSTANT, Graph, InputPort, Op, OutputPort, Provenance

if TYPE_CHECKING:
    from amanda.files.binary.decoder import ModelDecoder

__all__ = ["OPS", "GraphDecoder", "PendingGraph", "raise_at", "decode_provenance"]

OPS = 15  # the field of a Graph
_OP_TAG = OPS << 3 | BYTES
# Tags of the fields that are read inline; a test compares them with graph.proto.
_TYPE, _NAME, _INPUTS, _OUTPUTS, _ATTR, _NAMESPACE = 0x08, 0x12, 0x1A, 0x22, 0x2A, 0x30
_BLOCK = 1 << 20


class PendingGraph:
    """A graph with its ports, whose ops are not read yet."""

    __slots__ = ("count", "depth", "graph", "header", "holder", "jump", "ops", "values")

    def __init__(self, graph: Graph, header: messages.Graph, ops: Span) -> None:
        self.graph = graph
        self.header = header
        self.ops = ops
        # All values: captures in reverse, parameters, outputs of ops.
        self.values: list[OutputPort] = []
        self.holder: PendingGraph | None = None
        self.count = 0  # number of values of the holder before this graph
        self.depth = 0
        self.jump = self  # an outer graph, for the logarithmic search

    def hold(self, inner: PendingGraph) -> None:
        """Record that `inner` is in this graph, after the values read so far."""
        inner.holder, inner.count = self, len(self.values)
        inner.depth = self.depth + 1
        far = self.jump
        even = self.depth - far.depth == far.depth - far.jump.depth
        inner.jump = far.jump if even else self

    def inside(self, outer: PendingGraph) -> PendingGraph | None:
        """The direct child of `outer` that contains this graph, or is it.

        Files may nest graphs very deeply, so this takes logarithmic time (skew-binary
        jumps, Myers 1983).
        """
        at = self
        while at.depth > outer.depth + 1:
            far = at.jump
            up = at.holder
            assert up is not None
            at = far if far.depth > outer.depth else up
        return at if at.holder is outer else None


class GraphDecoder:
    """Reads the ops of one graph."""

    def __init__(self, file: ModelDecoder, shell: PendingGraph, place: int) -> None:
        self._file = file
        self._graph = shell.graph
        self._shell = shell
        self._place = place
        self._words = file.tables.words
        self._types = file.tables.types
        self._attrs = file.attrs.values
        self._values = shell.values
        self._ops: list[Op] = []
        self._at = 0  # position of the current op

    def read(self) -> None:
        """Everything inside; the first fault is raised with its position."""
        pos, stop = self._shell.ops
        self._at = pos
        try:
            self._captures()
            self._values += self._graph.parameters
            while pos < stop:
                pos = self._op_block(pos, min(pos + _BLOCK, stop)) or self._long_op(
                    pos, stop
                )
            self._at = stop
            self._finish()
        except (AmandaError, IndexError, UnicodeDecodeError) as error:
            at = f"byte {self._at}, graph {self._place}, op {len(self._ops)}"
            raise locate_error(error, at) from error

    def _captures(self) -> None:
        """Captured values, in reverse, in front of all others."""
        found = []
        for capture in self._shell.header.captures:
            outer = self._file.shell(capture.graph)
            inner = self._shell.inside(outer)
            before = 0 if inner is None else inner.count
            at = len(outer.values) - capture.value
            known = len(outer.header.captures) <= at < len(outer.values)
            value = outer.values[at] if inner is not None and known else None
            if value is None or not (at < before or value.op.feedback):
                raise FormatError(
                    "a captured value does not stand before the graph that reads it",
                    got=f"{capture.value} back in graph {capture.graph}",
                )
            found.append(value)
        self._values += reversed(found)

    # -- ops ---------------------------------------------------------------------

    def _op_block(self, pos: int, stop: int) -> int:
        """Read the ops that are complete in a block; the position after them.

        0 if there is none: the next op is longer, or another field.
        """
        data = bytes(self._file.data[pos:stop])
        end = len(data)
        at = 0
        while at + 10 < end and data[at] == _OP_TAG:
            size = data[at + 1]
            start = at + 2
            if size > 127:
                size, start = decode_varint(data, at + 1, end, pos)
            if start + size > end:
                break
            self._at = pos + at
            at = start + size
            self._op(data, start, at, pos)
        return pos + at if at else 0

    def _long_op(self, pos: int, stop: int) -> int:
        """Read one op of any length, or skip a field of a later minor version."""
        self._at = pos
        number, kind, start, end = next(iter_fields(self._file.data, pos, stop))
        if number < OPS or (number == OPS and kind != BYTES):
            raise_at("fields of a graph in another order than by number", pos)
        if number == OPS:
            payload = bytes(self._file.data[start:end])
            self._op(payload, 0, len(payload), start)
        return end

    def _op(self, data: bytes, pos: int, stop: int, base: int) -> None:
        """Read one op; the usual fields are read inline."""
        start = pos
        name: str | None = None
        kind = space = 0
        inputs: list[OutputPort | None] = []
        outputs = b""
        attrs: list[Span] = []
        while pos < stop:
            tag, size = data[pos], data[pos + 1]
            pos += 2
            if size > 127:
                size, pos = decode_varint(data, pos - 1, stop, base)
            if tag == _TYPE:
                kind = size
            elif tag == _NAMESPACE:
                space = size
            else:
                end = pos + size
                if tag == _NAME:
                    name = str(data[pos:end], "utf-8")
                elif tag == _INPUTS:
                    inputs = self._inputs(data[pos:end], base + pos)
                elif tag == _OUTPUTS:
                    outputs = data[pos:end]
                elif tag == _ATTR:
                    attrs.append((pos, end))
                else:
                    return self._rare_op(data, start, stop, base)
                pos = end
        if pos != stop:
            raise_at("a field reaches beyond the end of its op", base + start)
        found = self._attrs(data, attrs, base) if attrs else None
        short = outputs.isascii()
        types = (
            outputs if short else unpack_varints(outputs, 0, len(outputs), base + start)
        )
        return self._add((kind, name, space), inputs, types, found)

    def _add(
        self,
        label: tuple[int, str | None, int],
        inputs: list[OutputPort | None],
        outputs: Sequence[int],
        attrs: dict[str, Any] | None,
    ) -> None:
        """Add an op; `label` is its type, name and namespace, `outputs` the types."""
        kind, name, space = label
        words, types = self._words, self._types
        op = self._graph.add(
            words[kind],
            inputs,
            attrs,
            name=name,
            outputs=len(outputs),
            namespace=words[space],
        )
        if op.type == CONSTANT:
            expect_constant(op)
        for port, number in zip(op.outputs, outputs, strict=True):
            port.type = types[number]
        self._values += op.outputs
        self._ops.append(op)

    def _inputs(self, raw: bytes, place: int) -> list[OutputPort | None]:
        """The inputs of an op: distances back in the list of values, 0 for none."""
        numbers = raw if raw.isascii() else unpack_varints(raw, 0, len(raw), place)
        values = self._values
        return [values[-back] if back else None for back in numbers]

    # -- what few ops have -------------------------------------------------------

    def _rare_op(self, data: bytes, pos: int, stop: int, base: int) -> None:
        record = messages.read(messages.Op, data, pos, stop, base)
        values = self._values
        inputs = [values[-back] if back else None for back in record.inputs]
        op = (
            self._add_subgraph(record, inputs)
            if record.graph
            else self._add_rare(record, inputs)
        )
        if record.attrs:
            op.attrs.update(self._attrs(data, record.attrs, base))
        expect_constant(op)
        if record.provenance is not None:
            op.provenance = decode_provenance(record)
        for port in record.input_ports:
            self._describe_input(op, port, data, base)
        for fact in record.output_ports:
            output = op.outputs[fact.index]
            output.name = self._words[fact.name]
            if fact.attrs:
                output.attrs.update(self._attrs(data, fact.attrs, base))
            for mark in fact.marks:
                output.mark(self._file.string(mark))
        self._signals(op, record, data, base)
        self._values += op.outputs
        self._ops.append(op)

    def _add_subgraph(
        self, record: messages.Op, inputs: list[OutputPort | None]
    ) -> Graph:
        """Add a graph as an op; the op states only its edges."""
        own = (record.type, record.name, record.outputs, record.attrs, record.bodies)
        if any(own) or record.feedback or record.namespace or record.provenance:
            raise FormatError(f"an op is graph {record.graph} and something else too")
        graph = self._hold(record.graph)
        return self._graph.add_graph(graph, inputs)

    def _hold(self, place: int) -> Graph:
        """The graph with an index in the file, as a child of this one."""
        shell = self._file.hold(place, self._place)
        self._shell.hold(shell)
        return shell.graph

    def _add_rare(self, record: messages.Op, inputs: list[OutputPort | None]) -> Op:
        bodies: dict[str, Graph] = {}
        for body in record.bodies:
            if body.name in bodies:
                raise FormatError(f"an op with two bodies {body.name!r}")
            graph = self._hold(body.graph)
            bodies[body.name] = graph
        words, types = self._words, self._types
        op = self._graph.add(
            words[record.type],
            inputs,
            name=record.name,
            outputs=len(record.outputs),
            bodies=bodies,
            namespace=words[record.namespace],
            feedback=record.feedback,
        )
        for port, number in zip(op.outputs, record.outputs, strict=True):
            port.type = types[number]
        return op

    def _describe_input(
        self, op: Op, record: messages.InputPort, data: bytes, base: int
    ) -> None:
        port = InputPort(op, record.index)
        _ = port.source  # raises where there is no such input
        if record.name:
            port.set_name(self._words[record.name])
        if record.attrs:
            port.attrs.update(self._attrs(data, record.attrs, base))
        if record.edge_attrs:
            values = self._attrs(data, record.edge_attrs, base)
            port.edge_attrs.update(values)

    def _signals(self, op: Op, record: messages.Op, data: bytes, base: int) -> None:
        """Control edges that end at an op."""
        attrs = {signal.control: signal.attrs for signal in record.signals}
        for i, back in enumerate(record.control):
            if not back:
                raise IndexError
            spans = attrs.pop(i, None)
            values = self._attrs(data, spans, base) if spans else None
            self._graph.control(self._ops[-back], op, values)
        if attrs:
            raise FormatError("attributes of a control edge that is not there")

    # -- what refers to the whole graph ------------------------------------------

    def _finish(self) -> None:
        """Connect what needs all values: late edges, results, the boundary."""
        header, graph = self._shell.header, self._graph
        values, ops = self._values, self._ops
        set_attrs = self._file.set_attrs
        for late in header.late_inputs:
            value, op = values[-late.value], ops[late.op]
            port = InputPort(op, late.input)
            if port.source is not None or not late.value:
                raise FormatError("a late input without a place for it")
            self._check_feedback(value.op, op)
            port.connect(value)
        for signal in header.late_signals:
            first, then = ops[signal.first], ops[signal.op]
            self._check_feedback(first, then)
            edge = graph.control(first, then)
            set_attrs(edge, signal.attrs)
        for i, result in enumerate(header.results):
            port = InputPort(graph, i, True)
            if result.value:
                port.connect(values[-result.value])
            if result.edge_attrs:
                data = self._file.data
                port.edge_attrs.update(self._attrs(data, result.edge_attrs, 0))
        for source in header.sources:
            set_attrs(graph.control(graph, ops[source.op]), source.attrs)
        for sink in header.sinks:
            set_attrs(graph.control(ops[sink.op], graph), sink.attrs)
        self._read_root_parts(header)

    def _read_root_parts(self, header: messages.Graph) -> None:
        for function in header.functions:
            body = self._file.hold(function.graph, self._place).graph
            self._graph.add_function(function.name, body)
        for entry in header.entries:
            if entry.name in self._graph.entries:
                raise FormatError(f"two entries {entry.name!r}")
            sides = [self._named_values(side) for side in (entry.inputs, entry.outputs)]
            self._graph.set_entry(entry.name, *sides)

    def _named_values(
        self, slots: Iterable[messages.NamedValue]
    ) -> dict[str, OutputPort]:
        found: dict[str, OutputPort] = {}
        for slot in slots:
            if slot.name in found or not slot.value:
                raise FormatError(f"an entry without, or with two, {slot.name!r}")
            found[slot.name] = self._values[-slot.value]
        return found

    def _check_feedback(self, first: Op, then: Op) -> None:
        """Refuse backward edges that would make a cycle."""
        if not first.feedback:
            raise FormatError(
                f"{then.label} waits for a later op",
                expected="ops in an order in which they can run",
                got=f"{first.label} after it, which is not feedback",
            )


def decode_provenance(record: messages.Op) -> Provenance | None:
    source = record.provenance
    return None if source is None else Provenance(tuple(source.sources), source.by)


def raise_at(message: str, place: int) -> NoReturn:
    raise FormatError(message, where=f"byte {place}")
