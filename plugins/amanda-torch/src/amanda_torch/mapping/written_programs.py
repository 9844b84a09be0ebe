"""Programs that are written: parameters for constants, bodies with inputs, types.

An archive has the type of every value. Those of the values that the source has follow
it through the mapping; those of values between ops of one rule are inferred: an op is
read as ops of the hub, whose results have types.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from amanda.errors import FormatError
from amanda.graph import CONSTANT, CORE, Graph, Op, OutputPort
from amanda.mapping import constant_of, gap_error
from amanda.tensors import Tensor
from amanda.types import Sym, TensorType, Type, evaluate
from amanda_torch.expressions import SymbolHints, is_data_dependent
from amanda_torch.mapping.module_stacks import add_module_stacks
from amanda_torch.mapping.written_weights import use_parameters
from amanda_torch.records import PADDING_NOTE, PROGRAM_RECORDS, VALUE, WEIGHT_NOTE

__all__ = ["finish_program"]


def finish_program(graph: Graph) -> None:
    """Complete a graph whose ops are of PyTorch."""
    _use_outer_constants(graph)
    for part in reversed(list(graph.graphs())):
        for op in list(part):
            if op.bodies:
                _pass_captures(op)
    use_parameters(graph)
    for part in graph.graphs():
        for op in part:
            if op.has_attrs:
                op.attrs.pop(PADDING_NOTE, None)
        _add_types(part)
    _name_dims(graph)
    _add_hints(graph)
    add_module_stacks(graph)


# -- bodies ------------------------------------------------------------------------


def _use_outer_constants(graph: Graph) -> None:
    """Move the constants of bodies to the root, where weights are."""
    first = next(iter(graph), None)
    for part in list(graph.graphs()):
        if part is graph:
            continue
        for op in list(part):
            tensor = constant_of(op.output) if op.type == CONSTANT else None
            if tensor is None or first is None:
                continue
            with graph.before(first):
                new = graph.constant(tensor)
            new.output.type = op.output.type or tensor.type
            new.provenance = op.provenance
            if WEIGHT_NOTE in op.attrs:
                new.attrs[WEIGHT_NOTE] = op.attrs[WEIGHT_NOTE]
            graph.replace_uses(op.output, new.output)
            name = op.name
            part.remove(op)
            graph.rename(new, graph.fresh_name(name or "constant"))


def _pass_captures(op: Op) -> None:
    """Make values that the bodies of an op read from around it inputs of them."""
    bodies = list(op.bodies.values())
    captured = dict.fromkeys(value for body in bodies for value in body.captures)
    port = _CAPTURES.get(op.type or "")
    if captured and port is None:
        raise FormatError("a body reads a value of the graph around it", who=op.label)
    for i, value in enumerate(captured):
        op.add_input(value, f"{port}.{i}" if port else None)
        for body in bodies:
            own = body.parameter(value.type)
            for place in list(value.users):
                if place.op is body or place.op.graph is body:
                    place.connect(own)


_CAPTURES = {
    "higher_order.cond": "", "higher_order.while_loop": "additional_inputs",
}  # fmt: skip
"""The port of the values that are given to bodies besides others; the last if empty."""


# -- types -------------------------------------------------------------------------


def _add_types(graph: Graph) -> None:
    """Infer types that are not known."""
    for op in graph:
        if op.own_namespace == CORE or all(_is_known(p.type) for p in op.outputs):
            continue
        for port, type in zip(op.outputs, _infer_types(op), strict=True):
            if not _is_known(port.type):
                port.type = type


def _is_known(type: Type | None) -> bool:
    if not isinstance(type, TensorType):
        return type is not None
    return type.shape.has_rank and type.dtype.kind != "unknown"


def _infer_types(op: Op) -> list[Type | None]:
    """The types of the results of an op: those of the ops of the hub that it is."""
    from amanda_torch.mapping import MAPPING

    graph = Graph(op.namespace)
    inputs = [None if v is None else _stand_in(graph, v) for v in op.inputs]
    bodies = {key: body.clone() for key, body in op.bodies.items()}
    copy = graph.add(
        op.type, inputs, dict(op.attrs), outputs=len(op.outputs), bodies=bodies or None
    )
    for place, twin in zip(op.input_ports, copy.input_ports, strict=True):
        if place.name is not None:
            twin.set_name(place.name)
    for port in copy.outputs:
        graph.result(port)
    read = MAPPING.conversion(graph, MAPPING.hub)
    if read.report.gaps:
        raise gap_error(read.report.gaps, graph.namespace or "", MAPPING.hub)
    return [None if value is None else value.type for value in read.graph.results]


def _stand_in(graph: Graph, value: OutputPort) -> OutputPort:
    """A parameter for a value, or the constant that it is."""
    tensor = value.op.attrs.get(VALUE) if value.op.type == "get_attr" else None
    if isinstance(tensor, Tensor) and tensor.size < 64:
        constant = graph.constant(tensor).output
        constant.type = tensor.type_with_content()
        return constant
    return graph.parameter(value.type)


# -- dims --------------------------------------------------------------------------


def _name_dims(graph: Graph) -> None:
    """Give dims without a name one: of inputs `s0`, and `u0` where data decides."""
    names = _DimNames(graph)
    for part in graph.graphs():
        for parameter in part.parameters:
            letter = "s" if part is graph else "u"
            parameter.type = names.add_names(parameter.type, letter)
    for part in graph.graphs():
        for op in part:
            for port in op.outputs:
                port.type = names.add_names(port.type, "u")


class _DimNames:
    """Names for the anonymous symbols of the types of a program."""

    def __init__(self, graph: Graph) -> None:
        self._known: dict[Sym, Sym] = {}
        self._expressions: dict[Any, Sym] = {}
        self._bound = set(_bound_symbols(graph))
        self._used = {
            symbol.name
            for part in graph.graphs()
            for port in (*part.parameters, *(p for op in part for p in op.outputs))
            if isinstance(port.type, TensorType) and port.type.shape.has_rank
            for dim in port.type.shape.dims
            if isinstance(dim, Sym)
            for symbol in dim.free
        }

    def add_names(self, type: Type | None, letter: str) -> Type | None:
        """A type whose symbols all have names."""
        if not isinstance(type, TensorType) or not type.shape.has_rank:
            return type
        content = type.value
        if not type.shape.rank and isinstance(content, Sym):
            content = self._name_symbols(content, letter)
        elif any(isinstance(d, Sym) for d in type.elements or ()):
            content = None
        shape = [
            self._name_symbols(d, letter) if isinstance(d, Sym) else d
            for d in type.shape.dims
        ]
        return TensorType(type.dtype, shape, type.axes, content)

    def _name_symbols(self, dim: Sym, letter: str) -> int | Sym:
        """A dim whose symbols have names; a new symbol for an expression of symbols
        that no value is the size of: PyTorch binds each to one."""
        if not all(symbol in self._bound for symbol in dim.free):
            return self._expressions.setdefault(dim.key, self._new_symbol(letter))
        for symbol in dim.free:
            if symbol.is_anonymous and symbol not in self._known:
                self._known[symbol] = self._new_symbol(letter)
        return dim.substitute(self._known)

    def _new_symbol(self, letter: str) -> Sym:
        numbered = (f"{letter}{i}" for i in itertools.count())
        name = next(n for n in numbered if n not in self._used)
        self._used.add(name)
        return Sym.named(name)


def _bound_symbols(graph: Graph) -> Iterator[Sym]:
    """The symbols of inputs, and those that are a whole dim or a number."""
    for parameter in graph.parameters:
        for dim in _dims(parameter.type):
            yield from dim.free
    for part in graph.graphs():
        for port in (*part.parameters, *(p for op in part for p in op.outputs)):
            yield from (
                d for d in _dims(port.type) if d.is_anonymous or d.name is not None
            )


def _dims(type: Type | None) -> Iterator[Sym]:
    """The symbolic dims of a value, and the number that it is."""
    if not isinstance(type, TensorType) or not type.shape.has_rank:
        return
    content = [] if type.shape.rank else [type.value]
    yield from (d for d in (*type.shape.dims, *content) if isinstance(d, Sym))


def _add_hints(graph: Graph) -> None:
    """Record examples of the sizes of inputs at which no size is less than 1.

    PyTorch computes all sizes from these when it loads a program, and takes a negative
    one for a fault.
    """
    dims = {
        dim
        for part in graph.graphs()
        for op in part
        for port in op.outputs
        if isinstance(port.type, TensorType) and port.type.shape.has_rank
        for dim in port.type.shape.dims
        if isinstance(dim, Sym) and not _depends_on_data(dim)
    }  # fmt: skip
    sizes = {s: SymbolHints.DEFAULT for dim in dims for s in dim.free}
    for _ in range(_DOUBLINGS):
        small = {s for dim in dims if evaluate(dim, sizes) < 1 for s in dim.free}
        if not small:
            break
        sizes.update((s, 2 * sizes[s]) for s in small)
    hints = {s.name or "": n for s, n in sizes.items() if n != SymbolHints.DEFAULT}
    if hints and not small:
        PROGRAM_RECORDS.add(graph, hints=hints)


def _depends_on_data(dim: Sym) -> bool:
    return any(is_data_dependent(symbol.name or "") for symbol in dim.free)


_DOUBLINGS = 16
"""Sizes up to half a million are tried."""
