"""Sizes that are known at run time only: symbolic dims as values of the graph.

An op whose attributes have symbols gets the sizes of inputs of the graph that have
these symbols as its last inputs; its mapping function computes the dims from them.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from amanda.errors import ConversionError
from amanda.graph import Graph, Op, OutputPort
from amanda.mapping import Decline
from amanda.types import Dim, DType, Sym, TensorType, dim_key
from amanda_std import ops

__all__ = [
    "END",
    "INT64",
    "add_size_inputs",
    "cast_size",
    "compute_dims",
    "count_along",
    "count_up",
    "has_symbols",
    "is_same",
    "is_zero",
    "shape_argument",
    "size_vector",
    "symbols_of",
]

INT64: Final = DType("int64")
END: Final = 2**63 - 1
"""A stop beyond the end of every axis."""


# -- sizes as inputs of ops ------------------------------------------------------------


def add_size_inputs(graph: Graph) -> Graph:
    """A copy in which ops read the sizes that symbols of their attributes need.

    The graph itself where no attribute has symbols."""
    if not any(symbols_of(op) for op in graph.walk()):
        return graph
    copy = graph.clone()
    sizes = _InputSizes(copy)
    for op in list(copy.walk()):
        for symbol in symbols_of(op):
            op.add_input(sizes.find(symbol, op))
    return copy


def symbols_of(op: Op) -> list[Sym]:
    """The symbols in attributes of an op, by name."""
    if not op.has_attrs:
        return []
    found = {s for dim in _symbolic_dims(op.attrs.values()) for s in dim.free}
    return sorted(found, key=str)


def _symbolic_dims(values: Iterable[Any]) -> Iterator[Sym]:
    for value in values:
        if isinstance(value, Sym):
            yield value
        elif isinstance(value, list | tuple):
            yield from _symbolic_dims(value)
        elif isinstance(value, Mapping):
            yield from _symbolic_dims(value.values())


def has_symbols(attribute: Any) -> bool:
    """Whether an attribute, or a list in it, has a symbolic dim."""
    return next(_symbolic_dims([attribute]), None) is not None


class _InputSizes:
    """The sizes of inputs by which symbols are known, as values of the graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._found: dict[Sym, OutputPort] = {}

    def find(self, symbol: Sym, op: Op) -> OutputPort:
        """The size that has a symbol; ConversionError where no input has it."""
        if symbol not in self._found:
            place = self._place(symbol)
            if place is None:
                raise ConversionError(
                    f"{op.label} needs the size {symbol}, which no input determines",
                    expected=f"an input with a dim {symbol}, or a multiple of it",
                    got=", ".join(f"{p.name}: {p.type}" for p in self.graph.parameters),
                )
            self._found[symbol] = self._add(*place)
        return self._found[symbol]

    def _place(self, symbol: Sym) -> tuple[OutputPort, int] | None:
        """An input and an axis; one whose size is the symbol itself, if any has it."""
        places = [
            (dim.key != symbol.key, i, axis)
            for i, port in enumerate(self.graph.parameters)
            if isinstance(port.type, TensorType) and port.type.shape.has_rank
            for axis, dim in enumerate(port.type.shape)
            if isinstance(dim, Sym) and _solve(dim, symbol) is not None
        ]
        if not places:
            return None
        _, i, axis = min(places)
        return self.graph.parameters[i], axis

    def _add(self, port: OutputPort, axis: int) -> OutputPort:
        with self.graph.before(self.graph.ops[0]):
            op = self.graph.add("dimension_size", [port], {"dimension": axis})
        return op.output


def _solve(dim: Sym, symbol: Sym) -> tuple[int, int] | None:
    """`(factor, offset)` where a dim is `factor * symbol + offset`; else None."""
    if dim.free != {symbol}:
        return None
    offset, total = (dim.substitute({symbol: n}) for n in (0, 1))
    if isinstance(offset, Sym) or isinstance(total, Sym):
        return None
    factor = total - offset
    is_linear = dim_key(symbol * factor + offset) == dim.key
    return (factor, offset) if is_linear and factor else None


# -- sizes in mapping functions --------------------------------------------------------


