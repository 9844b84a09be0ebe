"""Reads an MLIR module of StableHLO as a graph of `amanda/stablehlo/<version>`.

Regions become bodies, constants those of the core, and functions that are called are
inlined."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, Final

from amanda import namespace
from amanda.dictionary import OpDef
from amanda.errors import FormatError, LimitError
from amanda.graph import Graph, OutputPort
from amanda.mapping import expect_bounded_expansion, sum_over_calls
from amanda.tensors import FunctionRef
from amanda_jax.formats.stablehlo.mlir_types import (
    NAME,
    parse_dense,
    read_attribute,
    type_of,
)

__all__ = ["read_module", "version", "walk_operations"]

_RETURNS: Final = ("func.return", "stablehlo.return")
_CALL: Final = "func.call"
MAX_DEPTH: Final = 200
"""The maximum depth of nested calls and regions."""

Values = dict[Any, OutputPort]


def version() -> str:
    """The installed version of StableHLO."""
    from jaxlib.mlir.dialects import stablehlo

    return str(stablehlo.get_current_version())


def read_module(module: Any) -> Graph:
    """The graph of the function `main`, or of the only public function."""
    functions = {
        _string_attribute(op, "sym_name"): op
        for op in module.body.operations
        if op.operation.name == "func.func"
    }
    public = [
        n
        for n, op in functions.items()
        if _string_attribute(op, "sym_visibility") != "private"
    ]
    name = "main" if "main" in functions or len(public) != 1 else public[0]
    if name not in functions:
        raise FormatError(
            "the program has no entry function",
            expected="one called main, or one public function",
            got=", ".join(map(str, functions)) or "no function",
        )
    _expect_bounded(functions, name)
    return _ModuleReader(functions).root(
        functions[name], _string_attribute(module, "sym_name")
    )


def _expect_bounded(functions: Mapping[str | None, Any], entry: str | None) -> None:
    """Raise LimitError if inlining the functions makes far more ops than they have."""
    own: dict[str | None, int] = {}
    calls: dict[str | None, list[str]] = {}
    for name, function in functions.items():
        ops = list(walk_operations(function.operation))
        own[name] = len(ops)
        calls[name] = [op.attributes["callee"].value for op in ops if op.name == _CALL]
    sizes = sum_over_calls(own, calls)
    expect_bounded_expansion(sizes[entry], sum(own.values()))


def walk_operations(operation: Any) -> Iterator[Any]:
    """An operation and all inside it."""
    waiting = [operation]
    while waiting:
        op = waiting.pop()
        yield op
        for region in op.regions:
            for block in region.blocks:
                waiting += [inner.operation for inner in block.operations]


def _string_attribute(op: Any, key: str) -> str | None:
    attributes = op.operation.attributes
    return str(attributes[key].value) if key in attributes else None


class _ModuleReader:
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
            input_name = own or _location_name(argument) or f"arg{i}"
            values[argument] = graph.parameter(type_of(argument.type), input_name)
        results = self._read_block(graph, block, values)
        names = _result_names(function, len(results))
        for result, result_name in zip(results, names, strict=True):
            graph.result(result, result_name)
        return graph

    def _read_block(self, graph: Graph, block: Any, values: Values) -> list[OutputPort]:
        """Add the ops of a block to a graph; return its results."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise LimitError(
                "the program nests calls or regions too deeply", got=self._depth
            )
        block_results: list[OutputPort] = []
        for op in block.operations:
            operation = op.operation
            inputs = [values[v] for v in operation.operands]
            if operation.name in _RETURNS:
                block_results = inputs
                continue
            results = self._read_op(graph, operation, inputs, values)
            values.update(zip(operation.results, results, strict=True))
        self._depth -= 1
        return block_results

    def _read_op(
        self, graph: Graph, op: Any, inputs: list[OutputPort], values: Values
    ) -> Sequence[OutputPort]:
        if op.name == _CALL:
            function = self._functions[op.attributes["callee"].value]
            [block] = function.operation.regions[0].blocks
            scope = dict(zip(block.arguments, inputs, strict=True))
            return self._read_block(graph, block, scope)
        if op.name == "stablehlo.constant":
            results = graph.constant(parse_dense(_constant_text(op))).output
            results.type = type_of(op.results[0].type)
            return [results]
        dialect, _, kind = op.name.partition(".")
        if dialect not in self._dictionaries:
            raise FormatError(
                "the program has an op that StableHLO does not have", got=op.name
            )
        return self._add_op(graph, op, dialect, kind, inputs, values)

    def _add_op(
        self,
        graph: Graph,
        op: Any,
        dialect: str,
        kind: str,
        inputs: list[OutputPort],
        values: Values,
    ) -> Sequence[OutputPort]:
        dictionary: Any = self._dictionaries[dialect]
        definition: OpDef | None = dictionary.get(kind)
        attrs = {
            key: read_attribute(definition, key, op.attributes[key])
            for key in op.attributes
        }
        for name in _functions(attrs.values()):
            self._add_function(graph, name)
        bodies = {name: Graph() for name in _region_names(definition, len(op.regions))}
        results = graph.add(
            kind,
            inputs,
            attrs,
            outputs=len(op.results),
            bodies=bodies,
            namespace=None if dialect == "stablehlo" else str(dictionary.name),
        )
        for port, result in zip(results.outputs, op.results, strict=True):
            port.type = type_of(result.type)
        for body, region in zip(bodies.values(), op.regions, strict=True):
            self._read_region(body, region, values)  # it may read values of this graph
        return results.outputs

    def _add_function(self, graph: Graph, name: str) -> None:
        """Add a function that an op names to the root."""
        root = graph.root
        if name in root.functions:
            return
        if name not in self._functions:
            raise FormatError(
                "the program names a function that it does not have", got=name
            )
        body = Graph()
        root.add_function(name, body)
        self._read_region(body, self._functions[name].operation.regions[0], {})

    def _read_region(self, body: Graph, region: Any, values: Values) -> None:
        inner = dict(values)
        [block] = region.blocks
        for argument in block.arguments:
            inner[argument] = body.parameter(type_of(argument.type))
        for result in self._read_block(body, block, inner):
            body.result(result)


