"""Constant folding, as long as the graph does not grow."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from amanda.graph import Graph, Op, OutputPort, Provenance
from amanda.tensors import Tensor, contiguous_array
from amanda.types import DType, Sym, TensorType
from amanda_std.engine.budget import Budget, count_elements, work_of
from amanda_std.engine.traits import Trait
from amanda_std.engine.values import constant_of
from amanda_std.hub.effect_order import effect_of
from amanda_std.hub.op_access import (
    has_trait,
    is_std,
    op_arguments,
    operation_of,
)

_NAME = "fold"

MAX_FOLDED_BYTES = 1 << 16
"""A folded result may always have this many bytes."""


def fold(graph: Graph, most: int = MAX_FOLDED_BYTES) -> int:
    """Replace ops with known results by constants, in all graphs inside; returns how
    many.

    A result is known if all operands are constant or its type holds its content. One
    of more than `most` bytes must be no larger than those operands that no other op
    reads. What all of them may cost is in proportion to the constants that the graph
    had at first."""
    count = 0
    budget = Budget(_loaded_bytes(graph))
    repeated = _repeated_tensors(graph)
    for part in graph.graphs():
        for op in part:
            values = _known_results(op, most, budget, repeated=repeated)
            if values is not None:
                _replace(part, op, values)
                count += 1
    return count


def computed_constant(port: OutputPort, most_ops: int = 64) -> Tensor | None:
    """The content of a value that follows from constants by a few ops, else None."""
    graph = port.graph
    found: dict[OutputPort, Tensor | None] = {port: constant_of(port)}
    if graph is None or port.op is graph or found[port] is not None:
        return found[port]
    ops = graph.upstream(port)
    budget = Budget(MAX_FOLDED_BYTES)
    if len(ops) > most_ops:
        return None

    def content(value: OutputPort) -> Tensor | None:
        return found[value] if value in found else constant_of(value)

    for op in ops:
        values = _known_results(op, MAX_FOLDED_BYTES, budget, content)
        found.update(zip(op.outputs, values or (), strict=False))
    return found[port]


def _known_results(
    op: Op, most: int, budget: Budget,
    content: Callable[[OutputPort], Tensor | None] = constant_of,
    repeated: Container[int] = (),
) -> list[Tensor] | None:  # fmt: skip
    """The results of an op; `repeated` as of `_freed_bytes`."""
    if op.is_constant:
        return None
    contents = [_content_of_type(port) for port in op.outputs]
    are_in_types = all(tensor is not None for tensor in contents)
    inputs = () if are_in_types else op.inputs
    held = [None if v is None else content(v) for v in inputs]
    if any(t is None and v is not None for t, v in zip(held, inputs, strict=True)):
        return None  # the usual case
    if not is_std(op) or op.bodies or op.control_inputs:
        return None
    if effect_of(op) is not None or has_trait(op, Trait.NOT_FOLDED):
        return None
    if are_in_types:
        return [tensor for tensor in contents if tensor is not None]
    size = _result_bytes(op)
    if (
        size is None
        or size > max(most, _freed_bytes(op, held, repeated))
        or not _is_affordable(op, held, size, budget)
    ):
        return None
    args, attrs = op_arguments(op, lambda port: np.asarray(content(port)))
    with np.errstate(all="ignore"):
        made = operation_of(op).run(args, attrs)
    many = made if isinstance(made, tuple | list) else (made,)
    return [_tensor_of(value, most) for value in many]


def _freed_bytes(
    op: Op, held: Sequence[Tensor | None], repeated: Container[int]
) -> int:
    """The memory of operands that only this op reads; tensors whose ids are in
    `repeated` are operands of others too."""
    freed = {
        id(tensor): _stored_bytes(tensor)
        for tensor, value in zip(held, op.inputs, strict=True)
        if tensor is not None and value is not None
        and id(tensor) not in repeated and len(value.user_ops) == 1
    }  # fmt: skip
    return sum(freed.values())


def _repeated_tensors(graph: Graph) -> dict[int, Tensor]:
    """The tensors that several constants have, as tied weights are, by their ids."""
    seen: set[int] = set()
    found: dict[int, Tensor] = {}
    for part in graph.graphs():
        for op in part:
            if op.is_constant and op.output.user_ops:
                tensor = op.attrs["value"]
                if id(tensor) in seen:
                    found[id(tensor)] = tensor
                seen.add(id(tensor))
    return found


def _tensor_of(value: Any, most: int) -> Tensor:
    """A result as a tensor: a large one that is a view of a constant, such as a
    transposed weight, is copied when it is read."""
    is_view = isinstance(value, np.ndarray) and value.base is not None
    if not is_view or value.nbytes <= most or value.flags.c_contiguous:
        return Tensor.of(np.ascontiguousarray(value).reshape(np.shape(value)))
    return Tensor.lazy(
        partial(contiguous_array, value), DType.of(value.dtype), value.shape
    )


def _is_affordable(
    op: Op, held: Sequence[Tensor | None], size: int, budget: Budget
) -> bool:
    """Whether the budget covers an op, which is charged for it."""
    result = count_elements(v.type for v in op.outputs if v.type is not None) or 0
    operands = [_element_count(tensor) for tensor in held if tensor is not None]
    work = work_of(operands, result) * prod(op.attrs.get("window") or ())
    work *= len(str(op.attrs.get("pattern", "?")))
    return budget.take(work, size)


def _element_count(tensor: Tensor) -> int:
    """The elements of a constant; of strings, their bytes."""
    return tensor.nbytes if tensor.dtype.kind == "string" else tensor.size


def _loaded_bytes(graph: Graph) -> int:
    """The memory of the constants that are not results of folding."""
    found = {
        id(op.attrs["value"]): _stored_bytes(op.attrs["value"])
        for part in graph.graphs()
        for op in part
        if op.is_constant and (op.provenance is None or op.provenance.by != _NAME)
    }
    return sum(found.values())


def _stored_bytes(tensor: Tensor) -> int:
    """The memory of a constant; a splat stores one element."""
    return tensor.dtype.bits // 8 if tensor.stores_one_element else tensor.nbytes


def _content_of_type(port: OutputPort) -> Tensor | None:
    """The content of a type, if it is static."""
    found = port.type
    if not isinstance(found, TensorType) or found.elements is None:
        return None
    if any(isinstance(d, Sym) for d in found.elements):
        return None
    flat = np.array(found.elements, found.dtype.numpy)
    return Tensor.of(flat.reshape([int(d) for d in found.shape]))


def _result_bytes(op: Op) -> int | None:
    """The size of the results in bytes; None if unknown."""
    total = 0
    for port in op.outputs:
        found = port.type
        if not isinstance(found, TensorType) or not found.shape.is_static:
            return None
        if not found.dtype.bits:
            return None
        total += prod(int(d) for d in found.shape) * found.dtype.bits // 8
    return total


def _replace(graph: Graph, op: Op, values: list[Tensor]) -> None:
    source = op.provenance.sources if op.provenance else (op.name or op.type or "?",)
    made = []
    with graph.before(op):
        for tensor in values:
            constant = graph.constant(tensor)
            constant.provenance = Provenance(source, _NAME)
            constant.output.type = tensor.type_with_content()
            made.append(constant.output)
    name, names = op.name, [port.name for port in op.outputs]
    weight = _weight_of(op)
    graph.replace(op, made, _NAME)
    for port, own in zip(made, names, strict=True):
        port.name = own
    if weight is not None and len(made) == 1:
        name = weight.name
        graph.remove(weight)
    if name is not None and len(made) == 1:
        graph.rename(made[0].op, name)


def _weight_of(op: Op) -> Op | None:
    """The named constant that a result is, transposed or of another dtype; it
    takes over the name if nothing else reads the constant."""
    constants = [value.op for value in op.inputs if value is not None]
    is_same = has_trait(op, Trait.PERMUTES_AXES) or has_trait(op, Trait.CASTS)
    if len(constants) != 1 or not is_same:
        return None
    [constant] = constants
    is_own = constant.graph is op.graph and len(constant.output.users) == 1
    return constant if constant.name is not None and is_own else None
