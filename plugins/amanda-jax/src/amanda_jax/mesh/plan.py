"""The sharding plan: the graph prepared for a mesh, and a spec for each of its arrays.

Weights that `shardings` names axis by axis keep their names and their axes: they are
taken out of the graph while the passes run, so that none transposes or merges them.
Policies apply to the weights after the passes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from amanda.errors import BackendError, InvalidTypeError
from amanda.graph import Graph, OutputPort
from amanda.tensors import Tensor
from amanda.types import Sym, TensorType
from amanda_jax.mesh.policies import POLICIES, ShardingChoice, shape_of
from amanda_jax.mesh.specs import (
    WHOLE,
    ShardingLine,
    Sizes,
    Spec,
    matching_line,
    mesh_axes_of,
    unused_patterns,
    why_not_divisible,
)
from amanda_jax.shapes.static_values import analyze_static_values
from amanda_jax.weights.device_weights import is_weight

__all__ = ["PortSharding", "ShardingPlan", "prepare_for_mesh", "sharding_plan"]

Shape = Sequence[Any] | None
"""Sizes, with symbols for those known only in a call; None for an unknown rank."""


class PortSharding(NamedTuple):
    """An input, a weight or a result, and how it is sharded."""

    kind: str
    name: str
    spec: Spec
    why: str = ""
    """Why it is whole, where a policy was to shard it."""

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r}"


class ShardingPlan(NamedTuple):
    """How all arrays that enter or leave the mesh are sharded."""

    sizes: Sizes
    inputs: tuple[PortSharding, ...]
    weights: dict[int, tuple[Tensor, PortSharding]]
    """By the identity of the tensor."""
    results: tuple[PortSharding | None, ...]
    """None for a result whose sharding is not specified."""
    shapes: tuple[Sequence[Shape], Sequence[Shape]] = ((), ())
    """The shapes of the inputs and of the results, as far as types have them."""

    def weight(self, tensor: Tensor) -> PortSharding:
        """How a weight is sharded; one that the plan does not have is whole."""
        row = self.weights.get(id(tensor))
        return row[1] if row is not None else PortSharding("weight", "?", WHOLE)

    def result_shapes(
        self, given: Iterable[Sequence[int]]
    ) -> Iterator[tuple[PortSharding, Sequence[Any]]]:
        """The results with a specified sharding, and their shapes for these shapes of
        the feeds; dims that do not follow from these stay symbolic."""
        inputs, results = self.shapes
        if not any(self.results):
            return
        known = {
            dim: size
            for dims, shape in zip(inputs, given, strict=True)
            for dim, size in zip(dims or (), shape, strict=False)
            if isinstance(dim, Sym) and dim.free == {dim}
        }
        for port, dims in zip(self.results, results, strict=True):
            if port is not None and dims is not None:
                yield port, [_size(dim, known) for dim in dims]


def _size(dim: Any, known: Mapping[Any, int]) -> Any:
    """The size of a dim, or the dim itself where it is not known."""
    try:
        return dim.substitute(known) if isinstance(dim, Sym) else dim
    except InvalidTypeError:  # a division by a size that is 0 in this call
        return dim


def prepare_for_mesh(
    graph: Graph, lines: Sequence[ShardingLine], prepare: Callable[[Graph], Graph]
) -> Graph:
    """Run the passes, with the weights that `lines` name axis by axis unchanged."""
    copy = graph.clone()
    extracted = list(_extract_weights(copy, lines))
    prepared = prepare(copy)
    first_op, count = (
        next(iter(prepared), None),
        len(prepared.parameters) - len(extracted),
    )
    for i, (tensor, name) in reversed([*enumerate(extracted, count)]):
        with prepared.before(first_op):
            constant = prepared.constant(
                tensor, None if name in prepared else name
            ).output
        constant.type = prepared.parameters[i].type
        for part in prepared.graphs():
            part.replace_uses(prepared.parameters[i], constant)
        prepared.remove_parameter(i)
    return prepared


def _extract_weights(
    graph: Graph, lines: Sequence[ShardingLine]
) -> Iterator[tuple[Tensor, str]]:
    """Turn weights into inputs for the time of the passes; yield what they were."""
    static = analyze_static_values(graph).constants
    for part in list(graph.graphs()):
        for op in list(part):
            if op.name is None or not is_weight(op) or op.output in static:
                continue
            line = matching_line(lines, op.name)
            if line is None or line.spec is None:
                continue
            parameter = graph.parameter(op.output.type)
            part.replace_uses(op.output, parameter)
            part.remove(op)
            yield op.attrs["value"], op.name


# -- planning ------------------------------------------------------------------------


def sharding_plan(
    graph: Graph, lines: Sequence[ShardingLine], sizes: Sizes
) -> ShardingPlan:
    """Plan the sharding of a prepared graph. All problems are reported at once."""
    weights = {
        op.output: op.name or f"weight{i}"
        for i, op in enumerate(op for op in graph if op.is_constant)
        if is_weight(op)
    }
    inputs: dict[OutputPort, str] = {
        port: port.name or str(port.index) for port in graph.parameters
    }
    choices = _SpecChooser(graph, lines, sizes, {**inputs, **weights})
    problems: list[str] = []
    shardings: dict[OutputPort, PortSharding] = {}
    for kind, ports in (("input", inputs), ("weight", weights)):
        for port in ports:
            shardings[port] = choices.port_sharding(kind, port)
            problems += _problems(shardings[port], port, sizes)
    by_tensor = _shardings_by_tensor(
        {port: shardings[port] for port in weights}, lines, problems
    )
    results = [port.name or str(port.index) for port in graph.outputs]
    specified = tuple(_result_sharding(name, lines) for name in results)
    for port_sharding, value in zip(specified, graph.results, strict=True):
        if port_sharding is not None and value is not None:
            problems += _problems(port_sharding, value, sizes)
    if problems:
        raise BackendError(
            "not everything can be sharded over the mesh as specified",
            problems=problems,
            hint="shard another axis, leave it whole with None in `shardings`, or take "
            "a mesh whose sizes divide it; give all names of one tensor one spec",
        )
    _warn_unused(
        lines, [*inputs.values(), *weights.values(), *_constant_names(graph), *results]
    )
    fed = [shape_of(port) for port in inputs]
    result_shapes = [None if port is None else shape_of(port) for port in graph.results]
    return ShardingPlan(
        sizes,
        tuple(shardings[port] for port in inputs),
        by_tensor,
        specified,
        (fed, result_shapes),
    )


def _problems(
    port_sharding: PortSharding, port: OutputPort, sizes: Sizes
) -> Iterator[str]:
    """Why an array cannot be sharded as specified, as far as its type says."""
    shape = shape_of(port)
    why = (
        why_not_divisible(port_sharding.spec, shape, sizes) if shape is not None else ""
    )
    if why:
        yield f"{port_sharding} is {_type_text(port)}: {why}"


def _shardings_by_tensor(
    weights: Mapping[OutputPort, PortSharding],
    lines: Sequence[ShardingLine],
    problems: list[str],
) -> dict[int, tuple[Tensor, PortSharding]]:
    """The sharding of each tensor, which may have several names: lines come before
    policies, and a sharded spec before a whole one."""
    shardings: dict[int, tuple[Tensor, PortSharding]] = {}
    specified_keys: set[int] = set()
    for port, port_sharding in weights.items():
        tensor = port.op.attrs["value"]
        key = id(tensor)
        is_specified = _specified_spec(port_sharding.name, lines) is not None
        known = shardings[key][1] if key in shardings else None
        if is_specified and known is not None and key in specified_keys:
            if _canonical(known.spec) != _canonical(port_sharding.spec):
                problems.append(
                    f"{known} and {port_sharding} are one tensor, and cannot be "
                    f"sharded both by {known.spec} and by {port_sharding.spec}"
                )
        elif (
            known is None
            or is_specified
            or (known.spec == WHOLE and key not in specified_keys)
        ):
            shardings[key] = tensor, port_sharding
        specified_keys |= {key} if is_specified else set()
    return shardings


def _specified_spec(name: str, lines: Sequence[ShardingLine]) -> Spec | None:
    """The spec of the line for a name, if it has one."""
    line = matching_line(lines, name)
    return None if line is None else line.spec


def _canonical(spec: Spec) -> Spec:
    """The same without whole axes at the end: equal for specs that shard alike."""
    parts = [mesh_axes_of(part) for part in spec]
    while parts and not parts[-1]:
        parts.pop()
    return tuple(parts)


class _SpecChooser:
    """The spec of each port by lines and policies, which are applied once, in order."""

    def __init__(
        self,
        graph: Graph,
        lines: Sequence[ShardingLine],
        sizes: Sizes,
        names: Mapping[OutputPort, str],
    ) -> None:
        self._names = names
        self._graph = graph
        self._lines = lines
        self._sizes = sizes
        self._specs: dict[OutputPort, list[Any]] = {}
        self._why: dict[OutputPort, str] = {}
        policies = dict.fromkeys(use for line in lines for use in line.policies)
        for use in policies:
            self._apply_policy(*use)

    def _apply_policy(self, name: str, axis: str) -> None:
        count = self._sizes[axis]

        def can_shard(port: OutputPort, i: int) -> bool:
            spec = self._specs.get(port, [])
            if (i < len(spec) and spec[i] is not None) or axis in spec:
                return False
            line = matching_line(self._lines, self._names[port])
            size = (shape_of(port) or ())[i]
            is_open = line is not None and (name, axis) in line.policies
            return is_open and isinstance(size, int) and size % count == 0

        for port, choice in POLICIES[name].choices(self._graph, can_shard).items():
            line = matching_line(self._lines, self._names[port])
            if line is not None and (name, axis) in line.policies:
                self._record_choice(port, choice, axis)

    def _record_choice(
        self, port: OutputPort, choice: ShardingChoice, axis: str
    ) -> None:
        if choice.axis is None:
            self._why[port] = choice.why
            return
        spec = self._specs.setdefault(port, [])
        spec += [None] * (choice.axis + 1 - len(spec))
        spec[choice.axis] = axis

    def port_sharding(self, kind: str, port: OutputPort) -> PortSharding:
        name = self._names[port]
        specified = _specified_spec(name, self._lines)
        if specified is not None:
            return PortSharding(kind, name, specified)
        spec = tuple(self._specs.get(port, WHOLE))
        return PortSharding(kind, name, spec, "" if spec else self._why.get(port, ""))


def _result_sharding(name: str, lines: Sequence[ShardingLine]) -> PortSharding | None:
    """The sharding of a result, if a line specifies it; it may be whole."""
    specified = _specified_spec(name, lines)
    return None if specified is None else PortSharding("result", name, specified)


def _constant_names(graph: Graph) -> Iterable[str]:
    """The names of constants, also of those that are numbers in a program."""
    return [op.name for op in graph.walk() if op.name is not None and op.is_constant]


def _warn_unused(lines: Sequence[ShardingLine], names: Sequence[str]) -> None:
    for text in unused_patterns(lines, names):
        warnings.warn(text, UserWarning, stacklevel=2)


def _type_text(port: OutputPort) -> str:
    own = port.type
    return str(own) if isinstance(own, TensorType) else "of an unknown type"
