"""Symbolic dims of the inputs of a graph: sizes for them, and names that are only
documentation, as in ONNX files."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from amanda.errors import UsageError
from amanda.types import Dim, Sym, TensorType, Type

if TYPE_CHECKING:
    from amanda.graph._graph import Graph
    from amanda.graph._port import OutputPort

__all__ = [
    "UNCHECKED_DIM_NAMES",
    "input_dims",
    "set_dims",
    "shares_dims",
    "sizes_by_symbol",
]

UNCHECKED_DIM_NAMES: Final = "x-unchecked-dim-names"
"""Attribute of a root graph, `True` where names of dims are documentation.

Inputs whose dims share a symbol may then have different sizes there. Readers of such
formats set it where `shares_dims`."""


def input_dims(graph: Graph) -> list[Sym]:
    """The symbolic dims of the inputs that are tensors, in order."""
    shapes = [
        port.type.shape
        for port in graph.parameters
        if isinstance(port.type, TensorType) and port.type.shape.has_rank
    ]
    return [dim for shape in shapes for dim in shape if isinstance(dim, Sym)]


def shares_dims(graph: Graph) -> bool:
    """Whether a symbol is in several dims of the inputs.

    >>> from amanda.graph import Graph
    >>> graph = Graph("amanda/std/1")
    >>> _ = graph.parameter("float32[n, 3]"), graph.parameter("float32[n]")
    >>> shares_dims(graph)
    True
    """
    counts = Counter(symbol for dim in input_dims(graph) for symbol in dim.free)
    return any(count > 1 for count in counts.values())


def set_dims(graph: Graph, sizes: Mapping[str, Dim | Sequence[Dim]]) -> None:
    """Give symbolic dims of inputs a size, or another name, in all types of a graph,
    and in attributes of its ops.

    A dim is named by itself, or by an input and an axis; `sizes` of an input is its
    whole shape.

    >>> from amanda.graph import Graph
    >>> graph = Graph("amanda/std/1")
    >>> x, y = graph.parameter("float32[n, ?]", "x"), graph.parameter("int8[...]", "y")
    >>> set_dims(graph, {"n": 8, "x:1": Sym.named("width"), "y": [2, 3]})
    >>> str(x.type), str(y.type)
    ('float32[8, width]', 'int8[2, 3]')
    """
    values: dict[Sym, Dim] = {}
    for name, given in sizes.items():
        if isinstance(given, int | Sym):
            values[_symbol(graph, name)] = given
        else:
            _set_shape(_input(graph, name), given, values)
    if not values:
        return  # without a look into functions that are yet to be read
    for part in graph.graphs():
        ports = (port for op in part for port in op.outputs)
        for port in (*part.parameters, *ports):
            if port.type is not None:
                port.type = _with_dims(port.type, values)
        for op in part:
            if op.has_attrs:
                _set_attribute_dims(op.attrs, values)


def sizes_by_symbol(graph: Graph, sizes: Mapping[str, int]) -> dict[Sym, int]:
    """Sizes of symbolic dims of the inputs, by the symbols of their names.

    A dim is named by itself, or by an input and an axis. UsageError: no input has it.

    >>> from amanda.graph import Graph
    >>> graph = Graph("amanda/std/1")
    >>> _ = graph.parameter("float32[n, ?]", "x")
    >>> list(sizes_by_symbol(graph, {"n": 2, "x:1": 3}).values())
    [2, 3]
    """
    known = {s.name: s for dim in input_dims(graph) for s in dim.free if s.name}
    return {
        known[name] if name in known else _symbol(graph, name): size
        for name, size in sizes.items()
    }


def _with_dims(type: Type, values: Mapping[Sym, Dim]) -> Type:
    return type.map_dims(lambda dim: dim.substitute(values))


def _set_attribute_dims(attrs: dict[str, Any], values: Mapping[Sym, Dim]) -> None:
    for key, value in attrs.items():
        made = _replace_dims(value, values)
        if made is not value:
            attrs[key] = made


def _replace_dims(value: Any, values: Mapping[Sym, Dim]) -> Any:
    """A value with dims replaced in it; the value itself if it has none of them."""
    if isinstance(value, Sym):
        return value.substitute(values)
    if isinstance(value, list | tuple):
        made: Any = [_replace_dims(item, values) for item in value]
        is_same = all(map(operator.is_, made, value))
        kind = tuple if isinstance(value, tuple) else list
        return value if is_same else kind(made)
    if isinstance(value, dict):
        made = {key: _replace_dims(item, values) for key, item in value.items()}
        return value if all(made[key] is value[key] for key in value) else made
    return value


def _set_shape(port: OutputPort, given: Sequence[Dim], values: dict[Sym, Dim]) -> None:
    """Give an input a shape; its symbols have these values everywhere."""
    type = port.type
    known = type.shape if isinstance(type, TensorType) else None
    dims = [] if known is None or not known.has_rank else list(known)
    if known is not None and not known.has_rank:
        assert isinstance(type, TensorType)
        port.type = TensorType(type.dtype, given, type.axes)
        return
    is_possible = len(dims) == len(given) and all(
        isinstance(dim, Sym) or dim == size
        for dim, size in zip(dims, given, strict=True)
    )
    if not is_possible:
        raise UsageError(
            f"input {port.name!r} cannot have this shape",
            expected=str(type), got=list(given),
        )  # fmt: skip
    values.update(
        (dim, size)
        for dim, size in zip(dims, given, strict=True)
        if isinstance(dim, Sym)
    )


def _input(graph: Graph, name: str) -> OutputPort:
    for port in graph.parameters:
        if port.name == name:
            return port
    raise _no_such_dim(graph, name)


def _symbol(graph: Graph, name: str) -> Sym:
    """The symbol of a dim of the inputs: by its own name, or as `input:axis`."""
    for label, dim in _named_dims(graph):
        if label == name:
            return dim
    raise _no_such_dim(graph, name)


def _named_dims(graph: Graph) -> Iterator[tuple[str, Sym]]:
    """The symbols of the inputs' dims, each by the names that it may be given."""
    for port in graph.parameters:
        if isinstance(port.type, TensorType) and port.type.shape.has_rank:
            for axis, dim in enumerate(port.type.shape):
                if isinstance(dim, Sym) and (dim.name or dim.is_anonymous):
                    yield f"{port.name or port.index}:{axis}", dim
                    if dim.name:
                        yield dim.name, dim


def _no_such_dim(graph: Graph, name: str) -> UsageError:
    known = [label for label, _ in _named_dims(graph)]
    inputs = [f"{port.name or port.index}: {port.type}" for port in graph.parameters]
    return UsageError(
        f"the inputs have no symbolic dim {name!r}",
        expected=f"one of {', '.join(known)}" if known else "no dims: none is symbolic",
        hint="INPUT=1,3 states the whole shape of an input",
        problems=inputs,
    )
