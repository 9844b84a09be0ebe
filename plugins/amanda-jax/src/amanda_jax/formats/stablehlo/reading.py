"""A module of StableHLO as a graph of `amanda/stablehlo/<version>`.

Regions become bodies, constants those of the core, and functions that are called are
written out where they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, Final

from amanda import namespace
from amanda.dictionary import OpDef
from amanda.errors import FormatError, LimitError
from amanda.graph import Graph, OutputPort
from amanda.tensors import FunctionRef
from amanda_jax.formats.stablehlo.mlir_types import NAME, attribute, dense, type_of

__all__ = ["graph_of", "version"]

_RETURNS: Final = ("func.return", "stablehlo.return")
_CALL: Final = "func.call"
_DEEPEST: Final = 200
"""Calls in calls, and regions in regions."""

Values = dict[Any, OutputPort]


def version() -> str:
    """The version of StableHLO that is installed."""
    from jaxlib.mlir.dialects import stablehlo

    return str(stablehlo.get_current_version())


def graph_of(module: Any) -> Graph:
    """The graph of the function `main`, or of the only one that is public."""
    functions = {
        _text(op, "sym_name"): op
        for op in module.body.operations
        if op.operation.name == "func.func"
    }
    public = [
        n for n, op in functions.items() if _text(op, "sym_visibility") != "private"
    ]
    name = "main" if "main" in functions or len(public) != 1 else public[0]
    if name not in functions:
        raise FormatError(
            "the program has no function to begin with",
            expected="one called main, or one that is public",
            got=", ".join(map(str, functions)) or "no function",
        )
    return _Reading(functions).root(functions[name], _text(module, "sym_name"))


def _text(op: Any, key: str) -> str | None:
    attributes = op.operation.attributes
    return str(attributes[key].value) if key in attributes else None


class _Reading:
    def __init__(self, functions: Mapping[str | None, Any]) -> None:
        self._functions = functions
        self._dictionaries = {
            dialect: namespace(f"amanda/{dialect}/{version()}", assume=True)
            for dialect in ("stablehlo", "chlo")
        }
        self._depth = 0

    def root(self, function: Any, name: str | None) -> Graph:
        graph = Graph(f"amanda/stablehlo/{version()}", name)
        [block] = function.operation.regions[0].blocks
        values: Values = {}
        rows = zip(_own_names(function, "arg_attrs"), block.arguments, strict=False)
        for i, (own, argument) in enumerate(rows):
            named = own or _named(argument) or f"arg{i}"
            values[argument] = graph.parameter(type_of(argument.type), named)
        results = self._filled(graph, block, values)
        names = _result_names(function, len(results))
        for result, called in zip(results, names, strict=True):
            graph.result(result, called)
        return graph

    def _filled(self, graph: Graph, block: Any, values: Values) -> list[OutputPort]:
        """The ops of a block; what it returns."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise LimitError("the program calls or nests too deeply", got=self._depth)
        returned: list[OutputPort] = []
        for op in block.operations:
            operation = op.operation
            inputs = [values[v] for v in operation.operands]
            if operation.name in _RETURNS:
                returned = inputs
                continue
            made = self._made(graph, operation, inputs, values)
            values.update(zip(operation.results, made, strict=True))
        self._depth -= 1
        return returned

    def _made(
        self, graph: Graph, op: Any, inputs: list[OutputPort], values: Values
    ) -> Sequence[OutputPort]:
        if op.name == _CALL:
            function = self._functions[op.attributes["callee"].value]
            [block] = function.operation.regions[0].blocks
            scope = dict(zip(block.arguments, inputs, strict=True))
            return self._filled(graph, block, scope)
        if op.name == "stablehlo.constant":
            made = graph.constant(dense(_constant_text(op))).output
            made.type = type_of(op.results[0].type)
            return [made]
        dialect, _, kind = op.name.partition(".")
        if dialect not in self._dictionaries:
            raise FormatError(
                "the program has an op that is not of StableHLO", got=op.name
            )
        return self._op(graph, op, dialect, kind, inputs, values)

    def _op(
        self,
        graph: Graph,
        op: Any,
        dialect: str,
        kind: str,
        inputs: list[OutputPort],
        values: Values,
    ) -> Sequence[OutputPort]:
        dictionary: Any = self._dictionaries[dialect]
        entry: OpDef | None = dictionary.get(kind)
        attrs = {
            key: attribute(entry, key, op.attributes[key]) for key in op.attributes
        }
        for name in _functions(attrs.values()):
            self._keep(graph, name)
        bodies = {name: Graph() for name in _bodies(entry, len(op.regions))}
        made = graph.add(
            kind,
            inputs,
            attrs,
            outputs=len(op.results),
            bodies=bodies,
            namespace=None if dialect == "stablehlo" else str(dictionary.name),
        )
        for port, result in zip(made.outputs, op.results, strict=True):
            port.type = type_of(result.type)
        for body, region in zip(bodies.values(), op.regions, strict=True):
            self._fill(body, region, values)  # it reads values of the graph around it
        return made.outputs

    def _keep(self, graph: Graph, name: str) -> None:
        """A function that an op names, as one of the root."""
        root = graph.root
        if name in root.functions:
            return
        if name not in self._functions:
            raise FormatError("the program names a function that it lacks", got=name)
        body = Graph()
        root.add_function(name, body)
        self._fill(body, self._functions[name].operation.regions[0], {})

    def _fill(self, body: Graph, region: Any, values: Values) -> None:
        inner = dict(values)
        [block] = region.blocks
        for argument in block.arguments:
            inner[argument] = body.parameter(type_of(argument.type))
        for result in self._filled(body, block, inner):
            body.result(result)


