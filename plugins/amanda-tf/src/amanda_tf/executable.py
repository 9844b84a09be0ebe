"""A graph that TensorFlow runs: a GraphDef imported into a function."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from hashlib import sha256
from time import perf_counter
from typing import Any

import numpy as np

import amanda
from amanda.backend import Profile
from amanda.errors import BackendError
from amanda.graph import Graph
from amanda.types import DType, TensorType
from amanda_tf.backend import import_tensorflow
from amanda_tf.derived_attributes import add_derived_attributes, element_type
from amanda_tf.graphdef import graph_chunks
from amanda_tf.loading.interface import drop_colocations, forget_files
from amanda_tf.mapping.unused_ops import remove_unused
from amanda_tf.mapping.variables.reference_variables import (
    REFERENCE_VARIABLES,
    use_resource_variables,
)
from amanda_tf.nodes.names import node_names
from amanda_tf.notes import CONTROL_OUTPUT, TABLE_KEYS, VALUE
from amanda_tf.variable_state import VariableState, make_table

__all__ = [
    "TensorFlowExecutable",
    "device_name",
    "graph_definition",
    "with_plain_ports",
]


def make_function_names_unique(definition: Any) -> None:
    """Add a digest of the library to the names of its functions.

    TensorFlow has one library for all graphs of a process.
    """
    library = definition.library
    digest = sha256(library.SerializeToString(deterministic=True)).hexdigest()[:16]
    names = {f.signature.name: f"{f.signature.name}_{digest}" for f in library.function}
    for function in library.function:
        function.signature.name = names[function.signature.name]
    for gradient in library.gradient:
        gradient.function_name = names[gradient.function_name]
        gradient.gradient_func = names[gradient.gradient_func]
    nodes = [*definition.node, *(n for f in library.function for n in f.node_def)]
    for node in nodes:
        node.op = names.get(node.op, node.op)
        for attr in node.attr.values():
            named = [attr.func] if attr.HasField("func") else attr.list.func
            for each in named:
                each.name = names.get(each.name, each.name)


class TensorFlowExecutable:
    """Thread-safe, as TensorFlow's functions are."""

    mapped_files = ()
    """The function holds copies of all weights."""

    def __init__(self, graph: Graph, device: str | None = None) -> None:
        self._graph = _with_resource_variables(graph.clone())
        self._device = device
        self._untyped = [element_type(p.type) is None for p in graph.parameters]
        self._functions: dict[tuple[str, ...], Any] = {}
        handles = any(op.type == "VarHandleOp" for op in self._graph)
        self.state = VariableState(self._graph) if handles else None
        self._tables = {
            op.name: make_table(op)
            for op in self._graph
            if op.type == "HashTableV2" and TABLE_KEYS in op.attrs
        }
        if not any(self._untyped):
            self._functions[()] = self._load(self._graph)

    def _load(self, graph: Graph) -> Any:
        """The function of TensorFlow for a graph whose inputs have element types."""
        tf = import_tensorflow()
        copy = with_plain_ports(graph)
        names = [port.name for port in copy.parameters]
        labels = node_names(copy, results=True)
        handles = {
            f"{labels[op]}:0": self.state.handle(op)
            for op in copy
            if op.type == "VarHandleOp" and self.state is not None
        }
        for op in copy:
            if op.name in self._tables:
                handles[f"{labels[op]}:0"] = self._tables[op.name]
        effects = [labels[op] for op in copy if CONTROL_OUTPUT in op.attrs]
        definition = graph_definition(copy)
        make_function_names_unique(definition)

        def load() -> None:
            with tf.device(device_name(self._device)):
                capture = tf.compat.v1.get_default_graph().capture
                inputs = {name: capture(handle) for name, handle in handles.items()}
                tf.compat.v1.import_graph_def(definition, inputs, name="")

        try:
            wrapped = tf.compat.v1.wrap_function(load, [])
            return wrapped.prune(
                [wrapped.graph.get_tensor_by_name(f"{name}:0") for name in names],
                [
                    wrapped.graph.get_tensor_by_name(f"amanda_result_{i}:0")
                    for i in range(len(copy.outputs))
                ]
                + [wrapped.graph.get_operation_by_name(name) for name in effects],
            )
        except (tf.errors.OpError, ValueError, KeyError, TypeError) as error:
            raise BackendError(
                f"TensorFlow {tf.__version__} does not load the graph",
                got=_reason(error),
            ) from error

    def _function_of(self, values: Sequence[Any]) -> Any:
        """The function for the element types of these feeds."""
        rows = zip(values, self._untyped, strict=True)
        key = tuple(str(DType.of(value)) for value, untyped in rows if untyped)
        if key not in self._functions:
            self._functions[key] = self._load(self._typed_graph(values))
        return self._functions[key]

    def _typed_graph(self, values: Sequence[Any]) -> Graph:
        """The graph, with the element types of these feeds."""
        if not any(self._untyped):
            return self._graph
        graph = self._graph.clone()
        for port, value in zip(graph.parameters, values, strict=True):
            if element_type(port.type) is None:
                port.type = TensorType(DType.of(value))
        add_derived_attributes(graph, _dictionary(graph))
        return graph

    def profile(self, feeds: Mapping[Any, Any]) -> Profile:
        """The time of each op, as a session of TensorFlow traces it."""
        from amanda_tf.profiling import profile_graph

        if self.state is not None or self._tables:
            raise BackendError(
                "the ops of a graph with variables or tables are not timed",
                who="backend 'tensorflow'",
                hint="`amanda run FILE --load-option variables=freeze` freezes them; "
                "the backend numpy times ops, `--repeat N` whole calls",
            )
        arrays = [_as_bytes(value) for value in feeds.values()]
        if not any(CONTROL_OUTPUT in op.attrs for op in self._graph):
            self(feeds)  # the first call optimizes the graph
        start = perf_counter()
        results = self(feeds)
        call = perf_counter() - start
        graph = with_plain_ports(self._typed_graph(arrays))
        try:
            ops = profile_graph(graph, arrays, self._device)
        except import_tensorflow().errors.OpError as error:
            raise BackendError(
                "TensorFlow cannot run the graph", got=_reason(error)
            ) from error
        return Profile("each op as TensorFlow traces it", ops, call, results)

    def __call__(
        self, feeds: Mapping[Any, Any], out: Mapping[Any, Any] | None = None
    ) -> Sequence[Any]:
        """Run with checked feeds in the order of the inputs; results in their order."""
        del out
        tf = import_tensorflow()
        arrays = [_as_bytes(value) for value in feeds.values()]
        call = self._function_of(arrays)
        try:
            found = call(*(tf.constant(array) for array in arrays))
        except tf.errors.OpError as error:
            raise BackendError(
                "TensorFlow cannot run the graph", got=_reason(error)
            ) from error
        found = found if isinstance(found, list | tuple) else [found]
        found = found[: len(self._graph.outputs)]  # then what only has effects
        return [_as_text(np.asarray(value.numpy())) for value in found]


