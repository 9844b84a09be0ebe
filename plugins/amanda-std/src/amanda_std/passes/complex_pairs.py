"""Complex numbers as pairs of real ones, for targets that have no complex types.

Ops on complex values are replaced by ops on their parts, by the rule that each op
declares (`on_complex_parts`, `Trait.PARTWISE`), else by its definition. A complex input
or result of the graph, or of a body, becomes a real one with a new last axis of two
elements, the real and the imaginary part, and keeps its name. Values between ops are
two real values each; the new axis appears only where an op has pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard

import numpy as np

from amanda.errors import InvalidTypeError, Undecided
from amanda.graph import VALUE_NOTE, Graph, Op, OutputPort, Provenance, bulk
from amanda.mapping import Decline
from amanda.tensors import Tensor
from amanda.types import OptionalType, SequenceType, Shape, TensorType
from amanda_std.engine.operation import Operation
from amanda_std.engine.traits import Trait
from amanda_std.engine.values import (
    Value,
    constant_of,
    lift,
    require_tracing,
    tracing,
    value_type,
)
from amanda_std.hub.expansion import expand, replace_op
from amanda_std.hub.op_access import is_std, operation_of, traced_arguments
from amanda_std.ops._complex_parts import (
    ComplexParts,
    compute_by_parts,
    real_dtype_of,
)
from amanda_std.ops.math.complex_numbers import complex_, imag, real
from amanda_std.passes.infer import infer_ops

BY = "complex_as_pairs"
_MAX_INSPECTED = 1 << 12
"""The most elements of a constant that are compared with 0."""


def complex_as_pairs(graph: Graph, keeps: Callable[[Op], bool] | None = None) -> int:
    """Replace complex values by real ones; returns the number of ops replaced.

    Types must be inferred. Ops without a rule keep complex operands, made from the
    parts. `keeps` holds for ops that stay where all complex values between them are
    inside the graph, as in a pattern that a target has an op for."""
    if not any(_has_complex_values(part) for part in graph.graphs()):
        return 0
    kept = set() if keeps is None else _kept_ops(graph, keeps)
    with bulk():
        lowering = _Lowering(kept)
        for function in graph.functions.values():
            lowering.run(function)
        lowering.run(graph)
        return lowering.finish()


def _is_complex(type_: object) -> TypeGuard[TensorType]:
    return isinstance(type_, TensorType) and real_dtype_of(type_.dtype) is not None


def _has_complex_values(graph: Graph) -> bool:
    if any(map(_is_complex_inside, graph)):
        return True
    ports = (port for op in graph for port in op.outputs)
    return any(_is_complex(p.type) for p in (*graph.parameters, *ports)) or any(
        _is_complex(value_type(op.output)) for op in graph if op.is_constant
    )


def pairs_type(type_: TensorType) -> TensorType:
    """The type of pairs in the place of complex numbers."""
    dims = (*type_.shape.dims, 2) if type_.shape.has_rank else None
    dtype = real_dtype_of(type_.dtype)
    assert dtype is not None
    return TensorType(dtype, Shape(dims))


def _kept_ops(graph: Graph, keeps: Callable[[Op], bool]) -> set[Op]:
    """The largest set of ops that `keeps` holds for, closed under complex values."""
    found = {op for op in graph.walk() if _neighbors(op) and keeps(op)}
    while True:
        open_ = {op for op in found if any(n not in found for n in _neighbors(op))}
        if not open_:
            return found
        found -= open_


def _neighbors(op: Op) -> list[Op | None]:
    """The ops that an op shares complex values with; None for inputs and results."""
    read = [v for v in op.inputs if v is not None and _is_complex(value_type(v))]
    found: list[Op | None] = [value.op for value in read]
    for port in op.outputs:
        if _is_complex(port.type):
            found += [None if isinstance(u, Graph) else u for u in port.user_ops]
    return found


class _ConstantParts(ComplexParts):
    """A complex constant: each form is a constant, added when it is read."""

    def __init__(self, tensor: Tensor, name: str | None) -> None:
        super().__init__(real=tensor)
        self._tensor, self._name, self._real = tensor, name, None
        few = tensor.size <= _MAX_INSPECTED
        self.is_real = few and not np.any(tensor.numpy().imag)

    def copy(self) -> ComplexParts:
        return _ConstantParts(self._tensor, self._name)

    @property
    def ndim(self) -> int:
        return len(self._tensor.shape)

    def _part(self, index: int) -> Any:
        end = ("_re", "_im")[index]
        return self._add(lambda y: (y.real, y.imag)[index], self._tensor.shape, end)

    def _stack(self) -> Any:
        shape = (*self._tensor.shape, 2)
        return self._add(lambda y: np.stack([y.real, y.imag], -1), shape, "")

    def _add(self, take: Callable[[Any], Any], shape: Any, end: str) -> Any:
        tensor, into = self._tensor, require_tracing()
        dtype = real_dtype_of(tensor.dtype)
        assert dtype is not None
        form = Tensor.lazy(lambda: take(tensor.numpy()), dtype, shape)
        op = into.note(into.graph.constant(form))
        op.output.type = form.type_with_content()
        if self._name is not None and end:
            into.graph.rename(op, into.graph.fresh_name(self._name + end))
        return Value(op.output)


class _Lowering:
    """Replaces the complex values of a graph and of its bodies.

    The ops that compute complex values stay until the end, beside the new ones, so that
    definitions of composites find the types that they expect."""

    def __init__(self, kept: set[Op]) -> None:
        self._kept = kept
        self._parts: dict[OutputPort, ComplexParts] = {}
        self._copies: dict[tuple[Graph, OutputPort], ComplexParts] = {}
        """Values of outer graphs as a body reads them, whose forms are added to it."""
        self._replaced: list[tuple[Graph, Op]] = []

    def run(self, graph: Graph) -> None:
        """Replace the complex values of a graph, without removing what is replaced."""
        ops = list(graph)
        for port in graph.parameters:
            self._stand_in(graph, port, next(iter(ops), None))
        for op, following in zip(ops, [*ops[1:], None], strict=True):
            self._visit(graph, op, following)
        for place, value in zip(graph.result_ports, graph.results, strict=True):
            if value is not None and _is_complex(value_type(value)):
                pairs = self._pairs_at_end(graph, value)
                place.connect(pairs)
                graph.outputs[place.index].type = pairs.type
        for entry in graph.entries.values():
            for value in entry.outputs.values():
                if _is_complex(value_type(value)):
                    self._pairs_at_end(graph, value)

    def finish(self) -> int:
        """Remove the replaced ops, with forwards to pairs where there are any."""
        for graph, op in reversed(self._replaced):
            name, values = op.name, [self._known_pairs(port) for port in op.outputs]
            graph.replace(op, values, BY)
            heirs = [v.op for v in values if v is not None and v.op.name is None]
            if name is not None and len(heirs) == 1 and heirs[0].graph is graph:
                graph.rename(heirs[0], name)
        return len(self._replaced)

    # -- values ----------------------------------------------------------------

    def _parts_in(self, graph: Graph, port: OutputPort) -> ComplexParts:
        """A complex value as ops of a graph read it."""
        if port not in self._parts:
            tensor = constant_of(port)
            assert tensor is not None, port
            self._parts[port] = _ConstantParts(tensor, port.op.name)
            assert port.graph is not None
            self._replaced.append((port.graph, port.op))
        if port.graph is graph:
            return self._parts[port]
        key = graph, port
        if key not in self._copies:
            self._copies[key] = self._parts[port].copy()
        return self._copies[key]

    def _known_pairs(self, port: OutputPort) -> OutputPort | None:
        parts = self._parts.get(port)
        pairs = None if parts is None else parts.known_pairs
        return None if pairs is None else pairs.port

    def _pairs_at_end(self, graph: Graph, value: OutputPort) -> OutputPort:
        with tracing(graph, None, _provenance(value.op)) as into:
            return lift(self._parts_in(graph, value).pairs, into)

    def _stand_in(self, graph: Graph, port: OutputPort, before: Op | None) -> None:
        """Make pairs of an input, or of a result of an op that stays, and add an op
        that stands for the complex numbers."""
        type_ = port.type
        if not isinstance(type_, TensorType) or not _is_complex(type_):
            return
        with graph.before(before):
            op = graph.add("from_pairs", [port])
        op.output.type = type_
        graph.replace_uses(port, op.output)
        port.type = pairs_type(type_)
        initial = port.attrs.get(VALUE_NOTE) if port.has_attrs else None
        if isinstance(initial, Tensor):
            z = initial.numpy()
            port.attrs[VALUE_NOTE] = Tensor.of(np.stack([z.real, z.imag], -1))
        self._parts[op.output] = ComplexParts(pairs=Value(port))
        self._replaced.append((graph, op))

    # -- ops -------------------------------------------------------------------

    def _visit(self, graph: Graph, op: Op, following: Op | None) -> None:
        if op in self._kept or op.is_constant:
            return
        bodies = [op] if isinstance(op, Graph) else list(op.bodies.values())
        if any(map(_reads_complex_values, bodies)) or (
            _carries_values(op) and _touches_complex_values(op)
        ):
            for body in bodies:
                self.run(body)
            self._connect_pairs(graph, op, following)
        elif is_std(op) and _touches_complex_values(op):
            self._replace(graph, op, following)

    def _connect_pairs(self, graph: Graph, op: Op, following: Op | None) -> None:
        """Let an op that only passes values on have pairs."""
        _count_axes_from_front(op)
        with tracing(graph, op, _provenance(op)):
            for place in op.input_ports:
                value = place.source
                if value is not None and _is_complex(value_type(value)):
                    place.connect(self._parts_in(graph, value).pairs.port)
        before = [port.type for port in op.outputs]
        infer_ops([op])
        for port, old in zip(op.outputs, before, strict=True):
            if _is_complex(old):
                port.type = old
                self._stand_in(graph, port, following)

    def _replace(self, graph: Graph, op: Op, following: Op | None) -> None:
        operation = operation_of(op)
        try:
            found = self._compute(graph, op, operation)
        except (Decline, Undecided):
            found = None
        if found is not None:
            self._put(graph, op, *found)
            return
        try:
            made = [] if operation.definition is None else expand(op, None, BY)
        except (Decline, Undecided, InvalidTypeError):  # a definition for real numbers
            made = []
        for each in made:
            if each.graph is graph:
                self._visit(graph, each, following)
        if not made:
            self._leave(graph, op, following)

    def _compute(
        self, graph: Graph, op: Op, operation: Operation
    ) -> tuple[list[Any], set[Op]] | None:
        """The results of an op on parts, and the new ops; None without a rule."""
        rule, traits = operation.complex_rule, operation.traits
        is_partwise = Trait.PARTWISE in traits
        if rule is None and not is_partwise and Trait.SHAPE_QUERY not in traits:
            return None
        with tracing(graph, op, _provenance(op)) as into:
            try:
                args, attrs = self._arguments(graph, op, operation)
                if rule is not None:
                    found = rule(*args, **attrs)
                elif is_partwise:
                    found = compute_by_parts(operation, args, attrs)
                else:
                    found = operation(args[0].real, *args[1:], **attrs)
                values = found if isinstance(found, tuple | list) else [found]
                real = (v for v in values if not isinstance(v, ComplexParts))
                ports = {id(v): Value(lift(v, into)) for v in real}
            except (Decline, Undecided):
                into.take_back(0)
                raise
        return [ports.get(id(v), v) for v in values], set(into.made)

    def _arguments(
        self, graph: Graph, op: Op, operation: Operation
    ) -> tuple[list[Any], dict[str, Any]]:
        args, attrs = traced_arguments(op)
        if operation.form.varies and "outputs" in attrs:
            attrs["outputs"] = attrs["outputs"] or len(op.outputs)
        if real_dtype_of(attrs.get("dtype")) and Trait.PARTWISE in operation.traits:
            attrs["dtype"] = real_dtype_of(attrs["dtype"])
        return [self._argument(graph, arg) for arg in args], attrs

    def _argument(self, graph: Graph, arg: Any) -> Any:
        is_complex = isinstance(arg, Value) and _is_complex(value_type(arg.port))
        return self._parts_in(graph, arg.port) if is_complex else arg

    def _put(self, graph: Graph, op: Op, values: list[Any], made: set[Op]) -> None:
        """Let users of an op read the values that replace its results."""
        if not any(isinstance(v, ComplexParts) for v in values):
            replace_op(graph, op, [v.port for v in values], made, BY)
            return
        for port, value in zip(op.outputs, values, strict=True):
            if isinstance(value, ComplexParts):
                self._parts[port] = value
            else:
                graph.replace_uses(port, value.port)
        self._replaced.append((graph, op))

    def _leave(self, graph: Graph, op: Op, following: Op | None) -> None:
        """Let an op without a rule read complex numbers, made from their parts."""
        with tracing(graph, op, _provenance(op)):
            for place in op.input_ports:
                value = place.source
                if value is not None and _is_complex(value_type(value)):
                    parts = self._parts_in(graph, value)
                    place.connect(complex_(parts.real, parts.imag).port)
        for port in op.outputs:
            if _is_complex(port.type):
                with tracing(graph, following, _provenance(op)):
                    y = Value(port)
                    self._parts[port] = ComplexParts(real(y), imag(y))


def _provenance(op: Op) -> Provenance:
    known = op.provenance
    return Provenance(known.sources if known else (op.name or op.type or "?",), BY)


def _carries_values(op: Op) -> bool:
    """Whether an op passes values on, of any element type and rank."""
    if isinstance(op, Graph):
        return True
    if not is_std(op):
        return False
    operation = operation_of(op)
    if Trait.CONTAINER in operation.traits or operation.unrolled is not None:
        return True
    return operation.body_rule is not None


def _is_complex_inside(op: Op) -> bool:
    return is_std(op) and Trait.COMPLEX_INSIDE in operation_of(op).traits


def _touches_complex_values(op: Op) -> bool:
    if _is_complex_inside(op):
        return True
    values = (*(v for v in op.inputs if v is not None), *op.outputs)
    return any(_holds_complex(value_type(v)) for v in values)


def _holds_complex(type_: object) -> bool:
    while isinstance(type_, SequenceType | OptionalType):
        type_ = type_.element
    return _is_complex(type_)


def _reads_complex_values(body: Graph) -> bool:
    return any(_has_complex_values(part) for part in body.graphs()) or any(
        _holds_complex(value_type(v)) for v in body.captures
    )


def _count_axes_from_front(op: Op) -> None:
    """Make axes of scanned complex values independent of the axis of pairs.

    Those of the last values that an op with bodies reads or returns, and the one that
    a sequence is made of or put together along."""
    axis = op.attrs.get("axis") if op.has_attrs else None
    if isinstance(axis, int) and axis < 0:
        whole = (v.type for v in (*op.inputs, *op.outputs) if v is not None)
        ranks = [t.shape.rank for t in whole if _is_complex(t)]
        op.attrs["axis"] = axis % ranks[0] if ranks else axis
    for key, ports in (("axes", op.inputs), ("out_axes", op.outputs)):
        axes = list(op.attrs.get(key) or ()) if op.has_attrs else []
        for i in range(-len(axes), 0):
            port = ports[i]
            type_ = None if port is None else value_type(port)
            if axes[i] < 0 and isinstance(type_, TensorType) and _is_complex(type_):
                axes[i] += type_.shape.rank
        if axes:
            op.attrs[key] = tuple(axes)
