"""A graph of `amanda/stablehlo/*` as the text of a module, in the generic form."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from amanda import namespace
from amanda.errors import FormatError
from amanda.graph import Graph, Op, OutputPort
from amanda_jax.formats.stablehlo.mlir_types import (
    NAME,
    attribute_text,
    dense_text,
    type_text,
)

__all__ = ["text_of"]


def text_of(graph: Graph) -> str:
    """The module; what it holds is checked when MLIR parses it."""
    writing = _Writing(graph.namespace or "")
    lines = [*writing.function(graph, "public @main")]
    for name, function in graph.functions.items():
        lines += writing.function(function, f"private @{_quoted(name)}")
    name = _quoted(graph.name or "graph")
    return "\n".join([f"module @{name} {{", *lines, "}", ""])


class _Writing:
    def __init__(self, namespace_: str) -> None:
        self._names: dict[OutputPort, str] = {}
        self._own = namespace(namespace_, assume=True)
        self._count = 0

    def new(self, port: OutputPort) -> str:
        self._names[port] = f"%v{self._count}"
        self._count += 1
        return self._names[port]

    def value(self, port: OutputPort | None) -> OutputPort:
        if port is None:
            raise FormatError("StableHLO has no inputs or results that are left out")
        return port

    def function(self, graph: Graph, name: str) -> Iterator[str]:
        inputs = [
            f"{self.new(port)}: {type_text(port.type)}{_named(port.name)}"
            for port in graph.parameters
        ]
        body = [*self.block(graph, "    ", "func.return")]
        values = [self.value(v) for v in graph.results]
        told = [
            f"{type_text(v.type)} {{{_told(port.name)}}}"
            for v, port in zip(values, graph.outputs, strict=True)
        ]
        yield f"  func.func {name}({', '.join(inputs)}) -> ({', '.join(told)}) {{"
        yield from body
        yield "  }"

    def block(self, graph: Graph, indent: str, end: str) -> Iterator[str]:
        for op in graph:
            yield from self._op(op, indent)
        values = [self.value(v) for v in graph.results]
        yield f"{indent}{self._call(end, values)} : {_kinds(values)} -> ()"

    def _call(self, name: str, values: Sequence[OutputPort]) -> str:
        return f'"{name}"({", ".join(self._names[v] for v in values)})'

    def _op(self, op: Op, indent: str) -> Iterator[str]:
        if op.is_constant:
            made = self.new(op.output)
            tensor = op.attrs["value"]
            kind = type_text(tensor.type)
            told = f"{{value = {dense_text(tensor)}}}"
            yield f'{indent}{made} = "stablehlo.constant"() {told} : () -> {kind}'
            return
        dialect, entry = self._entry(op)
        inputs = [self.value(v) for v in op.inputs]
        call = self._call(f"{dialect}.{op.type}", inputs)
        lines = [*self._bodies(op, indent)]
        made = ", ".join(self.new(port) for port in op.outputs)
        attrs = [
            f"{_key(key)} = {text}"
            for key, value in (op.attrs if op.has_attrs else {}).items()
            if (text := attribute_text(entry, op.type or "", key, value)) is not None
        ]
        told = f" {{{', '.join(attrs)}}}" if attrs else ""
        kinds = f"{_kinds(inputs)} -> {_kinds(op.outputs)}"
        head = f"{indent}{made} = {call}" if made else f"{indent}{call}"
        if lines:
            yield f"{head} ("
            yield from lines
            yield f"{indent}){told} : {kinds}"
        else:
            yield f"{head}{told} : {kinds}"

    def _entry(self, op: Op) -> tuple[str, Any]:
        """The dialect of an op, and what its dictionary says of it."""
        own: Any = self._own
        if op.namespace != own.name and op.namespace is not None:
            own = namespace(op.namespace, assume=True)
        dialect = str(own.name).split("/")[1]
        if dialect not in ("stablehlo", "chlo"):
            raise FormatError(f"{op.label} is no op of StableHLO", got=op.namespace)
        return dialect, own.get(op.type or "")

    def _bodies(self, op: Op, indent: str) -> Iterator[str]:
        deeper = indent + "  "
        last = len(op.bodies) - 1
        for i, body in enumerate(op.bodies.values()):
            given = ", ".join(
                f"{self.new(p)}: {type_text(p.type)}" for p in body.parameters
            )
            yield f"{indent}{{"
            yield f"{indent}^body({given}):" if given else f"{indent}^body:"
            yield from self.block(body, deeper, "stablehlo.return")
            yield f"{indent}}}" + ("," if i < last else "")


def _kinds(values: Sequence[OutputPort]) -> str:
    return f"({', '.join(type_text(v.type) for v in values)})"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_][\w.$]*", name) else _quoted(name)


def _quoted(text: str) -> str:
    from jaxlib.mlir import ir

    return str(ir.StringAttr.get(text))


def _named(name: str | None) -> str:
    """The name of an input: for us, and as a place for others."""
    return f" {{{NAME} = {_quoted(name)}}} loc({_quoted(name)})" if name else ""


def _told(name: str | None) -> str:
    """The name of a result: as JAX has it, and for us."""
    own = f", {NAME} = {_quoted(name)}" if name else ""
    return f"jax.result_info = {_quoted(name or '')}{own}"
