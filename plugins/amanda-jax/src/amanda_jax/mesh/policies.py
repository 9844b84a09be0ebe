"""Rules by which inputs and weights are divided over an axis of a mesh."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from amanda.graph import Graph, Op, OutputPort, Parameter
from amanda.types import TensorType
from amanda_jax.shapes.static_values import followed
from amanda_jax.weights.device_weights import is_weight
from amanda_std.backends import is_std

__all__ = ["RULES", "Choice", "Rule", "is_held", "shape_of"]

Free = Callable[[OutputPort, int], bool]
"""Whether an axis of a value can still be divided, evenly."""


class Choice(NamedTuple):
    """The axis along which something is divided, or why it is not."""

    axis: int | None
    why: str = ""


class Rule(NamedTuple):
    """What is divided, over which axis of the mesh where none is named."""

    axis: str
    choices: Callable[[Graph, Free], dict[OutputPort, Choice]]


def shape_of(port: OutputPort) -> tuple[Any, ...] | None:
    """The shape of a value, with symbols in it; None where the rank is not known."""
    if is_held(port):
        return tuple(port.op.attrs["value"].shape)
    found = port.type
    if not isinstance(found, TensorType) or not found.shape.has_rank:
        return None
    return tuple(found.shape.dims)


def is_held(port: OutputPort) -> bool:
    """Whether a value is a constant."""
    return type(port) is not Parameter and port.op.is_constant


# -- inputs --------------------------------------------------------------------------


def batch(graph: Graph, free: Free) -> dict[OutputPort, Choice]:
    """The first axis of the first input that has one, and of those that share it."""
    del free  # what cannot be divided is told: nobody wants it whole without knowing
    on_host = set(followed(graph).data)
    found: dict[OutputPort, Choice] = {}
    shared: Any = None
    for port in graph.parameters:
        shape = shape_of(port)
        if not shape or port in on_host:
            continue
        size = getattr(shape[0], "key", shape[0])  # symbols do not tell what they equal
        shared = size if shared is None else shared
        if size == shared:
            found[port] = Choice(0)
    return found


# -- weights -------------------------------------------------------------------------


def largest(graph: Graph, free: Free) -> dict[OutputPort, Choice]:
    """Every weight along its largest axis that can be divided."""
    found = {}
    for port in _weights(graph):
        shape = shape_of(port) or ()
        order = [i for _, i in sorted((-size, i) for i, size in enumerate(shape))]
        axis = next((i for i in order if free(port, i)), None)
        why = "" if axis is not None else "no axis of it can be divided evenly"
        found[port] = Choice(axis, why)
    return found


def _weights(graph: Graph) -> Iterator[OutputPort]:
    on_host = followed(graph).constants
    for op in graph:
        if is_weight(op) and op.output not in on_host:
            yield op.output


def alternating(graph: Graph, free: Free) -> dict[OutputPort, Choice]:
    """Weights of products by columns, then by rows, and so on along the graph.

    A product with columns gives its last axis in parts; what is made of it stays so,
    until a product by rows adds the parts up. Nothing is handed round in between."""
    found: dict[OutputPort, Choice] = {}
    divided: set[OutputPort] = set()
    fresh: dict[OutputPort, int] = {}
    weights = set(_weights(graph))
    for op in graph:
        product = _product(op) if is_std(op) else None
        if product is not None and product.weight in weights:
            by_rows = product.x in divided
            axis = product.rows if by_rows else product.columns
            if not free(product.weight, axis):
                why = f"its {'rows' if by_rows else 'columns'} cannot be divided evenly"
                found.setdefault(product.weight, Choice(None, why))
                continue
            found.setdefault(product.weight, Choice(axis))
            if not by_rows:
                divided.update(op.outputs)
                shape = shape_of(product.weight) or ()
                fresh[op.output] = shape[product.columns]
                if product.bias in weights and free(product.bias, 0):
                    found.setdefault(product.bias, Choice(0))
        elif any(v in divided for v in op.inputs):
            divided.update(op.outputs)
            for bias, size in _biases(op, fresh):
                axis = len(shape_of(bias) or ()) - 1
                if bias in weights and free(bias, axis):
                    found.setdefault(bias, Choice(axis))
                    fresh[op.output] = size
    return found


class _Product(NamedTuple):
    x: OutputPort
    weight: OutputPort
    rows: int
    columns: int
    bias: Any = None


def _product(op: Op) -> _Product | None:
    """A product with a matrix that is a constant, and which of its axes are which."""
    if op.type not in ("matmul", "linear", "einsum"):
        return None
    given: list[OutputPort | None] = [*op.inputs, None, None]
    x, weight, *more = given
    if x is None or weight is None or not is_held(weight):
        return None
    if len(shape_of(weight) or ()) != 2:
        return None
    if op.type != "einsum":
        return _Product(x, weight, 0, 1, more[0])
    axes = _einsum_axes(str(op.attrs["equation"])) if len(op.inputs) == 2 else None
    return None if axes is None else _Product(x, weight, *axes)


def _einsum_axes(equation: str) -> tuple[int, int] | None:
    """Which axis of the second operand is added up, and which one is the last of the
    result; None where it is no product with a matrix."""
    terms, _, result = equation.replace(" ", "").partition("->")
    _, _, matrix = terms.partition(",")
    if len(matrix) != 2 or not result or result[-1] not in matrix:
        return None
    columns = matrix.index(result[-1])
    rows = 1 - columns
    return None if matrix[rows] in result else (rows, columns)


def _biases(op: Op, fresh: dict[OutputPort, int]) -> Iterator[tuple[OutputPort, int]]:
    """What is added to the columns of a product, as they are, with their number."""
    sizes = [fresh[v] for v in op.inputs if v is not None and v in fresh]
    if op.type != "add" or len(sizes) != 1:
        return
    for value in op.inputs:
        if value is None or value in fresh or not is_held(value):
            continue
        shape = shape_of(value)
        if shape and shape[-1] == sizes[0] and all(n == 1 for n in shape[:-1]):
            yield value, sizes[0]


RULES: Final = {
    "batch": Rule("data", batch),
    "megatron": Rule("model", alternating),
    "fsdp": Rule("data", largest),
}
