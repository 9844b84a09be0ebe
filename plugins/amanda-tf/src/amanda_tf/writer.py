"""A GraphDef from a graph. All that TensorFlow cannot hold is reported at once."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from amanda.errors import AmandaError, FormatError
from amanda.formatkit import MessageChunks
from amanda.graph import CONSTANT, CORE, Graph, Op, OutputPort
from amanda.tensors import Tensor
from amanda.types import DType, TensorType, Type
from amanda_tf.attributes import attribute_chunks
from amanda_tf.messages import ELEMENT_TYPES, GRAPH_RECORDS, NODE_RECORDS, SCHEMA
from amanda_tf.references import Groups, Spelling, output_groups, parse_reference

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amanda.dictionary import Dictionary

__all__ = ["graph_chunks"]


def graph_chunks(root: Graph, dictionary: Dictionary) -> MessageChunks:
    """The GraphDef of a graph, its tensors still in their files."""
    return _Writer(root, dictionary).write()


class _Writer:
    def __init__(self, root: Graph, dictionary: Dictionary) -> None:
        self.root = root
        self.dictionary = dictionary
        self.problems: list[str] = []

    def write(self) -> MessageChunks:
        root, facts = self.root, GRAPH_RECORDS.of(self.root)
        if root.parameters or root.results or root.entries:
            self.problems.append("a GraphDef has no inputs, results and entries")
        if not root.ops and not root.functions:
            self.problems.append("there are no ops in it")
        spelling = Spelling(_node_names(root).__getitem__)
        out = self._nodes(root, SCHEMA.tag("GraphDef", "node"), spelling)
        library = MessageChunks()
        for name, function in root.functions.items():
            library.append_message(
                SCHEMA.tag("FunctionDefLibrary", "function"),
                self._function(name, function),
            )
        library.append(facts.get("library_rest", b""))
        if library.size or facts.get("library"):
            out.append_message(SCHEMA.tag("GraphDef", "library"), library)
        writer = SCHEMA.writer("GraphDef")
        writer.put_if("versions", _encode_versions(facts.get("versions", b"")))
        out.append(writer.put_raw(facts.get("rest", b"")).done())
        if self.problems:
            raise FormatError(
                "TensorFlow cannot hold this graph", problems=self.problems
            )
        return out

    def _nodes(self, graph: Graph, tag: bytes, spelling: Spelling) -> MessageChunks:
        out = MessageChunks()
        order = {
            name: i for i, name in enumerate(GRAPH_RECORDS.of(graph).get("order", ()))
        }
        ops = (
            sorted(graph, key=lambda op: order.get(op.name, len(order)))
            if order
            else graph
        )
        for op in ops:
            with self._problem_of(op):
                out.append_message(tag, self._node(op, spelling))
        return out

    @contextmanager
    def _problem_of(self, op: Op) -> Iterator[None]:
        try:
            yield
        except AmandaError as error:
            got = "" if error.got is None else f" ({error.got})"
            self.problems.append(f"{op.label}: {error.message}{got}")

    def _node(self, op: Op, spelling: Spelling) -> MessageChunks:
        facts = NODE_RECORDS.of(op)
        is_constant = op.type == CONSTANT and op.own_namespace == CORE
        if op.bodies or isinstance(op, Graph) or op.type is None:
            raise FormatError("a GraphDef has no nested graphs")
        if op.own_namespace not in (None, CORE) or (
            op.own_namespace == CORE and not is_constant
        ):
            raise FormatError("an op of another namespace", got=op.own_namespace)
        inputs = spelling.inputs(op)
        recorded = facts.get("inputs")
        if recorded and _same_inputs(recorded, inputs, op.feedback):
            inputs = recorded
        writer = SCHEMA.writer("NodeDef").put("name", spelling.name_of(op))
        writer.put("op", "Const" if is_constant else op.type).put_all("input", inputs)
        out = MessageChunks(writer.put_if("device", facts.get("device")).done())
        attrs = {key: op.attrs[key] for key in op.attrs if key != NODE_RECORDS.key}
        if is_constant and isinstance(attrs.get("value"), Tensor):
            attrs = {"dtype": attrs["value"].dtype, **attrs}
        for key, value in attrs.items():
            fact = facts.get("attrs", {}).get(key, {})
            entry = MessageChunks(
                SCHEMA.writer("NodeDef.AttrEntry").put("key", key).done()
            )
            entry.append_message(
                SCHEMA.tag("NodeDef.AttrEntry", "value"), attribute_chunks(value, fact)
            )
            out.append_message(SCHEMA.tag("NodeDef", "attr"), entry)
        out.append(facts.get("rest", b""))
        return out

    def _groups_of(self, op: Op) -> Groups:
        """The outputs of an op by their names in TensorFlow."""
        recorded = NODE_RECORDS.of(op).get("outputs")
        if recorded:
            return [(str(name), int(count)) for name, count in recorded]
        function = self.root.functions.get(op.type or "")
        if function is not None:
            return [(port.name or "", 1) for port in function.outputs]
        entry = self.dictionary.get(op.type or "")
        return output_groups(entry, op.attrs) if entry else [("output", 1)]

    def _function(self, name: str, graph: Graph) -> MessageChunks:
        rest = GRAPH_RECORDS.of(graph).get("rest", b"")
        if not _describes(rest, name, graph):
            with self._problem_of(graph):
                rest = (
                    SCHEMA.writer("FunctionDef")
                    .put("signature", _signature(name, graph))
                    .done()
                )
        out = MessageChunks(rest)
        spelling = Spelling(_node_names(graph).__getitem__, self._groups_of)
        nodes = self._nodes(graph, SCHEMA.tag("FunctionDef", "node_def"), spelling)
        out.parts += nodes.parts
        out.size += nodes.size
        writer = SCHEMA.writer("FunctionDef")
        for port, value in zip(graph.outputs, graph.results, strict=True):
            with self._problem_of(graph):
                text = spelling.value(value, graph)
                entry = SCHEMA.writer("FunctionDef.RetEntry").put(
                    "key", port.name or ""
                )
                writer.put("ret", entry.put("value", text).done())
        out.append(writer.done())
        return out


def _node_names(graph: Graph) -> dict[Op, str]:
    """The name of every op; a new one where it has none."""
    names = {}
    count = 0
    for op in graph:
        name = op.name
        while not name or (name != op.name and name in graph):
            name, count = f"{op.type}_{count}", count + 1
        names[op] = name
    return names


def _same_inputs(recorded: list[str], inputs: list[str], feedback: bool) -> bool:
    """Whether inputs as they were spelled still are these.

    Control edges into an op with feedback are only in the record: they may be cycles.
    """
    values, control = _split_inputs(recorded)
    found, waits = _split_inputs(inputs)
    return values == found and (feedback or set(control) == set(waits))


def _split_inputs(inputs: list[str]) -> tuple[list[tuple[str, str, int]], list[str]]:
    control = [text for text in inputs if text.startswith("^")]
    return [parse_reference(t) for t in inputs if not t.startswith("^")], control


def _encode_versions(versions: Any) -> bytes:
    if not isinstance(versions, Mapping):
        return bytes(versions)
    writer = SCHEMA.writer("VersionDef").put_if("producer", versions.get("producer"))
    writer.put_if("min_consumer", versions.get("min_consumer"))
    return writer.put_all("bad_consumers", versions.get("bad_consumers", ())).done()


def _describes(rest: bytes, name: str, graph: Graph) -> bool:
    """Whether a recorded signature still has the name, inputs and results."""
    fields = SCHEMA.read("FunctionDef", rest)
    signature = SCHEMA.read("OpDef", rest, *fields.get("signature", (0, 0)))
    names = [
        [
            SCHEMA.read("OpDef.ArgDef", rest, *each).get("name")
            for each in signature.get(key, ())
        ]
        for key in ("input_arg", "output_arg")
    ]
    given = [
        [port.name for port in ports] for ports in (graph.parameters, graph.outputs)
    ]
    return bool(signature.get("name") == name and names == given)


def _signature(name: str, graph: Graph) -> bytes:
    """The signature of a function that no file described."""
    writer = SCHEMA.writer("OpDef").put("name", name)
    rows: list[tuple[str, OutputPort, Type | None]] = []
    rows += [("input_arg", port, port.type) for port in graph.parameters]
    for port, value in zip(graph.outputs, graph.results, strict=True):
        own = port.type if value is None else port.type or value.type
        rows.append(("output_arg", port, own))
    for field, port, type in rows:
        dtype = type.dtype if isinstance(type, TensorType) else None
        if not port.name or not isinstance(dtype, DType):
            raise FormatError("a function needs names and element types of its ports")
        arg = SCHEMA.writer("OpDef.ArgDef").put("name", port.name)
        writer.put(field, arg.put("type", ELEMENT_TYPES.code(dtype)).done())
    return writer.done()