def with_plain_ports(graph: Graph) -> Graph:
    """A copy whose inputs and results have names that no op has."""
    copy = graph.clone()
    for i, port in enumerate(copy.outputs):
        port.name = f"amanda_result_{i}"
    for i, port in enumerate(copy.parameters):
        port.name = f"amanda_input_{i}"
    forget_files(copy)
    drop_colocations(copy)  # with the names that placeholders had
    return copy


def graph_definition(graph: Graph) -> Any:
    """The GraphDef of a graph, as a message of TensorFlow."""
    definition = import_tensorflow().compat.v1.GraphDef()
    definition.ParseFromString(_serialize(graph))
    return definition


def device_name(device: str | None) -> str:
    """A device as TensorFlow names it."""
    kind, _, number = (device or "cpu").partition(":")
    return f"/device:{kind.upper()}:{number or 0}"


def _as_bytes(value: Any) -> Any:
    array = np.asarray(value)
    return array.astype(object) if array.dtype.kind in "SU" else array


def _as_text(array: Any) -> Any:
    """Strings, which TensorFlow returns as bytes."""
    if array.dtype.kind not in "OS":
        return array
    flat = [each.decode() if isinstance(each, bytes) else each for each in array.flat]
    return np.array(flat, object).reshape(array.shape)


def _reason(error: BaseException) -> str:
    """What an error says, without the places in graphs that it lists."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    for line in lines:
        if line.startswith("[[{{") or " [Op:" in line:
            continue
        if "{{node" in line or not line.startswith(_PLACES):
            return line
    return repr(error)


_PLACES = (
    "Graph execution error",
    "Detected at",
    "File ",
    "<stack traces",
    "(0)",
    "(1)",
)


def _with_resource_variables(graph: Graph) -> Graph:
    """The graph, with values in its variables of TensorFlow 1."""
    if any(op.type in REFERENCE_VARIABLES and VALUE in op.attrs for op in graph):
        remove_unused(graph)
        use_resource_variables(graph, _dictionary(graph))
        drop_colocations(graph)
        for op in graph:
            if op.type == "VarHandleOp":  # those were of the value
                op.attrs.pop("_output_shapes", None)
    return graph


def _serialize(graph: Graph) -> bytes:
    out = io.BytesIO()
    graph_chunks(graph, _dictionary(graph)).write(out)
    return out.getvalue()


def _dictionary(graph: Graph) -> Any:
    return amanda.namespace(graph.namespace or "tensorflow")