def compute_dims(dims: Iterable[Dim], sizes: Sequence[Any]) -> list[Any]:
    """Dims as numbers, and as values where they have symbols of these sizes."""
    known: dict[Sym, Any] = {}
    for size in sizes:
        dim = size.type.value
        for symbol in dim.free if isinstance(dim, Sym) else ():
            factor, offset = _solve(dim, symbol) or (1, 0)
            value = size - offset if offset else size
            known[symbol] = value if factor == 1 else value // factor
    return [_compute(dim, known) for dim in dims]


def _compute(dim: Dim, known: Mapping[Sym, Any]) -> Any:
    """The value of a dim, by its text with names that Python parses."""
    if not isinstance(dim, Sym):
        return dim
    if not dim.free <= known.keys():
        raise Decline(f"the size {dim} is not known")
    names = {symbol: f"s{i}" for i, symbol in enumerate(dim.free)}
    renamed = dim.substitute({symbol: Sym.named(names[symbol]) for symbol in names})
    values = {name: known[symbol] for symbol, name in names.items()}
    return _evaluate(ast.parse(str(renamed), mode="eval").body, values)


def _smallest(*sizes: Any) -> Any:
    return _choose(ops.minimum, sizes)


def _largest(*sizes: Any) -> Any:
    return _choose(ops.maximum, sizes)


def _choose(operation: Callable[..., Any], sizes: Sequence[Any]) -> Any:
    first, *others = map(_scalar, sizes)
    for other in others:
        first = operation(first, other)
    return first


_OPERATORS: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.FloorDiv: operator.floordiv,
    ast.Mult: operator.mul,
    ast.Sub: operator.sub,
}
_FUNCTIONS: Final = {"max": _largest, "min": _smallest}


def _evaluate(node: ast.expr, known: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name):
            return known[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluate(operand, known)
        case ast.BinOp(left=left, op=op, right=right):
            return _OPERATORS[type(op)](_evaluate(left, known), _evaluate(right, known))
        case ast.Call(func=ast.Name(id=name), args=args):
            return _FUNCTIONS[name](*(_evaluate(arg, known) for arg in args))
    raise Decline(f"the size {ast.unparse(node)} cannot be computed")


def _scalar(size: Any) -> Any:
    return np.int64(size) if isinstance(size, int) else size


def shape_argument(sizes: Sequence[Any], width: int | None = None) -> Any:
    """Sizes as a list of numbers, or as a vector where some are values.

    With a width, in rows of so many."""
    vector = size_vector(sizes)
    is_known = isinstance(vector, np.ndarray)
    if width is not None:
        rows = [-1, width]
        vector = vector.reshape(rows) if is_known else ops.reshape(vector, rows)
    return vector.tolist() if is_known else vector


def size_vector(sizes: Sequence[Any]) -> Any:
    """Sizes as a vector: an array where all are numbers."""
    if all(isinstance(size, int) for size in sizes):
        return np.asarray(sizes, "int64")
    return ops.stack(*map(_scalar, sizes), axis=0)


def count_up(size: Any, dtype: DType = INT64) -> Any:
    """The integers from 0 up to a size: an array where it is a number."""
    if isinstance(size, int):
        return np.arange(size).astype(dtype.numpy)
    return ops.astype(ops.arange(0, size), dtype=dtype)


def count_along(size: Any, axis: int, rank: int) -> Any:
    """The integers from 0 up to a size along one axis of several."""
    dims = [-1 if i == axis else 1 for i in range(rank)]
    numbers = count_up(size)
    known = isinstance(numbers, np.ndarray)
    return numbers.reshape(dims) if known else ops.reshape(numbers, dims)


def cast_size(size: Any, dtype: DType) -> Any:
    """A size as a scalar of another type: an array where it is a number."""
    if isinstance(size, int):
        return np.asarray(size, dtype.numpy)
    return ops.astype(size, dtype=dtype)


def is_zero(size: Any) -> bool:
    """Whether a size is 0, and known to be."""
    return isinstance(size, int) and size == 0


def is_same(dims: Iterable[Dim], others: Iterable[Dim]) -> bool:
    """Whether dims are written the same."""
    return list(map(dim_key, dims)) == list(map(dim_key, others))
