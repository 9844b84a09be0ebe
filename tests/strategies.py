"""Random graphs and what they are made of, for property tests of every room.

    @given(graphs())
    def test_round_trip(graph): ...

Every kind of thing that a graph can hold is drawn: nested graphs, bodies, captures,
control edges, functions, entries, marks, provenance, types and attributes of all kinds.
Small graphs come first, so failures shrink well.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
from hypothesis import strategies as st

from amanda.graph import Graph, Op, OutputPort, Parameter, Provenance
from amanda.tensors import FunctionRef, Tensor
from amanda.types import (
    DType,
    MapType,
    OpaqueType,
    OptionalType,
    Quantized,
    RefType,
    ResourceType,
    SequenceType,
    Shape,
    Sym,
    TensorType,
    TokenType,
    TupleType,
    Type,
    VoidType,
)

__all__ = ["attr_values", "dims", "graphs", "names", "tensors", "texts", "types"]

ODD_NAMES = [
    "a", "b", "x", "conv1/kernel", "layer1.0.weight", "graph", "0", "10", "-1", "",
    "^control", "a b", "../x", ".x", "a.", "a -> b", "a->b", "->", "no", "null", "1e5",
    "true", "~", "#", "x: y", "x #y", "{", "[", "]", "$x", "$$x", "$dtype", "%x", "x#1",
    "é", "名", "\n", "\t", "\x00", "\x85", "\u2028", "\ufeff", "\U0001f600", '"', "\\",
    "'", "attrs", "name", "type", "marks", "ops", "x-note", "_", "up", "op", "port",
]  # fmt: skip

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
names = st.sampled_from(ODD_NAMES) | texts
op_types = (
    st.sampled_from(["Relu", "MatMul", "If", "aten::t", "a.b/c", "_", ""]) | names
)
namespaces = st.sampled_from(["amanda/std/1", "amanda/onnx/18"]) | texts

STORED = [
    "bool", "int2", "int4", "int8", "int16", "int32", "int64", "uint4", "uint8",
    "uint16", "uint64", "float16", "float32", "float64", "bfloat16", "complex64",
    "complex128", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn", "float6_e2m3fn",
]  # fmt: skip
_ALL = st.sampled_from([*STORED, "string", "unknown", "resource", "qint8"])
dtypes = (st.sampled_from(["float32", "unknown", "int64"]) | _ALL).map(DType)
_POOL = [Sym.unknown() for _ in range(3)]  # dims without a name that occur repeatedly


def examples(count: int) -> int:
    """So many examples of a property; at most half of AMANDA_FUZZ_ROUNDS."""
    return min(count, int(os.environ.get("AMANDA_FUZZ_ROUNDS", 2 * count)) // 2)


@st.composite
def dims(draw: Any) -> int | Sym:
    """Numbers, named and unnamed symbols, and expressions over them."""
    symbols = st.sampled_from(["n", "batch", "batch size", "min"]).map(Sym.named)
    dim = draw(
        st.integers(0, 2**63 - 1) | symbols | st.sampled_from(_POOL) | st.just(4)
    )
    for _ in range(draw(st.integers(0, 2)) if isinstance(dim, Sym) else 0):
        # two unnamed symbols in one expression have no order that texts could keep
        other = draw(symbols | st.integers(1, 9))
        dim = draw(st.sampled_from(["+", "*", "//", "%"]).map(_OPERATIONS.get))(
            dim, other
        )
        if not isinstance(dim, Sym):
            break
    return dim if isinstance(dim, Sym) else abs(dim)


_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // (b + 1),
    "%": lambda a, b: a % (b + 1),
}

shapes = st.lists(dims(), max_size=4).map(Shape) | st.just(Shape(None))
quantized = st.builds(
    Quantized,
    st.sampled_from(["int8", "uint8", "int4"]),
    st.sampled_from(["float32", "bfloat16"]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-8, 7),
) | st.builds(
    lambda scales: Quantized("int8", "float32", scales, [0] * len(scales), axis=1),
    st.lists(st.floats(0.1, 9), min_size=1, max_size=3),
)


@st.composite
def tensor_types(draw: Any) -> TensorType:
    dtype = draw(dtypes | quantized)
    shape = draw(shapes)
    kind = draw(st.integers(0, 3))
    if kind == 0 and shape.has_rank:
        axes = draw(
            st.lists(
                st.sampled_from(["N", "C", "time", "a b", None]),
                min_size=len(shape),
                max_size=len(shape),
            )
        )
        return TensorType(dtype, shape, axes)
    if kind == 1:
        items = draw(st.lists(dims(), max_size=3))
        return TensorType("int64", [len(items)], value=items)
    return TensorType(dtype, shape)


types: st.SearchStrategy[Type] = st.recursive(
    tensor_types()
    | st.builds(TensorType, dtypes, shapes)
    | st.just(TokenType())
    | st.just(VoidType())
    | st.builds(ResourceType, texts)
    | st.builds(OpaqueType, texts | st.just("tf.Tensor<float32>")),
    lambda part: (
        st.builds(SequenceType, part)
        | st.builds(OptionalType, part)
        | st.builds(RefType, part)
        | st.lists(part, max_size=3).map(TupleType)
        | st.builds(MapType, st.sampled_from(["int64", "string"]) | part, part)
    ),
    max_leaves=4,
)


@st.composite
def tensors(draw: Any) -> Tensor:
    """Small tensors of every kind: shared arrays, packed bytes, splats, texts."""
    shape = tuple(draw(st.lists(st.integers(0, 3), max_size=3)))
    how = draw(st.sampled_from(["bytes", "array", "splat", "texts"]))
    if how == "texts":
        count = int(np.prod(shape))
        item = texts | st.binary(max_size=4)
        items = draw(st.lists(item, min_size=count, max_size=count))
        return Tensor.strings(items, shape)
    if how == "splat":
        large = st.sampled_from([(1000, 1000), (2**40,)])
        kind = draw(st.sampled_from(["float32", "int64", "bfloat16", "int4"]))
        number = st.integers(-8, 7)
        if kind == "float32":
            number |= st.floats(width=32)
        return Tensor.splat(kind, draw(st.just(shape) | large), draw(number))
    dtype = DType(draw(st.sampled_from(STORED)))
    if how == "array" and dtype.name in ("float32", "int64", "bfloat16"):
        make = {"bfloat16": ml_dtypes.bfloat16}.get(dtype.name, dtype.name)
        number = st.integers(-99, 99)
        if dtype.name == "float32":
            number |= st.floats(width=32)
        numbers = draw(st.lists(number, max_size=20))
        return Tensor.of(np.array(numbers, make))
    size = -(-int(np.prod(shape)) * dtype.bits // 8)
    data = draw(st.binary(min_size=size, max_size=size))
    if dtype.name == "bool":
        data = bytes(byte & 1 for byte in data)
    return Tensor.from_buffer(data, dtype, shape)


def attr_values(depth: int = 3) -> st.SearchStrategy[Any]:
    """Every kind of attribute value."""
    plain = (
        st.none()
        | st.booleans()
        | st.integers(-(2**70), 2**70)
        | st.floats()
        | st.sampled_from([-0.0, 1e16, 5e-324, float("nan"), float("inf")])
        | names
        | st.binary(max_size=6)
    )
    leaf = (
        plain
        | dtypes
        | quantized
        | shapes
        | dims().filter(lambda dim: isinstance(dim, Sym))
        | types
        | tensors()
        | st.builds(FunctionRef, names)
        | st.complex_numbers()
    )
    if depth == 0:
        return leaf
    return st.recursive(
        leaf,
        lambda part: (
            st.lists(part, max_size=3)
            | st.lists(part, max_size=2).map(tuple)
            | st.dictionaries(names, part, max_size=3)
        ),
        max_leaves=6,
    )


attr_maps = st.just({}) | st.dictionaries(names, attr_values(), max_size=3)
few_attrs = st.just({}) | st.dictionaries(names, attr_values(0), max_size=1)


Values: TypeAlias = list[OutputPort]


class _Builder:
    """Draws one graph and what is inside it."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw

    def some(self, strategy: st.SearchStrategy[Any], odds: int = 3) -> Any:
        """A value, or None; None is the simpler one."""
        return self.draw(strategy) if self.draw(st.integers(0, odds)) == odds else None

    def graph(self, depth: int, outer: Graph | None, around: Values) -> Graph:
        graph = Graph(
            self.some(namespaces),
            self.some(names),
            type=self.some(op_types),
            outer=outer,
        )
        self.attrs(graph)
        for _ in range(self.draw(st.integers(0, 2))):
            self.dress(graph.parameter())
        if self.some(st.just(True), 5):
            graph.imports.update(self.draw(st.dictionaries(names, st.integers(0, 30))))
        values: Values = [*graph.parameters]
        for _ in range(self.draw(st.integers(0, 4))):
            op = self.op(graph, values, around, depth)
            values += op.outputs
            self.signals(graph, op)
        for _ in range(self.draw(st.integers(0, 2))):
            port = graph.result(self.value([*values, *around]))
            self.edge_attrs(port)
            self.dress(graph.outputs[port.index])
        if self.some(st.just(True), 5):
            graph.provenance = self.provenance()
        self.loop(graph)
        return graph

    def value(self, values: Values) -> OutputPort | None:
        return self.draw(st.sampled_from([*values, None])) if values else None

    def op(
        self,
        graph: Graph,
        values: Values,
        around: Values,
        depth: int,
    ) -> Op:
        kind = self.draw(st.integers(0, 9))
        if kind == 9 and depth:
            return self.subgraph(graph, values, around, depth)
        if kind == 8:
            return graph.constant(self.draw(tensors()), self.name(graph))
        inputs = [
            self.value([*values, *around]) for _ in range(self.draw(st.integers(0, 3)))
        ]
        bodies = {}
        if kind == 7 and depth:
            for key in self.draw(st.lists(names, unique=True, max_size=2)):
                bodies[key] = self.graph(depth - 1, graph, [*values, *around])
        op = graph.add(
            self.draw(st.none() | op_types),
            inputs,
            self.draw(attr_maps),
            name=self.name(graph),
            outputs=self.draw(st.sampled_from([1, 1, 1, 0, 2, 3])),
            bodies=bodies,
            namespace=self.some(namespaces, 5),
        )
        self.side_facts(op)
        return op

    def name(self, graph: Graph) -> str | None:
        name = self.draw(st.none() | names)
        return None if name is None or name in graph else name

    def subgraph(
        self,
        graph: Graph,
        values: Values,
        around: Values,
        depth: int,
    ) -> Graph:
        inner = self.graph(depth - 1, graph, [*values, *around])
        if inner.name is not None and inner.name in graph:
            inner.name = None
        inputs = [self.value([*values, *around]) for _ in inner.parameters]
        return graph.add_graph(inner, inputs)

    def side_facts(self, op: Op) -> None:
        """Names, types and attributes of ports; where the op comes from."""
        for output in op.outputs:
            if self.draw(st.booleans()):
                self.dress(output)
        for port in op.input_ports:
            if self.draw(st.integers(0, 3)) == 3:
                port.set_name(self.draw(names))
                self.attrs(port)
            self.edge_attrs(port)
        if self.some(st.just(True), 5):
            op.provenance = self.provenance()

    def provenance(self) -> Provenance:
        return Provenance(
            tuple(self.draw(st.lists(names, max_size=2))), self.draw(names)
        )

    def attrs(self, holder: Any) -> None:
        attrs = self.draw(few_attrs)
        if attrs:
            holder.attrs.update(attrs)

    def edge_attrs(self, port: Any) -> None:
        attrs = self.some(few_attrs, 5) if port.source is not None else None
        if attrs:
            port.edge_attrs.update(attrs)

    def dress(self, port: OutputPort) -> None:
        name = self.some(names, 1)
        siblings = port.op.parameters if isinstance(port, Parameter) else ()
        if name not in [other.name for other in siblings]:
            port.name = name
        port.type = self.some(types, 1)
        if self.some(st.just(True), 5):
            self.attrs(port)
        if self.some(st.just(True), 5):
            port.mark(self.draw(st.just("keep") | names))

    def signals(self, graph: Graph, op: Op) -> None:
        """Control edges to and from an op, those at the graph's boundary too."""
        kind = self.draw(st.integers(0, 9))
        attrs = self.draw(few_attrs) if kind > 6 else {}
        others = [other for other in graph if other is not op]
        if kind == 7 and others:
            graph.control(self.draw(st.sampled_from(others)), op, attrs)
        elif kind == 8:
            graph.control(graph, op, attrs)
        elif kind == 9:
            graph.control(op, graph, attrs)

    def loop(self, graph: Graph) -> None:
        """A value that comes back from a feedback op behind its reader."""
        free = [
            port
            for op in graph
            for port in op.input_ports
            if port.source is None and not op.bodies and not isinstance(op, Graph)
        ]
        if free and self.some(st.just(True), 5):
            back = graph.add("NextIteration", [], feedback=True)
            self.draw(st.sampled_from(free)).connect(back.output)

    def root(self, depth: int) -> Graph:
        graph = self.graph(depth, None, [])
        for name in self.draw(st.just([]) | st.lists(names, unique=True, max_size=2)):
            graph.add_function(name, self.graph(depth - 1 if depth else 0, None, []))
        values = [*graph.parameters, *(port for op in graph for port in op.outputs)]
        if values and self.some(st.just(True), 4):
            side = st.dictionaries(names, st.sampled_from(values), max_size=2)
            graph.set_entry(self.draw(names), self.draw(side), self.draw(side))
        return graph


@st.composite
def graphs(draw: Any, depth: int = 2) -> Graph:
    """Root graphs, with graphs nested in them up to `depth`."""
    return _Builder(draw).root(depth)
