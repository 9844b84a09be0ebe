"""The format: it reads and writes graphs of its own namespace.

    input x
    input y
    sum = add x y
    output sum

A format loses nothing: what it cannot hold, it refuses to write.
"""

from __future__ import annotations

from pathlib import Path

from amanda.errors import AmandaError, FormatError
from amanda.files import replace_file
from amanda.graph import Graph, OutputPort

NAMESPACE = "amanda_template/arithmetic/1"
OPS = ("add", "multiply", "negate")


class Format:
    def read(self, source: Path) -> Graph:
        try:
            text = source.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise FormatError("this is not text", who=source) from error
        return parse(text, str(source))

    def write(self, graph: Graph, path: Path) -> None:
        text = to_text(graph)
        try:
            lost = graph.difference(parse(text, str(path)))
        except FormatError as error:
            lost = error.message
        if lost:
            raise FormatError("this format cannot hold the graph", who=path, got=lost)
        with replace_file(path) as file:  # the file appears whole, or not at all
            file.write(text.encode())


def to_text(graph: Graph) -> str:
    lines = [f"input {port.name}" for port in graph.parameters]
    lines += [
        f"{op.name} = {op.type} {' '.join(map(_name, op.inputs))}" for op in graph
    ]
    lines += [f"output {_name(value)}" for value in graph.results]
    return "".join(f"{line}\n" for line in lines)


def _name(value: OutputPort | None) -> str:
    if value is None:
        return ""
    return str(value.name or value.op.name)


def parse(text: str, who: str) -> Graph:
    graph = Graph(NAMESPACE)
    values: dict[str, OutputPort] = {}
    for number, line in enumerate(text.splitlines(), 1):
        try:
            _read_line(graph, values, line.split())
        except AmandaError as error:
            where = f"line {number}: {line[:60]!r}"
            raise FormatError(error.message, who=who, where=where) from error
    if not graph.results:
        raise FormatError("no output is declared", who=who)
    return graph


def _read_line(graph: Graph, values: dict[str, OutputPort], words: list[str]) -> None:
    match words:
        case ["input", name] if name not in values:
            values[name] = graph.parameter(name=name)
        case ["output", name] if name in values:
            graph.result(values[name], name)
        case [name, "=", kind, *names] if name not in values and kind in OPS:
            if unknown := [name for name in names if name not in values]:
                raise FormatError(f"{unknown[0]!r} is not defined")
            inputs = [values[name] for name in names]
            values[name] = graph.add(kind, inputs, name=name).output
        case _:
            raise FormatError("this line is invalid")
