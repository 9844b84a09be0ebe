"""Making ops by their entries: what is wrong with one is told where it is made.

    onnx = amanda.namespace("onnx@18").build(graph)
    y = onnx.Relu(onnx.Gemm(x, w, transB=1))

Mappings make their ops with `constant` and `add` as well, without the checks: rules are
checked as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from amanda.dictionary.call_arguments import CallArguments, bind_arguments
from amanda.dictionary.op_checker import body_faults, get_checker
from amanda.dictionary.port_binding import bind_ports
from amanda.dictionary.type_patterns import pattern_of
from amanda.errors import GraphError, Undecided
from amanda.graph import Graph, Op, OutputPort
from amanda.tensors import Tensor
from amanda.types import DType, Shape, TensorType, unknown

if TYPE_CHECKING:
    from amanda.dictionary.history import Dictionary
    from amanda.dictionary.op_checker import OpFault
    from amanda.dictionary.op_definition import Attr, OpDef, Port

__all__ = ["OpBuilder", "add_constant", "add_op"]

_FIRST: Final = ("int64", "int32", "float32", "bool", "string")
"""The element types that numbers become where nothing else decides."""


def add_constant(
    graph: Graph, value: Any, beside: Sequence[Any] = (), *, integers: str = "int64"
) -> OutputPort:
    """A number, a list of numbers or a Tensor as a value of the graph.

    `integers` is the element type of Python's ints; floats take that of the first
    tensor of floats among the values beside them.
    """
    if not isinstance(value, Tensor):
        value = Tensor.of(value, _element(value, beside, integers))
    return graph.constant(value).output


def _element(value: Any, beside: Sequence[Any], integers: str) -> str | None:
    first = _first(value)
    if isinstance(first, bool) or not isinstance(first, int | float | list | tuple):
        return None
    if not isinstance(first, float):
        return integers
    for other in beside:
        type = other.type if isinstance(other, OutputPort) else None
        if isinstance(type, TensorType) and type.dtype.kind == "float":
            return str(type.dtype)
    raise Undecided(f"the element type of {value} is not known")


def _first(value: Any) -> Any:
    while isinstance(value, list | tuple) and value:
        value = value[0]
    return value


def add_op(
    graph: Graph,
    type: str,
    args: Sequence[Any],
    attrs: Mapping[str, Any],
    *,
    outputs: int = 1,
    name: str | None = None,
    bodies: Mapping[str, Graph] | None = None,
    feedback: bool = False,
    integers: str = "int64",
) -> Op:
    """An op at the end of `graph`, plain values among its inputs made constants.

    Inputs left out at the end are none at all.
    """
    for value in args:
        if value is not None and not isinstance(value, OutputPort):
            args = [
                one
                if one is None or isinstance(one, OutputPort)
                else add_constant(graph, one, args, integers=integers)
                for one in args
            ]
            break
    while args and args[-1] is None:
        args = args[:-1]
    return graph.add(
        type,
        args,
        attrs,
        name=name,
        outputs=outputs,
        bodies=bodies,
        feedback=feedback,
    )


class OpBuilder:
    """Adds ops of one dictionary to a graph, each under its own name.

    Arguments go by the order of the entry or by name. Numbers, lists and arrays become
    constants; a port that stands for several values takes a list of them. `name` is the
    op's own name, `outputs` how many it gives where the entry leaves that open. What
    does not fit is a `GraphError` that lists every fault; the graph stays as it was.
    """

    def __init__(self, dictionary: Dictionary, graph: Graph) -> None:
        self._dictionary = dictionary
        self._graph = graph

    def __getattr__(self, op_type: str) -> Callable[..., Any]:
        if op_type.startswith("__"):
            raise AttributeError(op_type)
        return self[op_type]

    def __getitem__(self, op_type: str) -> Callable[..., Any]:
        return partial(self._made, self._dictionary[op_type])

    def __dir__(self) -> list[str]:
        return list(self._dictionary)

    def _made(
        self,
        entry: OpDef,
        /,
        *args: Any,
        name: str | None = None,
        outputs: int | None = None,
        **more: Any,
    ) -> OutputPort | tuple[OutputPort, ...]:
        recorded = self._dictionary.header.recorded
        told = bind_arguments(entry, args, more, recorded=recorded)
        graph = self._graph
        before = graph.ops[-1] if len(graph) else None
        try:
            op = self._added(entry, told, name, outputs)
            faults = [*self._faults(op, entry, told)]
            if not faults:
                for key, body in told.bodies.items():
                    op.set_body(key, body)
        except BaseException:
            _take_back(graph, before)
            raise
        if faults:
            _take_back(graph, before)
            raise GraphError(
                f"{entry.name} of {self._dictionary.name} cannot be built so",
                who=None if name is None else repr(name),
                expected=entry.signature,
                problems=map(_line, faults),
            )
        return op.outputs[0] if len(op.outputs) == 1 else op.outputs

    def _added(
        self, entry: OpDef, told: CallArguments, name: str | None, outputs: int | None
    ) -> Op:
        graph = self._graph
        bound = dict(_bound(entry, told))
        args = [
            value
            if value is None or isinstance(value, OutputPort)
            else graph.constant(_tensor(entry, port, value, bound)).output
            for port, value in told.inputs
        ]
        attrs = dict(told.attrs)
        if self._dictionary.header.recorded:
            attrs |= _derived(entry, told, bound, args)
        count = _outputs(entry, attrs) if outputs is None else outputs
        op = add_op(
            graph,
            entry.name,
            args,
            attrs,
            outputs=count,
            name=name,
            feedback=entry.feedback,
        )
        _type_outputs(op, entry, attrs, bound)
        return op

    def _faults(self, op: Op, entry: OpDef, told: CallArguments) -> Iterator[OpFault]:
        checker = get_checker(self._dictionary, entry.name)
        assert checker is not None
        functions = frozenset(_root(self._graph).functions)
        yield from checker.faults(op, functions, told.bodies)
        for key, body in told.bodies.items():
            attr = entry.attr(key)
            if attr is not None and attr.body is not None:
                yield from body_faults(op, key, attr, body)

    def __repr__(self) -> str:
        return f"<builds ops of {self._dictionary.name} in {self._graph.label}>"


def _root(graph: Graph) -> Graph:
    """The graph whose functions ops of this one call."""
    at: Graph | None = graph
    while at is not None:
        graph = at
        holder = at.holder if at.holder is not None else at
        above = (holder.graph, at.outer, at.root)
        at = next((one for one in above if one is not None), None)
    return graph


def _line(fault: OpFault) -> str:
    return fault.message + (f" ({fault.hint})" if fault.hint else "")


def _take_back(graph: Graph, before: Op | None) -> None:
    """Ops added behind `before` go again."""
    while len(graph) and graph.ops[-1] is not before:
        graph.remove(graph.ops[-1], by="a builder that found a fault")


# -- types that follow -------------------------------------------------------------


def _bound(entry: OpDef, told: CallArguments) -> Iterator[tuple[str, DType]]:
    """Element types of variables, by attributes and by values whose type is known."""
    for attr in (*entry.attrs, *entry.variables):
        value = told.attrs.get(attr.name)
        if attr.kind in ("dtype", "type") and isinstance(value, DType):
            yield attr.name, value
    seen = {name for name, value in told.attrs.items() if isinstance(value, DType)}
    for port, value in told.inputs:
        if not isinstance(port.type, str) or port.form in ("each", "list"):
            continue
        found = _known(value)
        if found is not None and port.type not in seen:
            seen.add(port.type)
            yield port.type, found


def _known(value: Any) -> DType | None:
    """The element type of a value, an array or a Tensor; numbers have none yet."""
    if isinstance(value, OutputPort):
        found = pattern_of(value.type)
        return found if isinstance(found, DType) else None
    if isinstance(value, Tensor):
        return value.dtype if isinstance(value.dtype, DType) else None
    dtype = getattr(value, "dtype", None)
    return None if dtype is None else DType.of(dtype)


def _tensor(entry: OpDef, port: Port, value: Any, bound: Mapping[str, DType]) -> Tensor:
    """A constant of the element type that its port asks for."""
    if isinstance(value, Tensor) or _known(value) is not None:
        return value if isinstance(value, Tensor) else Tensor.of(value)
    if isinstance(port.type, DType) and port.type is not unknown:
        return Tensor.of(value, port.type)
    if isinstance(port.type, str) and port.type in bound:
        return Tensor.of(value, bound[port.type])
    variable = entry.attr(port.type) if isinstance(port.type, str) else None
    return Tensor.of(value, _usual(value, variable))


def _usual(value: Any, variable: Attr | None) -> DType | None:
    """The element type that a plain number has where only a variable decides."""
    first = _first(value)
    kinds = {bool: "bool", int: "int", float: "float", str: "string", bytes: "string"}
    kind = kinds.get(type(first))
    if kind is None:
        return None
    allowed = (
        [one for one in variable.allowed if isinstance(one, DType)]
        if (variable is not None)
        else []
    )
    due = variable.default if variable is not None else None
    usual = [DType(name) for name in _FIRST]
    candidates = [due] if isinstance(due, DType) else []
    candidates += [one for one in usual if not allowed or one in allowed] + allowed
    for dtype in candidates:
        if dtype.kind == kind:
            return dtype
    if kind == "int":  # no integers are taken: 2 may be 2.0
        return next((one for one in candidates if one.kind == "float"), None)
    return None


def _derived(
    entry: OpDef, told: CallArguments, bound: Mapping[str, DType], args: Sequence[Any]
) -> dict[str, Any]:
    """The attributes that follow from the ports, as TensorFlow's ops carry them."""
    found: dict[str, Any] = {}
    ports = [port for port, _ in told.inputs]
    for attr in entry.variables:
        if attr.name in told.attrs:
            continue
        if attr.kind == "int":
            counted = {p.name for p in entry.inputs if p.number == attr.name}
            first = next((p.name for p in ports if p.name in counted), None)
            if counted:
                found[attr.name] = sum(port.name == first for port in ports)
        elif attr.is_list:
            types = [
                _known(value)
                for port, value in zip(ports, args, strict=True)
                if port.form == "list" and port.type == attr.name
            ]
            if types and None not in types:
                found[attr.name] = types
        else:
            dtype = bound.get(attr.name) or _of_constants(attr, ports, args)
            if dtype is not None:
                found[attr.name] = dtype
    return found