def _functions(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, FunctionRef):
                yield each.name


def _region_names(definition: OpDef | None, count: int) -> list[str]:
    """The names of the regions of an op, one of which may be variadic."""
    if definition is None:
        return [f"region{i}" for i in range(count)]
    names: list[str] = []
    for each in definition.bodies:
        if each.kind.endswith("[]"):
            names += [
                f"{each.name}{i}" for i in range(count - len(definition.bodies) + 1)
            ]
        else:
            names.append(each.name)
    return names


def _constant_text(op: Any) -> str:
    """The value of a constant as MLIR prints it: not every type has a class."""
    text = op.get_asm(print_generic_op_form=True, large_elements_limit=None)
    names = re.search(r"value = (dense<.*>) ?[,}]", text, re.DOTALL)
    if names is None:
        raise FormatError("a constant of the program cannot be read", got=text[:80])
    return names[1]


def _location_name(argument: Any) -> str | None:
    """The name of an input: JAX stores it as its location."""
    names = re.fullmatch(r'loc\("([^":]*)"\)', str(argument.location))
    return names[1] if names else None


def _own_names(function: Any, key: str) -> Iterator[str | None]:
    """Names of inputs or results as `writing` stores them, or None."""
    attributes = function.operation.attributes
    if key in attributes:
        for each in attributes[key]:
            yield str(each[NAME].value) if NAME in each else None
    yield from repeat(None)


def _result_names(function: Any, count: int) -> list[str | None]:
    attributes = function.operation.attributes
    if "res_attrs" not in attributes:
        return [None] * count
    names = []
    rows = zip(attributes["res_attrs"], _own_names(function, "res_attrs"), strict=False)
    for each, own in rows:
        info = each["jax.result_info"].value if "jax.result_info" in each else ""
        names.append(own or _path_text(str(info)) or None)
    return names


def _path_text(info: str) -> str:
    """The position of a result in the return value of a function of JAX, with dots."""
    if not re.match(r"result([\[.]|$)", info):
        return info
    parts = re.findall(r"\['([^']*)'\]|\[(\w+)\]|\.(\w+)", info)
    return ".".join("".join(part) for part in parts)
