"""Writes a graph of `amanda/stablehlo/*` as a module, in the generic text form."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from amanda import namespace
from amanda.errors import FormatError
from amanda.graph import Graph, Op, OutputPort, is_note
from amanda_jax.formats.stablehlo.mlir_types import (
    NAME,
    attribute_text,
    dense_text,
    type_text,
)

__all__ = ["write_module"]


def write_module(graph: Graph) -> str:
    """The text of the module; MLIR verifies it when it parses it."""
    writer = _ModuleWriter(graph.namespace or "")
    lines = [*writer.function(graph, "public @main")]
    for name, function in graph.functions.items():
        lines += writer.function(function, f"private @{_quote(name)}")
    name = _quote(graph.name or "graph")
    return "\n".join([f"module @{name} {{", *lines, "}", ""])


class _ModuleWriter:
    def __init__(self, namespace_: str) -> None:
        self._names: dict[OutputPort, str] = {}
        self._dictionary = namespace(namespace_, assume=True)
        self._count = 0

    def define(self, port: OutputPort) -> str:
        self._names[port] = f"%v{self._count}"
        self._count += 1
        return self._names[port]

    def value(self, port: OutputPort | None) -> OutputPort:
        if port is None:
            raise FormatError("StableHLO has no optional inputs or results")
        return port

    def function(self, graph: Graph, name: str) -> Iterator[str]:
        inputs = [
            f"{self.define(port)}: {type_text(port.type)}{_input_attributes(port.name)}"
            for port in graph.parameters
        ]
        body = [*self.block(graph, "    ", "func.return")]
        values = [self.value(v) for v in graph.results]
        attributes = [
            f"{type_text(v.type)} {{{_result_attributes(port.name)}}}"
            for v, port in zip(values, graph.outputs, strict=True)
        ]
        yield f"  func.func {name}({', '.join(inputs)}) -> ({', '.join(attributes)}) {{"
        yield from body
        yield "  }"

    def block(self, graph: Graph, indent: str, end: str) -> Iterator[str]:
        for op in graph:
            yield from self._op(op, indent)
        values = [self.value(v) for v in graph.results]
        yield f"{indent}{self._call(end, values)} : {_type_list(values)} -> ()"

    def _call(self, name: str, values: Sequence[OutputPort]) -> str:
        return f'"{name}"({", ".join(self._names[v] for v in values)})'

    def _op(self, op: Op, indent: str) -> Iterator[str]:
        if op.is_constant:
            result = self.define(op.output)
            tensor = op.attrs["value"]
            value = f"{{value = {dense_text(tensor)}}}"
            kind = f"() -> {type_text(tensor.type)}"
            yield f'{indent}{result} = "stablehlo.constant"() {value} : {kind}'
            return
        dialect, definition = self._dialect_and_definition(op)
        inputs = [self.value(v) for v in op.inputs]
        call = self._call(f"{dialect}.{op.type}", inputs)
        lines = [*self._bodies(op, indent)]
        results = ", ".join(self.define(port) for port in op.outputs)
        attrs = [
            f"{_attribute_name(key)} = {text}"
            for key, value in (op.attrs if op.has_attrs else {}).items()
            if (text := _attribute_text(op, definition, key, value)) is not None
        ]
        attributes = f" {{{', '.join(attrs)}}}" if attrs else ""
        types = f"{_type_list(inputs)} -> {_type_list(op.outputs)}"
        head = f"{indent}{results} = {call}" if results else f"{indent}{call}"
        if lines:
            yield f"{head} ("
            yield from lines
            yield f"{indent}){attributes} : {types}"
        else:
            yield f"{head}{attributes} : {types}"

    def _dialect_and_definition(self, op: Op) -> tuple[str, Any]:
        """The dialect of an op, and its definition."""
        own: Any = self._dictionary
        if op.namespace != own.name and op.namespace is not None:
            own = namespace(op.namespace, assume=True)
        dialect = str(own.name).split("/")[1]
        if dialect not in ("stablehlo", "chlo"):
            raise FormatError(f"{op.label} is not an op of StableHLO", got=op.namespace)
        return dialect, own.get(op.type or "")

    def _bodies(self, op: Op, indent: str) -> Iterator[str]:
        inner_indent = indent + "  "
        last = len(op.bodies) - 1
        for i, body in enumerate(op.bodies.values()):
            parameters = ", ".join(
                f"{self.define(p)}: {type_text(p.type)}" for p in body.parameters
            )
            yield f"{indent}{{"
            yield f"{indent}^body({parameters}):" if parameters else f"{indent}^body:"
            yield from self.block(body, inner_indent, "stablehlo.return")
            yield f"{indent}}}" + ("," if i < last else "")


def _type_list(values: Sequence[OutputPort]) -> str:
    return f"({', '.join(type_text(v.type) for v in values)})"


def _attribute_text(op: Op, definition: Any, key: str, value: Any) -> str | None:
    """An attribute as MLIR parses it; free notes are JSON in a string."""
    if not is_note(key):
        return attribute_text(definition, op.type or "", key, value)
    try:
        return _quote(json.dumps(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise FormatError(
            f"the note {key!r} cannot be written as JSON", who=op.label, got=str(error)
        ) from error


def _attribute_name(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_][\w.$]*", name) else _quote(name)


def _quote(text: str) -> str:
    from jaxlib.mlir import ir

    return str(ir.StringAttr.get(text))


def _input_attributes(name: str | None) -> str:
    """The name of an input, as an attribute and as a location."""
    return f" {{{NAME} = {_quote(name)}}} loc({_quote(name)})" if name else ""


def _result_attributes(name: str | None) -> str:
    """The name of a result, as JAX writes it and as an attribute."""
    own = f", {NAME} = {_quote(name)}" if name else ""
    return f"jax.result_info = {_quote(name or '')}{own}"
