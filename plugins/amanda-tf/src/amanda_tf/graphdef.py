"""A frozen graph of TensorFlow (GraphDef, `.pb`) as a graph of ours.

    graph = read_graph(path.read_bytes())

A node is an op under its own name; `Const` is a constant of the core, whose elements
stay where they are. What there is no place for in a graph is kept among the attributes,
under names that no attribute of TensorFlow has: `_node:device`, `_node:rest`. Libraries
of functions are refused: reading a part of a model would be reading another model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from amanda.errors import FormatError
from amanda.formatkit.wire import iter_fields
from amanda.graph import Graph, Op, OutputPort, bulk
from amanda.tensors import Tensor
from amanda.types import DType, RefType, TensorType, Type
from amanda_tf.messages import Node, nodes

if TYPE_CHECKING:
    from amanda.dictionary import Dictionary, OpDef

__all__ = ["read_graph"]

_LIBRARY: Final = 2


def read_graph(data: bytes | memoryview, dictionary: Dictionary) -> Graph:
    """The nodes of a serialized GraphDef, as ops of the version that is given."""
    view = memoryview(data).cast("B").toreadonly()
    for number, _, start, end in iter_fields(view):
        if number == _LIBRARY and end > start:
            raise FormatError(
                "a graph with functions, which this version does not read",
                where=f"byte {start}",
                hint="freeze the model: that inlines them",
            )
    with bulk():
        return _Reader(dictionary, list(nodes(view))).read()


class _Reader:
    def __init__(self, dictionary: Dictionary, found: list[Node]) -> None:
        self.dictionary = dictionary
        self.nodes = found
        self.graph = Graph(dictionary.name)
        self.ops: dict[str, Op] = {}

    def read(self) -> Graph:
        with self.graph.wiring():
            for node in self.nodes:
                if node.name in self.ops:
                    raise FormatError("two nodes of one name", who=repr(node.name))
                self.ops[node.name] = self._made(node)
            for node in self.nodes:
                self._connect(node)
        for node in self.nodes:
            op = self.ops[node.name]
            for text in node.inputs:
                if text.startswith("^") and not op.feedback:
                    self.graph.control(self._op(text[1:], node), op)
        return self.graph

    def _made(self, node: Node) -> Op:
        if node.type == "Const" and isinstance(node.attrs.get("value"), Tensor):
            op = self.graph.constant(node.attrs["value"], node.name)
            op.output.type = node.attrs["value"].type_with_content()
            kept = {k: v for k, v in node.attrs.items() if k not in ("value", "dtype")}
        else:
            op = self._plain(node)
            kept = {}
        if node.device:
            kept["_node:device"] = node.device
        if node.rest:
            kept["_node:rest"] = node.rest
        if kept:
            op.attrs.update(kept)
        return op

    def _plain(self, node: Node) -> Op:
        entry = self.dictionary.get(node.type)
        types = [] if entry is None else list(_output_types(entry, node.attrs))
        count = self._read_of(node) if entry is None else len(types)
        op = self.graph.add(
            node.type,
            [None] * sum(not text.startswith("^") for text in node.inputs),
            node.attrs,
            name=node.name,
            outputs=count,
            feedback=entry is not None and entry.feedback,
        )
        for port, type in zip(op.outputs, types, strict=False):
            port.type = type
        return op

    def _read_of(self, node: Node) -> int:
        """The outputs of an op that nobody knows: as many as there are users for."""
        read = [_split(text) for each in self.nodes for text in each.inputs]
        return max((index + 1 for name, index in read if name == node.name), default=1)

    def _connect(self, node: Node) -> None:
        op = self.ops[node.name]
        data = [text for text in node.inputs if not text.startswith("^")]
        for place, text in enumerate(data):
            op.input_ports[place].connect(self._value(text, node))

    def _value(self, text: str, node: Node) -> OutputPort:
        name, index = _split(text)
        outputs = self._op(name, node).outputs
        if index >= len(outputs):
            raise FormatError(
                f"{node.name!r} reads what {name!r} does not give",
                expected=f"one of {len(outputs)} outputs",
                got=text,
            )
        return outputs[index]

    def _op(self, name: str, node: Node) -> Op:
        found = self.ops.get(name)
        if found is None:
            raise FormatError(f"{node.name!r} reads {name!r}, which is not there")
        return found


def _split(text: str) -> tuple[str, int]:
    """A node and the number of its output.

    >>> _split("a:1"), _split("a")
    (('a', 1), ('a', 0))
    """
    name, colon, index = text.rpartition(":")
    if not colon:
        return text, 0
    if not (index.isascii() and index.isdigit() and len(index) < 9):
        raise FormatError("this is no output of a node", got=repr(text))
    return name, int(index)


def _output_types(entry: OpDef, attrs: Mapping[str, Any]) -> Iterator[Type | None]:
    """The type of each output, as far as attributes say."""
    known = {**{a.name: a.default for a in (*entry.attrs, *entry.variables)}, **attrs}
    for port in entry.outputs:
        told = known.get(port.type) if isinstance(port.type, str) else port.type
        each = list(told) if isinstance(told, list | tuple) else [told]
        times = known.get(port.number) if port.number else 1
        for dtype in each * (times if isinstance(times, int) else 1):
            type = TensorType(dtype) if isinstance(dtype, DType) else None
            yield RefType(type) if port.ref and type is not None else type
