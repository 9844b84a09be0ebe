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
from amanda_template.backend import KERNELS, NAMESPACE


class Format:
    def read(self, source: Path) -> Graph:
        try:
            text = source.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise FormatError("this is not a text", who=source) from error
        return parsed(text, str(source))

    def write(self, graph: Graph, path: Path) -> None:
        text = written(graph)
        try:
            lost = graph.difference(parsed(text, str(path)))
        except FormatError as error:
            lost = error.message
        if lost:
            raise FormatError("this format cannot hold the graph", who=path, got=lost)
        with replace_file(path) as file:  # the file appears whole, or not at all
            file.write(text.encode())


def written(graph: Graph) -> str:
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


def parsed(text: str, who: str) -> Graph:
    graph = Graph(NAMESPACE)
    values: dict[str, OutputPort] = {}
    for number, line in enumerate(text.splitlines(), 1):
        try:
            _read(graph, values, line.split())
        except AmandaError as error:
            where = f"line {number}: {line[:60]!r}"
            raise FormatError(error.message, who=who, where=where) from error
    if not graph.results:
        raise FormatError("there is no output", who=who)
    return graph


def _read(graph: Graph, values: dict[str, OutputPort], words: list[str]) -> None:
    match words:
        case ["input", name] if name not in values:
            values[name] = graph.parameter(name=name)
        case ["output", name] if name in values:
            graph.result(values[name], name)
        case [name, "=", kind, *names] if name not in values and kind in KERNELS:
            if unknown := [name for name in names if name not in values]:
                raise FormatError(f"nothing is named {unknown[0]!r} before")
            inputs = [values[name] for name in names]
            values[name] = graph.add(kind, inputs, name=name).output
        case _:
            raise FormatError("this line cannot be understood")