def _of_constants(
    attr: Attr, ports: Sequence[Port], args: Sequence[Any]
) -> DType | None:
    rows = zip(ports, args, strict=True)
    return next((_known(value) for port, value in rows if port.type == attr.name), None)


def _outputs(entry: OpDef, attrs: Mapping[str, Any]) -> int:
    """How many values the op gives at least; optional ones only when asked for."""
    count = 0
    for port in entry.outputs:
        if port.form == "one":
            count += 1
        elif port.form == "count":
            number = attrs.get(port.number)
            count += number if isinstance(number, int) else 0
        elif port.form == "list":
            types = attrs.get(port.type) if isinstance(port.type, str) else None
            count += len(types) if isinstance(types, list | tuple) else 0
        else:
            count += port.least
    return count


def _type_outputs(
    op: Op, entry: OpDef, attrs: Mapping[str, Any], bound: Mapping[str, DType]
) -> None:
    """Outputs whose element type the entry tells have it; shapes are not known."""
    for slot, port in zip(
        bind_ports(entry.outputs, len(op.outputs), entry, attrs).slots or (),
        op.outputs,
        strict=False,
    ):
        kind = slot.port.type
        if isinstance(kind, str):
            said = attrs.get(kind, bound.get(kind))
            listed = isinstance(said, list | tuple) and slot.at < len(said)
            kind = said[slot.at] if listed else said
        if isinstance(kind, DType) and kind is not unknown and kind.bits:
            port.type = TensorType(kind, Shape(None))
