"""The GraphDef as a whole: root graph, versions and function library, both ways.

Functions of the library are functions of the root graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from amanda.errors import FormatError
from amanda.formatkit import MessageChunks, MessageFile, Span, file_errors, raise_at
from amanda.graph import Graph, Op, OutputPort, bulk
from amanda.types import DType, TensorType, Type
from amanda_tf.loading.interface import parameter_node
from amanda_tf.messages import ELEMENT_TYPES, GRAPH_RECORDS, NODE_RECORDS, SCHEMA
from amanda_tf.nodes.kinds import NodeKinds
from amanda_tf.nodes.names import node_names
from amanda_tf.nodes.reader import GraphReader
from amanda_tf.nodes.references import Groups, Spelling, output_groups
from amanda_tf.nodes.writer import NamedNode, NodeWriter

if TYPE_CHECKING:
    from amanda.dictionary import Dictionary

__all__ = [
    "FunctionNode",
    "FunctionReader",
    "functions_that_mention",
    "graph_chunks",
    "names_of_mentioning",
    "read_graph",
]


_NEW_VERSIONS = {"producer": 27}
"""The version of graphs that no file had: of older ones than 24, TensorFlow takes
placeholders of scalars for ones of any shape."""


def read_graph(
    file: MessageFile, dictionary: Dictionary, span: Span | None = None
) -> Graph:
    """The graph of a GraphDef, which may be a part of a file.

    Its ops are of the dictionary's version.
    """
    whole = span or (0, len(file.data))
    fields = SCHEMA.read("GraphDef", file.data, *whole)
    if "node" not in fields and "library" not in fields:
        raise_at("no nodes in it, so this is not a GraphDef", whole[1])
    root = Graph(dictionary.name)
    with bulk():
        library = fields.get("library", (0, 0))
        kinds = NodeKinds(file, dictionary)
        functions = _read_library(root, library, kinds)
        GraphReader(root, kinds, functions).read(fields.get("node", []))
    rest = file.data, whole
    GRAPH_RECORDS.add(
        root,
        versions=_read_versions(file, fields.get("versions", (0, 0))),
        library="library" in fields,
        library_rest=SCHEMA.raw_fields(
            "FunctionDefLibrary", file.data, library, without=["function"]
        ),
        rest=SCHEMA.raw_fields(
            "GraphDef", *rest, without=["node", "library", "versions"]
        ),
    )
    return root


def _read_versions(file: MessageFile, span: Span) -> Any:
    """A VersionDef as a dict, or as bytes where that does not hold all of it.

    Nothing for that of graphs that no file had, producer 0 where there is none."""
    fields = SCHEMA.read("VersionDef", file.data, *span)
    if fields == _NEW_VERSIONS or span[0] == span[1]:
        return {} if fields else {"producer": 0}
    known = fields.keys() <= {"producer", "min_consumer", "bad_consumers"}
    return fields if known and fields else bytes(file.data[span[0] : span[1]])


def _read_library(root: Graph, span: Span, kinds: NodeKinds) -> dict[str, Groups]:
    """Add all functions, each to be read on first use; the outputs of each by name."""
    file = kinds.file
    library = SCHEMA.read("FunctionDefLibrary", file.data, *span)
    outputs: dict[str, Groups] = {}
    for at in library.get("function", []):
        fields = SCHEMA.read("FunctionDef", file.data, *at)
        signature = SCHEMA.read("OpDef", file.data, *fields.get("signature", (0, 0)))
        name = signature.get("name", "")
        if not name or name in root.functions:
            raise_at("a function without a name of its own", at[0], got=repr(name))
        results = [_read_arg(file, each) for each in signature.get("output_arg", [])]
        outputs[name] = [(each.get("name", ""), 1) for each in results]
        inputs = signature.get("input_arg", [])
        read = FunctionReader(kinds, outputs, name, at, fields, inputs)
        root.defer_function(name, read)
    return outputs


class FunctionNode(NamedTuple):
    """A node of a function that is yet to be read."""

    name: str
    op: str
    inputs: list[str]
    attrs: Callable[[], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class FunctionReader:
    """Reads a function of the library when it is needed."""

    kinds: NodeKinds
    outputs: Mapping[str, Groups]
    name: str
    span: Span
    fields: dict[str, Any]
    inputs: list[Span]

    def mentions(self, text: str) -> bool:
        """Whether a text, such as an op type, is anywhere in the function but in its
        signature, which has its own name."""
        (start, end), data = self.span, self.kinds.file.data
        left, right = self.fields.get("signature", (end, end))
        parts = data[start:left], data[right:end]
        return any(text.encode() in bytes(part) for part in parts)

    def nodes(self) -> Iterator[FunctionNode]:
        """Its nodes as they stand in the file, for those who need a few of them."""
        for span in self.fields.get("node_def", []):
            node = SCHEMA.read("NodeDef", self.kinds.file.data, *span)
            yield FunctionNode(
                node.get("name", ""), node.get("op", ""), node.get("input", []),
                partial(self._attrs, node),
            )  # fmt: skip

    def _attrs(self, node: Mapping[str, Any]) -> dict[str, Any]:
        name, spans = node.get("name", ""), node.get("attr", [])
        return self.kinds.kind_of(name, node.get("op", ""), spans).copy_attrs()

    def argument_names(self) -> list[str]:
        """The names of its arguments, as nodes refer to them."""
        args = [_read_arg(self.kinds.file, each) for each in self.inputs]
        return [arg.get("name", "") for arg in args]

    def __call__(self) -> Graph:
        """The function as a graph."""
        file = self.kinds.file
        path = None if file.file is None else file.file.path
        with file_errors(path), bulk():
            graph = Graph(self.kinds.dictionary.name, self.name)
            self._read_nodes(graph)
            rest = SCHEMA.raw_fields(
                "FunctionDef", file.data, self.span, without=["node_def", "ret"]
            )
            GRAPH_RECORDS.add(graph, rest=rest)
            return graph

    def _read_nodes(self, graph: Graph) -> None:
        file = self.kinds.file
        reader = GraphReader(graph, self.kinds, self.outputs)
        for each in self.inputs:
            arg = _read_arg(file, each)
            dtype = ELEMENT_TYPES.dtypes.get(arg.get("type", -1))
            port = graph.parameter(
                None if dtype is None else TensorType(dtype), arg.get("name")
            )
            reader.add_parameter(arg.get("name", ""), port)
        reader.read(self.fields.get("node_def", []))
        entries = [
            SCHEMA.read("FunctionDef.RetEntry", file.data, *each)
            for each in self.fields.get("ret", [])
        ]
        returned = {each.get("key", ""): each.get("value", "") for each in entries}
        for name, _ in self.outputs[self.name]:
            graph.result(reader.value(returned.get(name, ""), f"result {name!r}"), name)


def functions_that_mention(root: Graph, text: str) -> Iterator[Graph]:
    """The functions that have an op type or a name of a function in them; functions
    that were read before are not searched."""
    return (root.functions[name] for name in names_of_mentioning(root, text))


def names_of_mentioning(root: Graph, text: str) -> Iterator[str]:
    """The names of these functions, which are not read."""
    for name in root.functions:
        reader = root.deferred_functions.get(name)
        if not isinstance(reader, FunctionReader) or reader.mentions(text):
            yield name


def _read_arg(file: MessageFile, span: Span) -> dict[str, Any]:
    return SCHEMA.read("OpDef.ArgDef", file.data, *span)


# -- writing -----------------------------------------------------------------------


def graph_chunks(
    root: Graph, dictionary: Dictionary, *, results: bool = True
) -> MessageChunks:
    """The GraphDef of a graph; all that it cannot hold is reported at once.

    With `results`, they are nodes under their names. Entries and the values of
    variables are left to what is around it.
    """
    return _Writer(root, dictionary, results).write()


class _Writer:
    def __init__(self, root: Graph, dictionary: Dictionary, results: bool) -> None:
        self.root = root
        self.dictionary = dictionary
        self.nodes = NodeWriter(dictionary)
        self.results = results

    def write(self) -> MessageChunks:
        root, facts = self.root, GRAPH_RECORDS.of(self.root)
        if not (root.ops or root.functions or root.parameters):
            self.nodes.problems.append("there are no ops in it")
        names = node_names(root, results=self.results)
        spelling = Spelling(names.__getitem__, None, parameter_node)
        nodes = [*self.nodes.placeholders(root), *self.nodes.nodes(root, spelling)]
        if self.results:
            nodes += self.nodes.results(root, spelling)
        out = MessageChunks()
        tag = SCHEMA.tag("GraphDef", "node")
        for _, node in _in_order(nodes, facts.get("order", ())):
            out.append_message(tag, node)
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
        versions = _encode_versions(facts.get("versions", _NEW_VERSIONS))
        writer.put_if("versions", versions)
        out.append(writer.put_raw(facts.get("rest", b"")).done())
        if self.nodes.problems:
            raise FormatError(
                "TensorFlow cannot hold this graph", problems=self.nodes.problems
            )
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
            with self.nodes.problem_of(graph):
                rest = (
                    SCHEMA.writer("FunctionDef")
                    .put("signature", _signature(name, graph))
                    .done()
                )
        names = node_names(graph)
        out = MessageChunks(_with_control_results(rest, {*names.values()}))
        spelling = Spelling(names.__getitem__, self._groups_of)
        tag = SCHEMA.tag("FunctionDef", "node_def")
        order = GRAPH_RECORDS.of(graph).get("order", ())
        for _, node in _in_order(self.nodes.nodes(graph, spelling), order):
            out.append_message(tag, node)
        writer = SCHEMA.writer("FunctionDef")
        for port, value in zip(graph.outputs, graph.results, strict=True):
            with self.nodes.problem_of(graph):
                text = spelling.value(value, graph)
                entry = SCHEMA.writer("FunctionDef.RetEntry").put(
                    "key", port.name or ""
                )
                writer.put("ret", entry.put("value", text).done())
        out.append(writer.done())
        return out


def _in_order(nodes: Iterable[NamedNode], order: Sequence[str]) -> Iterable[NamedNode]:
    """Nodes in a recorded order of names; others behind them."""
    if not order:
        return nodes
    places = {name: place for place, name in enumerate(order)}
    return sorted(nodes, key=lambda node: places.get(node[0], len(places)))


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


def _with_control_results(rest: bytes, names: set[str]) -> bytes:
    """A recorded description, in which only nodes that still exist must run."""
    fields = SCHEMA.read("FunctionDef", rest)
    entries = [
        (SCHEMA.read("FunctionDef.ControlRetEntry", rest, *span), span)
        for span in fields.get("control_ret", ())
    ]
    kept = [
        (entry.get("key", ""), span)
        for entry, span in entries
        if entry.get("value", "") in names
    ]
    if len(kept) == len(entries):
        return rest
    span = fields.get("signature", (0, 0))
    signature = SCHEMA.raw_fields("OpDef", rest, span, without=["control_output"])
    marks = SCHEMA.writer("OpDef").put_all("control_output", [key for key, _ in kept])
    whole = (0, len(rest))
    left = SCHEMA.raw_fields(
        "FunctionDef", rest, whole, without=["signature", "control_ret"]
    )
    writer = SCHEMA.writer("FunctionDef").put("signature", signature + marks.done())
    for _, (start, end) in kept:
        writer.put("control_ret", rest[start:end])
    return bytes(left + writer.done())


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
