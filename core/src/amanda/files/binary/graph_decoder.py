"""What is inside a graph of a file, op by op.

Ops are read in blocks of a megabyte. The fields that most ops have are read in line; an
op with any other field goes through the message classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from amanda.errors import AmandaError, FormatError
from amanda.files.binary import messages
from amanda.formatkit import Span
from amanda.formatkit.wire import (
    BYTES,
    decode_varint,
    iter_fields,
    locate_error,
    unpack_varints,
)
from amanda.graph import Graph, InputPort, Op, OutputPort, Provenance

if TYPE_CHECKING:
    from amanda.files.binary.decoder import File

__all__ = ["OPS", "Body", "Shell", "bad", "provenance"]

OPS = 15  # the field of a Graph
_OP_TAG = OPS << 3 | BYTES
# The fields of an op that are read in line; a test compares them with graph.proto.
_TYPE, _NAME, _INPUTS, _OUTPUTS, _ATTR, _NAMESPACE = 0x08, 0x12, 0x1A, 0x22, 0x2A, 0x30
_BLOCK = 1 << 20


class Shell:
    """A graph that has its ports, and not yet its ops."""

    __slots__ = ("count", "depth", "graph", "header", "holder", "jump", "ops", "values")

    def __init__(self, graph: Graph, header: messages.Graph, ops: Span) -> None:
        self.graph = graph
        self.header = header
        self.ops = ops
        # What can be read in it: the captures backwards, the parameters, and so on.
        self.values: list[OutputPort] = []
        self.holder: Shell | None = None
        self.count = 0  # the values that the holder had before
        self.depth = 0
        self.jump = self  # some graph around, far enough that searches are short

    def hold(self, inner: Shell) -> None:
        """`inner` stands in this graph, behind the values that there are now."""
        inner.holder, inner.count = self, len(self.values)
        inner.depth = self.depth + 1
        far = self.jump
        even = self.depth - far.depth == far.depth - far.jump.depth
        inner.jump = far.jump if even else self

    def inside(self, outer: Shell) -> Shell | None:
        """The graph held by `outer` in which this one is, or which it is.

        Files may nest graphs as deep as they are long, so this must not take as many
        steps (Myers 1983: skew-binary jumps, logarithmic).
        """
        at = self
        while at.depth > outer.depth + 1:
            far = at.jump
            up = at.holder
            assert up is not None
            at = far if far.depth > outer.depth else up
        return at if at.holder is outer else None


class Body:
    """The inside of one graph."""

    def __init__(self, file: File, shell: Shell, place: int) -> None:
        self._file = file
        self._graph = shell.graph
        self._shell = shell
        self._place = place
        self._words = file.tables.words
        self._types = file.tables.types
        self._attrs = file.attrs.values
        self._values = shell.values
        self._ops: list[Op] = []
        self._at = 0  # where the op lies that is read now

    def read(self) -> None:
        """Everything inside; the first fault is told with its place."""
        pos, stop = self._shell.ops
        self._at = pos
        try:
            self._captures()
            self._values += self._graph.parameters
            while pos < stop:
                pos = self._block(pos, min(pos + _BLOCK, stop)) or self._long(pos, stop)
            self._at = stop
            self._end()
        except (AmandaError, IndexError, UnicodeDecodeError) as error:
            at = f"byte {self._at}, graph {self._place}, op {len(self._ops)}"
            raise locate_error(error, at) from error

    def _captures(self) -> None:
        """Values of graphs around, in the list before all others, backwards."""
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

    def _block(self, pos: int, stop: int) -> int:
        """Read the ops that lie whole in a block; where the next one begins.

        0 if there is none, for it may be longer, or no op at all.
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

    def _long(self, pos: int, stop: int) -> int:
        """Read one op of any length, or skip a field of a later minor version."""
        self._at = pos
        number, kind, start, end = next(iter_fields(self._file.data, pos, stop))
        if number < OPS or (number == OPS and kind != BYTES):
            bad("fields of a graph in another order than by number", pos)
        if number == OPS:
            payload = bytes(self._file.data[start:end])
            self._op(payload, 0, len(payload), start)
        return end

    def _op(self, data: bytes, pos: int, stop: int, base: int) -> None:
        """One op. What most ops have is read here, in line."""
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
                    return self._rare(data, start, stop, base)
                pos = end
        if pos != stop:
            bad("a field reaches beyond the end of its op", base + start)
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
        """The op of this type, name and namespace; `outputs` are types."""
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
        for port, number in zip(op.outputs, outputs, strict=True):
            port.type = types[number]
        self._values += op.outputs
        self._ops.append(op)

    def _inputs(self, raw: bytes, place: int) -> list[OutputPort | None]:
        """The values that an op reads: each so many back, 0 for none."""
        numbers = raw if raw.isascii() else unpack_varints(raw, 0, len(raw), place)
        values = self._values
        return [values[-back] if back else None for back in numbers]

    # -- what few ops have -------------------------------------------------------

    def _rare(self, data: bytes, pos: int, stop: int, base: int) -> None:
        told = messages.read(messages.Op, data, pos, stop, base)
        values = self._values
        inputs = [values[-back] if back else None for back in told.inputs]
        op = self._held(told, inputs) if told.graph else self._made(told, inputs)
        if told.attrs:
            op.attrs.update(self._attrs(data, told.attrs, base))
        if told.provenance is not None:
            op.provenance = provenance(told)
        for port in told.input_ports:
            self._describe_input(op, port, data, base)
        for fact in told.output_ports:
            output = op.outputs[fact.index]
            output.name = self._words[fact.name]
            if fact.attrs:
                output.attrs.update(self._attrs(data, fact.attrs, base))
            for mark in fact.marks:
                output.mark(self._file.word(mark))
        self._signals(op, told, data, base)
        self._values += op.outputs
        self._ops.append(op)

    def _held(self, told: messages.Op, inputs: list[OutputPort | None]) -> Graph:
        """A graph as an op. It tells of itself, and the op only how it is wired."""
        own = (told.type, told.name, told.outputs, told.attrs, told.bodies)
        if any(own) or told.feedback or told.namespace or told.provenance:
            raise FormatError(f"an op is graph {told.graph} and something else too")
        graph = self._hold(told.graph)
        return self._graph.add_graph(graph, inputs)

    def _hold(self, place: int) -> Graph:
        """The graph at a place of the file, to be held here."""
        shell = self._file.hold(place, self._place)
        self._shell.hold(shell)
        return shell.graph

    def _made(self, told: messages.Op, inputs: list[OutputPort | None]) -> Op:
        bodies: dict[str, Graph] = {}
        for body in told.bodies:
            if body.name in bodies:
                raise FormatError(f"an op with two bodies {body.name!r}")
            graph = self._hold(body.graph)
            bodies[body.name] = graph
        words, types = self._words, self._types
        op = self._graph.add(
            words[told.type],
            inputs,
            name=told.name,
            outputs=len(told.outputs),
            bodies=bodies,
            namespace=words[told.namespace],
            feedback=told.feedback,
        )
        for port, number in zip(op.outputs, told.outputs, strict=True):
            port.type = types[number]
        return op

    def _describe_input(
        self, op: Op, told: messages.InputPort, data: bytes, base: int
    ) -> None:
        port = InputPort(op, told.index)
        _ = port.source  # raises where there is no such input
        if told.name:
            port.set_name(self._words[told.name])
        if told.attrs:
            port.attrs.update(self._attrs(data, told.attrs, base))
        if told.edge_attrs:
            values = self._attrs(data, told.edge_attrs, base)
            port.edge_attrs.update(values)

    def _signals(self, op: Op, told: messages.Op, data: bytes, base: int) -> None:
        """Control edges that end at an op."""
        attrs = {signal.control: signal.attrs for signal in told.signals}
        for i, back in enumerate(told.control):
            if not back:
                raise IndexError
            spans = attrs.pop(i, None)
            values = self._attrs(data, spans, base) if spans else None
            self._graph.control(self._ops[-back], op, values)
        if attrs:
            raise FormatError("attributes of a control edge that is not there")

    # -- what refers to the whole graph ------------------------------------------

    def _end(self) -> None:
        """What can be made when all values are there."""
        header, graph = self._shell.header, self._graph
        values, ops = self._values, self._ops
        fill = self._file.fill
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
            fill(edge, signal.attrs)
        for i, result in enumerate(header.results):
            port = InputPort(graph, i, True)
            if result.value:
                port.connect(values[-result.value])
            if result.edge_attrs:
                data = self._file.data
                port.edge_attrs.update(self._attrs(data, result.edge_attrs, 0))
        for source in header.sources:
            fill(graph.control(graph, ops[source.op]), source.attrs)
        for sink in header.sinks:
            fill(graph.control(ops[sink.op], graph), sink.attrs)
        self._root_only(header)

    def _root_only(self, header: messages.Graph) -> None:
        for function in header.functions:
            body = self._file.hold(function.graph, self._place).graph
            self._graph.add_function(function.name, body)
        for entry in header.entries:
            if entry.name in self._graph.entries:
                raise FormatError(f"two entries {entry.name!r}")
            sides = [self._slots(side) for side in (entry.inputs, entry.outputs)]
            self._graph.set_entry(entry.name, *sides)

    def _slots(self, slots: Iterable[messages.Slot]) -> dict[str, OutputPort]:
        found: dict[str, OutputPort] = {}
        for slot in slots:
            if slot.name in found or not slot.value:
                raise FormatError(f"an entry without, or with two, {slot.name!r}")
            found[slot.name] = self._values[-slot.value]
        return found

    def _check_feedback(self, first: Op, then: Op) -> None:
        """An edge that runs backwards is how a file would make a cycle."""
        if not first.feedback:
            raise FormatError(
                f"{then.label} waits for a later op",
                expected="ops in an order in which they can run",
                got=f"{first.label} after it, which is not feedback",
            )


def provenance(told: messages.Op) -> Provenance | None:
    source = told.provenance
    return None if source is None else Provenance(tuple(source.sources), source.by)


def bad(message: str, place: int) -> NoReturn:
    raise FormatError(message, where=f"byte {place}")
