"""Graphs to the readable form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from amanda.errors import FormatError, LimitError
from amanda.files.text.document.attribute_values import ValueEncoder
from amanda.files.text.document.tensor_values import tensor_to_data
from amanda.files.text.document.writer import enclosing_graph
from amanda.files.text.readable.tokens import format_key, format_name
from amanda.files.text.syntax.plain_data import Tagged
from amanda.files.text.syntax.scalars import escape_text
from amanda.graph import (
    CONSTANT,
    CORE,
    ControlPort,
    Edge,
    Graph,
    InputPort,
    Op,
    OutputPort,
    Parameter,
    is_record,
)
from amanda.tensors import FunctionRef, Tensor
from amanda.tensors.values import MAX_DEPTH
from amanda.types import DType, Quantized, Shape, Sym, Symbols, TensorType, Type

__all__ = ["VERSION", "ReadablePrinter"]

VERSION = 1
_MAX_INDENT = 20  # levels of indentation; deeper ones are not indented further
_SHORT_TEXT = 60
_SHORT_LIST = 8

Lines: TypeAlias = "Iterator[str | Lines]"


class ReadablePrinter:
    """Prints one graph, abbreviated on request."""

    def __init__(
        self,
        *,
        abbreviate: bool = False,
        max_ops: int | None = None,
        depth: int | None = None,
    ) -> None:
        self.short = abbreviate
        self.max_ops, self.depth = max_ops, depth
        self.left_out = False
        self.encoder = ValueEncoder(Symbols())
        self.places: dict[Graph, dict[Op, int]] = {}
        self.waiting: dict[Graph, set[Op]] = {}
        self.parameters: dict[Graph, list[str | int]] = {}

    def text(self, root: Graph) -> str:
        lines = [f"amanda {VERSION}", ""]
        stack: list[Lines] = [self._root(root)]
        while stack:
            line = next(stack[-1], None)
            if line is None:
                stack.pop()
            elif isinstance(line, str):
                lines.append(line)
            else:
                stack.append(line)
        if self.left_out:
            lines[0] = "// shortened for reading"
        return "\n".join(lines) + "\n"

    def _abbreviates(self, size: int, most: int) -> bool:
        """Whether a value of this size is abbreviated."""
        cut = self.short and size > most
        self.left_out |= cut
        return cut

    # -- graphs ------------------------------------------------------------------------

    def _root(self, graph: Graph) -> Lines:
        return self._block(graph, f"graph{self._title(graph)} ", 0, 0)

    def _title(self, graph: Graph) -> str:
        """The name and type of a graph that is not on an op's line."""
        title = "" if graph.name is None else " " + format_name("%", graph.name)
        if graph.type is not None:
            title += " = " + format_key(graph.type)
        return title + self._clauses(graph, None)

    def _block(self, graph: Graph, start: str, level: int, depth: int) -> Lines:
        """A graph from its ports to its closing brace; `depth` graphs are around it."""
        pad = "  " * min(level, _MAX_INDENT)
        inputs = ", ".join(self._port(port, "$") for port in graph.parameters)
        outputs = ", ".join(self._port(port, "") for port in graph.outputs)
        head = f"{pad}{start}({inputs}) -> ({outputs}) {{"
        if self.depth is not None and depth > self.depth:
            self.left_out = True
            yield head + " ... }"
            return
        yield head
        inner = "  " * min(level + 1, _MAX_INDENT)
        if graph.imports:
            domains = {key: self._value(v) for key, v in graph.imports.items()}
            yield f"{inner}imports {self._in_braces(domains)}"
        held = graph.attrs if graph.has_attrs and graph.graph is None else {}
        if held and (text := self._attrs(held, "attrs ")):
            yield inner + text[1:]
        yield self._ops(graph, level + 1, depth + 1)
        yield from self._end(graph, inner)
        for label, entry in graph.entries.items():
            sides = [
                ", ".join(
                    f"{format_key(k)}={self._ref(v, graph)}" for k, v in side.items()
                )
                for side in entry
            ]
            yield f"{inner}entry {format_key(label)} ({sides[0]}) -> ({sides[1]})"
        for label, function in graph.functions.items():
            title = f"function {format_key(label)}{self._title(function)} "
            yield self._block(function, title, level + 1, depth + 1)
        yield pad + "}"

    def _ops(self, graph: Graph, level: int, depth: int) -> Lines:
        """The ops, and the graphs inside, which are at `depth`."""
        pad = "  " * min(level, _MAX_INDENT)
        total = len(graph)
        first, last = total, total
        if self.max_ops is not None and total > self.max_ops:
            first, last = -(-self.max_ops // 2), total - self.max_ops // 2
        for i, op in enumerate(graph):
            if i == first and i < last:
                self.left_out = True
                yield f"{pad}... {last - first:,} more ops ..."
            if first <= i < last:
                continue
            line = self._op(op, graph)
            if isinstance(op, Graph):
                yield self._block(op, f"{line} graph ", level, depth)
            else:
                yield pad + line
            for label, body in op.bodies.items():
                title = f"body {format_key(label)}{self._title(body)} "
                yield self._block(body, title, level + 1, depth)

    def _end(self, graph: Graph, pad: str) -> Iterator[str]:
        """The `return` line."""
        values = graph.results
        if not values and not graph.inner_control_sinks:
            return
        parts = []
        for i, value in enumerate(values):
            parts.append(self._read(value, InputPort(graph, i, True), graph))
        line = f"{pad}return {', '.join(parts)}".rstrip()
        yield line + self._after(graph.inner_control_sinks, graph, graph)

    # -- ops ---------------------------------------------------------------------------

    def _op(self, op: Op, graph: Graph) -> str:
        start = f"{self._op_name(op, graph)} = "
        tensor = op.attrs["value"] if self._is_constant(op) else None
        if tensor is not None:
            implied: Type | None = tensor.type
            text = self._tensor(tensor)
        else:
            implied = None
            kind = "_" if op.type is None else format_key(op.type)
            text = f"{kind}({', '.join(self._inputs(op, graph))})"
            if op.has_attrs:
                text += self._attrs(op.attrs)
        if not isinstance(op, Graph):
            text += self._outputs(op.outputs, implied)
        return start + text + self._clauses(op, tensor)

    def _is_constant(self, op: Op) -> bool:
        """Whether the op can be written as its tensor only."""
        return (
            op.type == CONSTANT
            and op.own_namespace == CORE
            and op.has_attrs
            and list(op.attrs) == ["value"]
            and type(op.attrs["value"]) is Tensor
            and not op.inputs
            and not isinstance(op, Graph)
        )

    def _clauses(self, op: Op, tensor: Tensor | None) -> str:
        text = ""
        if op.own_namespace is not None and tensor is None:
            text += f" in {escape_text(op.own_namespace)}"
        if op.feedback:
            text += " feedback"
        if op.provenance is not None:
            sources = ", ".join(map(escape_text, op.provenance.sources))
            text += f" made by {escape_text(op.provenance.by)} from [{sources}]"
        graph = op.graph
        if graph is not None:
            firsts: Sequence[Op] = op.control_inputs
            if op in self._waiting(graph):
                firsts = (graph, *firsts)
            text += self._after(firsts, op, graph)
        return text

    def _waiting(self, graph: Graph) -> set[Op]:
        """The ops with a control edge from the graph's own input."""
        found = self.waiting.get(graph)
        if found is None:
            found = self.waiting[graph] = set(graph.inner_control_sources)
        return found

    def _after(self, firsts: Sequence[Op], then: Op, graph: Graph) -> str:
        if not firsts:
            return ""
        parts = []
        for first in firsts:
            text = "$" if first is graph else self._op_name(first, graph)
            edge = Edge(ControlPort(first, "out"), ControlPort(then, "in"))
            if edge.has_attrs:
                text += self._attrs(edge.attrs, "edge ")
            parts.append(text)
        return f" after {', '.join(parts)}"

    def _inputs(self, op: Op, graph: Graph) -> Iterator[str]:
        for i, value in enumerate(op.inputs):
            port = InputPort(op, i)
            text = self._read(value, port, graph)
            if not isinstance(op, Graph):
                if port.name is not None:
                    text = f"{format_key(port.name)}={text}"
                if port.has_attrs:
                    text += self._attrs(port.attrs, "port ")
            yield text

    def _read(self, value: OutputPort | None, port: InputPort, graph: Graph) -> str:
        if value is None:
            return "_"
        text = self._ref(value, graph)
        if port.has_edge_attrs:
            text += self._attrs(port.edge_attrs, "edge ")
        return text

    def _outputs(self, ports: Sequence[OutputPort], implied: Type | None) -> str:
        if len(ports) == 1:
            (port,) = ports
            if port.name is None and not port.has_attrs and not port.marks:
                if port.type == implied:
                    return ""
                return " : " + (self._type(port.type) if port.type else "_")
        return f" : ({', '.join(self._port(port, '') for port in ports)})"

    def _port(self, port: OutputPort, sign: str) -> str:
        text = "_" if port.name is None else format_name(sign, port.name)
        if port.type is not None:
            text += ": " + self._type(port.type)
        for label in sorted(port.marks):
            text += " @" + format_key(label)
        if port.has_attrs:
            text += self._attrs(port.attrs)
        return text

    def _type(self, type: Type) -> str:
        return self.encoder.type_text(type)

    # -- names -------------------------------------------------------------------------

    def _op_name(self, op: Op, graph: Graph) -> str:
        if op.name is not None:
            return format_name("%", op.name)
        places = self.places.get(graph)
        if places is None:
            places = self.places[graph] = {op: i for i, op in enumerate(graph)}
        return f"%{places[op]}"

    def _parameters(self, graph: Graph) -> list[str | int]:
        """The key of each parameter: its name if unique, or its index."""
        found = self.parameters.get(graph)
        if found is None:
            names = Counter(port.name for port in graph.parameters)
            found = self.parameters[graph] = [
                port.name
                if port.name is not None
                and names[port.name] == 1
                and port.name not in ("^control", "-1")
                else port.index
                for port in graph.parameters
            ]
        return found

    def _ref(self, value: OutputPort, graph: Graph) -> str:
        up, at = "", graph
        while at is not value.graph:
            around = enclosing_graph(at)
            if around is None:
                raise FormatError(
                    "a graph reads a value that is not in the text",
                    who=graph.label,
                    got=repr(value),
                    hint="save the graph around it, or make the value a parameter",
                )
            at, up = around, up + "^"
        if isinstance(value, Parameter):
            key = self._parameters(at)[value.index]
            return up + (f"${key}" if isinstance(key, int) else format_name("$", key))
        text = up + self._op_name(value.op, at)
        return text if value.index == 0 else f"{text}#{value.index}"

    # -- values ------------------------------------------------------------------------

    def _attrs(self, attrs: dict[str, Any], title: str = "") -> str:
        """Attributes after a space and a title; without file records if abbreviated."""
        keys = [key for key in attrs if not (self.short and is_record(key))]
        self.left_out |= len(keys) < len(attrs)
        if attrs and not keys:
            return ""
        shown = {key: self._value(attrs[key]) for key in keys}
        return f" {title}{self._in_braces(shown)}"

    def _in_braces(self, shown: dict[str, str]) -> str:
        return (
            f"{{{', '.join(f'{format_key(k)}: {text}' for k, text in shown.items())}}}"
        )

    def _value(self, value: Any, depth: int = 1) -> str:
        """An attribute value; LimitError where it is nested too deeply."""
        if isinstance(value, list | tuple | dict):
            if depth > MAX_DEPTH:
                raise LimitError(
                    "an attribute is nested too deeply",
                    expected=f"at most {MAX_DEPTH} lists and maps in each other",
                )
            return self._items(value, depth + 1)
        if isinstance(value, str):
            cut = self._abbreviates(len(value), _SHORT_TEXT)
            return (
                escape_text(value[:_SHORT_TEXT]) + "..." if cut else escape_text(value)
            )
        return self._leaf(value)

    def _items(self, value: Any, depth: int) -> str:
        shown = value
        if self._abbreviates(len(value), _SHORT_LIST):
            shown = list(value)[:_SHORT_LIST]
        more = [] if shown is value else [f"... {len(value) - _SHORT_LIST:,} more"]
        if isinstance(value, dict):
            parts = [f"{format_key(k)}: {self._value(value[k], depth)}" for k in shown]
            return f"{{{', '.join(parts + more)}}}"
        parts = [self._value(item, depth) for item in shown]
        return f"[{', '.join(parts + more)}]"

    def _leaf(self, value: Any) -> str:
        if value is None:
            return "null"
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, complex):
            return f"complex({value.real!r}, {value.imag!r})"
        if isinstance(value, DType | Quantized):
            return str(value)
        if isinstance(value, Shape):
            return "shape" + value.text(self.encoder.symbols)
        if isinstance(value, Sym):
            return f"dim({value.text(self.encoder.symbols)})"
        if isinstance(value, Type):
            return f"type<{self._type(value)}>"
        if isinstance(value, Tensor):
            return self._tensor(value)
        if isinstance(value, FunctionRef):
            return "@" + format_key(value.name)
        plain = self.encoder.value(value)
        return self._format_plain(plain) if isinstance(plain, Tagged) else repr(plain)

    def _format_plain(self, value: Any) -> str:
        if isinstance(value, Tagged):  # bytes, the only tagged value here
            if self._abbreviates(len(value.value), _SHORT_TEXT):
                return f'b"{value.value[:_SHORT_TEXT]}"...'
            return f'b"{value.value}"'
        return escape_text(value) if isinstance(value, str) else self._leaf(value)

    def _tensor(self, tensor: Tensor) -> str:
        head = f"tensor<{TensorType(tensor.dtype, tensor.shape)}>"
        stored = 1 if tensor.stores_one_element else tensor.size
        if self._abbreviates(stored, _SHORT_LIST):
            return f"{head}(...)"
        fields = tensor_to_data(tensor)
        if "data" in fields:
            return f'{head}(data b"{fields["data"]}")'
        if "splat" in fields:
            return f"{head}(splat {self._format_plain(fields['splat'])})"
        items = fields["values"] if "values" in fields else fields["strings"]
        return f"{head}({', '.join(map(self._format_plain, items))})"
