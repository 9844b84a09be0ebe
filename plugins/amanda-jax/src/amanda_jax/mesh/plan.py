"""A graph made ready for a mesh, and how each input, weight and result is divided.

Weights that `shardings` tells the axes of keep their names and their axes: they are
taken out of the graph while it is made ready, so that nothing turns or joins them.
What rules divide is what the weights are afterwards.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from amanda.errors import BackendError, InvalidTypeError
from amanda.graph import Graph, OutputPort
from amanda.tensors import Tensor
from amanda.types import Sym, TensorType
from amanda_jax.mesh.policies import RULES, Choice, shape_of
from amanda_jax.mesh.specs import (
    WHOLE,
    Asked,
    Sizes,
    Spec,
    first,
    misfit,
    shares,
    unused,
)
from amanda_jax.shapes.static_values import followed
from amanda_jax.weights.device_weights import is_weight

__all__ = ["Placed", "Plan", "divided", "planned"]

Shape = Sequence[Any] | None
"""Sizes, and symbols for those that only a call tells; None without a rank."""


class Placed(NamedTuple):
    """An input, a weight or a result, and how it is divided."""

    kind: str
    name: str
    spec: Spec
    why: str = ""
    """Why it is whole, where a rule was to divide it."""

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r}"


class Plan(NamedTuple):
    """How everything that comes to the mesh, or leaves it, is divided."""

    sizes: Sizes
    inputs: tuple[Placed, ...]
    weights: dict[int, tuple[Tensor, Placed]]
    """By the identity of the tensor."""
    results: tuple[Placed | None, ...]
    """None where nobody said how it is to lie."""
    shapes: tuple[Sequence[Shape], Sequence[Shape]] = ((), ())
    """Those of the inputs and of the results, as far as types tell."""

    def weight(self, tensor: Tensor) -> Placed:
        """How a weight lies; what the plan does not know is whole."""
        row = self.weights.get(id(tensor))
        return row[1] if row is not None else Placed("weight", "?", WHOLE)

    def made_of(
        self, given: Iterable[Sequence[int]]
    ) -> Iterator[tuple[Placed, Sequence[Any]]]:
        """Results that are told how to lie, with the shapes that those which are given
        make of them; where these do not tell a size, its symbol stays."""
        inputs, results = self.shapes
        if not any(self.results):
            return
        known = {
            dim: size
            for dims, shape in zip(inputs, given, strict=True)
            for dim, size in zip(dims or (), shape, strict=False)
            if isinstance(dim, Sym) and dim.free == {dim}
        }
        for placed, dims in zip(self.results, results, strict=True):
            if placed is not None and dims is not None:
                yield placed, [_size(dim, known) for dim in dims]


def _size(dim: Any, known: Mapping[Any, int]) -> Any:
    """A size, or what it is called where what is known does not tell it."""
    try:
        return dim.substitute(known) if isinstance(dim, Sym) else dim
    except InvalidTypeError:  # it is divided by a size that is 0 in this call
        return dim


def divided(
    graph: Graph, lines: Sequence[Asked], prepare: Callable[[Graph], Graph]
) -> Graph:
    """The graph made ready, the weights that `lines` tell the axes of as they were."""
    copy = graph.clone()
    taken = list(_taken_out(copy, lines))
    ready = prepare(copy)
    begin, count = next(iter(ready), None), len(ready.parameters) - len(taken)
    for i, (tensor, name) in reversed([*enumerate(taken, count)]):
        with ready.before(begin):
            held = ready.constant(tensor, None if name in ready else name).output
        held.type = ready.parameters[i].type
        for part in ready.graphs():
            part.replace_uses(ready.parameters[i], held)
        ready.remove_parameter(i)
    return ready


def _taken_out(graph: Graph, lines: Sequence[Asked]) -> Iterator[tuple[Tensor, str]]:
    """Weights that become inputs for a while, with what they were."""
    on_host = followed(graph).constants
    for part in list(graph.graphs()):
        for op in list(part):
            if op.name is None or not is_weight(op) or op.output in on_host:
                continue
            line = first(lines, op.name)
            if line is None or line.spec is None:
                continue
            parameter = graph.parameter(op.output.type)
            part.replace_uses(op.output, parameter)
            part.remove(op)
            yield op.attrs["value"], op.name


# -- planning ------------------------------------------------------------------------


def planned(graph: Graph, lines: Sequence[Asked], sizes: Sizes) -> Plan:
    """How a graph that is ready lies on a mesh. All that cannot be is told at once."""
    weights = {
        op.output: op.name or f"weight{i}"
        for i, op in enumerate(op for op in graph if op.is_constant)
        if is_weight(op)
    }
    inputs: dict[OutputPort, str] = {
        port: port.name or str(port.index) for port in graph.parameters
    }
    choices = _Choices(graph, lines, sizes, {**inputs, **weights})
    problems: list[str] = []
    found: dict[OutputPort, Placed] = {}
    for kind, ports in (("input", inputs), ("weight", weights)):
        for port in ports:
            found[port] = choices.placed(kind, port)
            problems += _misfits(found[port], port, sizes)
    held = _once({port: found[port] for port in weights}, lines, problems)
    results = [port.name or str(port.index) for port in graph.outputs]
    told = tuple(_result(name, lines) for name in results)
    for placed, value in zip(told, graph.results, strict=True):
        if placed is not None and value is not None:
            problems += _misfits(placed, value, sizes)
    if problems:
        raise BackendError(
            "not everything can be divided over the mesh as it was asked",
            problems=problems,
            hint="divide another axis, leave it whole with None in `shardings`, or "
            "take a mesh whose sizes divide it; say the same of names for one tensor",
        )
    _warn(lines, [*inputs.values(), *weights.values(), *_small(graph), *results])
    fed = [shape_of(port) for port in inputs]
    made = [None if port is None else shape_of(port) for port in graph.results]
    return Plan(sizes, tuple(found[port] for port in inputs), held, told, (fed, made))


def _misfits(placed: Placed, port: OutputPort, sizes: Sizes) -> Iterator[str]:
    """Why something cannot lie as it was asked to, as far as its type tells."""
    shape = shape_of(port)
    wrong = misfit(placed.spec, shape, sizes) if shape is not None else ""
    if wrong:
        yield f"{placed} is {_form(port)}: {wrong}"


def _once(
    weights: Mapping[OutputPort, Placed], lines: Sequence[Asked], problems: list[str]
) -> dict[int, tuple[Tensor, Placed]]:
    """The place of each tensor, which may have several names: what lines say comes
    before what rules choose, and what divides before what does not."""
    found: dict[int, tuple[Tensor, Placed]] = {}
    asked: set[int] = set()
    for port, placed in weights.items():
        tensor = port.op.attrs["value"]
        key = id(tensor)
        is_asked = _spec(placed.name, lines) is not None
        known = found[key][1] if key in found else None
        if is_asked and known is not None and key in asked:
            if _plain(known.spec) != _plain(placed.spec):
                problems.append(
                    f"{known} and {placed} are one tensor, and cannot lie both by "
                    f"{known.spec} and by {placed.spec}"
                )
        elif known is None or is_asked or (known.spec == WHOLE and key not in asked):
            found[key] = tensor, placed
        asked |= {key} if is_asked else set()
    return found


def _spec(name: str, lines: Sequence[Asked]) -> Spec | None:
    """What the line for a name says axis by axis, if it does."""
    line = first(lines, name)
    return None if line is None else line.spec


def _plain(spec: Spec) -> Spec:
    """The same for specs that divide alike: axes at the end are whole anyhow."""
    parts = [shares(part) for part in spec]
    while parts and not parts[-1]:
        parts.pop()
    return tuple(parts)


class _Choices:
    """What lines and rules say of each port; rules are asked once, and in order."""

    def __init__(
        self,
        graph: Graph,
        lines: Sequence[Asked],
        sizes: Sizes,
        names: Mapping[OutputPort, str],
    ) -> None:
        self._names = names
        self._graph = graph
        self._lines = lines
        self._sizes = sizes
        self._specs: dict[OutputPort, list[Any]] = {}
        self._why: dict[OutputPort, str] = {}
        rules = dict.fromkeys(rule for line in lines for rule in line.rules)
        for rule in rules:
            self._follow(*rule)

    def _follow(self, name: str, axis: str) -> None:
        count = self._sizes[axis]

        def free(port: OutputPort, i: int) -> bool:
            spec = self._specs.get(port, [])
            if (i < len(spec) and spec[i] is not None) or axis in spec:
                return False
            line = first(self._lines, self._names[port])
            size = (shape_of(port) or ())[i]
            is_open = line is not None and (name, axis) in line.rules
            return is_open and isinstance(size, int) and size % count == 0

        for port, choice in RULES[name].choices(self._graph, free).items():
            line = first(self._lines, self._names[port])
            if line is not None and (name, axis) in line.rules:
                self._take(port, choice, axis)

    def _take(self, port: OutputPort, choice: Choice, axis: str) -> None:
        if choice.axis is None:
            self._why[port] = choice.why
            return
        spec = self._specs.setdefault(port, [])
        spec += [None] * (choice.axis + 1 - len(spec))
        spec[choice.axis] = axis

    def placed(self, kind: str, port: OutputPort) -> Placed:
        name = self._names[port]
        told = _spec(name, self._lines)
        if told is not None:
            return Placed(kind, name, told)
        spec = tuple(self._specs.get(port, WHOLE))
        return Placed(kind, name, spec, "" if spec else self._why.get(port, ""))


def _result(name: str, lines: Sequence[Asked]) -> Placed | None:
    """Where a result is to lie, if a line says so: it may ask for it whole."""
    told = _spec(name, lines)
    return None if told is None else Placed("result", name, told)


def _small(graph: Graph) -> Iterable[str]:
    """Names of constants, also of those that are numbers in a program."""
    return [op.name for op in graph.walk() if op.name is not None and op.is_constant]


def _warn(lines: Sequence[Asked], names: Sequence[str]) -> None:
    for text in unused(lines, names):
        warnings.warn(text, UserWarning, stacklevel=2)


def _form(port: OutputPort) -> str:
    found = port.type
    return str(found) if isinstance(found, TensorType) else "of an unknown type"