def _functions(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, FunctionRef):
                yield each.name


def _bodies(entry: OpDef | None, count: int) -> list[str]:
    """The names of the regions of an op, of which one may be many."""
    if entry is None:
        return [f"region{i}" for i in range(count)]
    found: list[str] = []
    for each in entry.bodies:
        if each.kind.endswith("[]"):
            found += [f"{each.name}{i}" for i in range(count - len(entry.bodies) + 1)]
        else:
            found.append(each.name)
    return found


def _constant_text(op: Any) -> str:
    """The value of a constant, as it is printed: not all of them have a class."""
    text = op.get_asm(print_generic_op_form=True, large_elements_limit=None)
    found = re.search(r"value = (dense<.*>) ?[,}]", text, re.DOTALL)
    if found is None:
        raise FormatError("a constant of the program cannot be read", got=text[:80])
    return found[1]


def _named(argument: Any) -> str | None:
    """The name of an input: JAX tells it as where it comes from."""
    found = re.fullmatch(r'loc\("([^":]*)"\)', str(argument.location))
    return found[1] if found else None


def _own_names(function: Any, key: str) -> Iterator[str | None]:
    """Names of inputs or results as `writing` has them; None where nothing has."""
    attributes = function.operation.attributes
    if key in attributes:
        for each in attributes[key]:
            yield str(each[NAME].value) if NAME in each else None
    yield from repeat(None)


def _result_names(function: Any, count: int) -> list[str | None]:
    attributes = function.operation.attributes
    if "res_attrs" not in attributes:
        return [None] * count
    found = []
    rows = zip(attributes["res_attrs"], _own_names(function, "res_attrs"), strict=False)
    for each, own in rows:
        told = each["jax.result_info"].value if "jax.result_info" in each else ""
        found.append(own or _path(str(told)) or None)
    return found


def _path(told: str) -> str:
    """The place of a result in what a function of JAX returns, with dots."""
    if not re.match(r"result([\[.]|$)", told):
        return told
    parts = re.findall(r"\['([^']*)'\]|\[(\w+)\]|\.(\w+)", told)
    return ".".join("".join(part) for part in parts)
