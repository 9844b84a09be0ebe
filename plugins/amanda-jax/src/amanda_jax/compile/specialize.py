"""Specialization: graphs whose shapes depend on data, compiled for each value of it.

A shape argument that depends on data is computed first, by a program of its own, and
the graph is compiled for its value. After the first values, Python runs the ops with
such arguments, and one program on either side serves all values: see `data_sized`.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from threading import Lock
from typing import Any

import numpy as np

from amanda.errors import AmandaWarning
from amanda.graph import Graph, OutputPort, Parameter
from amanda.tensors import Tensor
from amanda_jax.compile.code import BuildContext, CodeDetails, CompiledCode
from amanda_jax.shapes.static_values import StaticValues, ancestors

__all__ = ["SpecializedCode", "describe", "describe_origin"]

Call = Callable[[Sequence[Any]], Any]


class SpecializedCode(CompiledCode):
    """Computes the values that shapes depend on, and calls the program for them."""

    def __init__(self, graph: Graph, static: StaticValues, build: BuildContext) -> None:
        self._graph = graph
        self._data = data = static.data
        self._readers = [*static.readers]
        self._build = build
        self._programs: OrderedDict[Any, CompiledCode] = OrderedDict()
        self._lock = Lock()
        self._for_any_value: CompiledCode | None = None
        self._value_programs: list[CompiledCode] = []
        self._value_functions = [self._value_function(port) for port in data]
        self._details = CodeDetails(decided_by=tuple(map(describe_origin, data)))

    def _value_function(self, port: OutputPort) -> Call:
        """A function of the feeds that computes the value of a port."""
        if type(port) is Parameter:
            return itemgetter(port.index)
        memo: dict[Any, Any] = {}
        part = self._graph.clone([port], memo=memo)
        used = set(part.parameters)
        pairs = enumerate(self._graph.parameters)
        indices = [i for i, parameter in pairs if memo.get(parameter) in used]
        code = self._build.without_donation.compile(part)
        self._value_programs.append(code)
        return lambda args: code([args[i] for i in indices])[0]

    def __call__(self, args: Iterable[Any]) -> Sequence[Any]:
        args = [*args]
        read = self._build.weights.read
        program = self._program([read(value(args)) for value in self._value_functions])
        results = program(args)
        self._aliases |= program.aliased_results
        return results

    def _program(self, values: Sequence[Any]) -> CompiledCode:
        key = tuple((v.dtype.str, v.shape, v.tobytes()) for v in values)
        with self._lock:
            program = self._programs.get(key)
            if program is not None:
                self._programs.move_to_end(key)
                return program
            settings = self._build.settings
            if (
                len(self._programs) >= settings.specializations
                and not settings.is_distributed
            ):
                return self._code_for_any_value()
            program = self._programs[key] = self._compile_for(values)
            if len(self._programs) > settings.programs:
                self._programs.popitem(last=False)
            return program

    def _code_for_any_value(self) -> CompiledCode:
        """Code in which Python runs the ops whose shapes these values decide."""
        if self._for_any_value is None:
            origins = ", ".join(map(describe_origin, self._data))
            why = f"data decides its shape: {origins}"
            build = self._build.without_donation.without_exact_sizes
            outside = dict.fromkeys(self._readers, why)
            self._for_any_value = build.compile(self._graph, outside)
            warnings.warn(
                f"backend 'jax' compiled a program for {len(self._programs)} values of "
                f"{origins}; from now on Python runs the ops whose shapes they decide; "
                "the option `specializations` is the number of values compiled exactly",
                AmandaWarning,
                stacklevel=2,
            )
        return self._for_any_value

    def _compile_for(self, values: Sequence[Any]) -> CompiledCode:
        """Compile the graph with these values as constants."""
        memo: dict[Any, Any] = {}
        graph = self._graph.clone(memo=memo)
        with graph.before(next(iter(graph), None)):
            for port, value in zip(self._data, values, strict=True):
                constant = graph.constant(Tensor.of(np.array(value))).output
                constant.type = constant.op.attrs["value"].type_with_content()
                graph.replace_uses(memo[port], constant)
        return self._build.compile(graph)

    @property
    def details(self) -> CodeDetails:
        return self._details

    @property
    def program_count(self) -> int:
        with self._lock:
            counts = [code.program_count for code in self._all_programs()]
        computing = sum(code.program_count for code in self._value_programs)
        return computing + max(counts, default=1)

    def children(self) -> Sequence[CompiledCode]:
        with self._lock:
            return [*self._value_programs, *self._all_programs()]

    def _all_programs(self) -> list[CompiledCode]:
        general = self._for_any_value
        return [*self._programs.values(), *([general] if general else ())]


def describe_origin(port: OutputPort) -> str:
    """A value by its name, with the inputs that it is computed from."""
    if type(port) is Parameter:
        return describe(port)
    sources = (v for v in ancestors([port], lambda _: True) if type(v) is Parameter)
    names = " and ".join(sorted(map(describe, sources)))
    return f"{describe(port)}, from {names}" if names else describe(port)


def describe(port: OutputPort) -> str:
    """A value by its name, for messages."""
    if type(port) is Parameter:
        return f"input {port.index if port.name is None else repr(port.name)}"
    return repr(port.name) if port.name else str(port.op.label)
