"""Add ops of a dictionary to a graph, checked where they are added.

    onnx = amanda.namespace("onnx@18").build(graph)
    y = onnx.Relu(onnx.Gemm(x, w, transB=1))

Mappings use `add_constant` and `add_op` directly, without the checks: rules are checked
when they are loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from amanda.dictionary.call_arguments import CallArguments, bind_arguments
from amanda.dictionary.call_layout import CallLayout
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

_DEFAULT_DTYPES: Final = ("int64", "int32", "float32", "bool", "string")
"""Element types of Python numbers if nothing else determines them."""


def add_constant(
    graph: Graph, value: Any, others: Sequence[Any] = (), *, integers: str = "int64"
) -> OutputPort:
    """Add a number, a list of numbers or a Tensor as a constant; return its value.

    `integers` is the element type of Python ints; floats get that of the first
    floating-point tensor among `others`.
    """
    if not isinstance(value, Tensor):
        value = Tensor.of(value, _infer_element_type(value, others, integers))
    return graph.constant(value).output


def _infer_element_type(value: Any, others: Sequence[Any], integers: str) -> str | None:
    first = _first_item(value)
    if isinstance(first, bool) or not isinstance(first, int | float | list | tuple):
        return None
    if not isinstance(first, float):
        return integers
    for other in others:
        type = other.type if isinstance(other, OutputPort) else None
        if isinstance(type, TensorType) and type.dtype.kind == "float":
            return str(type.dtype)
    raise Undecided(f"the element type of {value} is unknown")


def _first_item(value: Any) -> Any:
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
    """Append an op to `graph`; inputs that are Python values become constants.

    Trailing inputs that are None are omitted.
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
    """Adds ops of one dictionary to a graph; each op type is a method.

    Arguments are positional or keyword, as in the definition. Numbers, lists and arrays
    become constants; a variadic port accepts a list. `name` is the op's name, `outputs`
    the number of outputs if the definition does not fix it. Invalid arguments raise a
    `GraphError` with all faults, and leave the graph unchanged.
    """

    def __init__(self, dictionary: Dictionary, graph: Graph) -> None:
        self._dictionary = dictionary
        self._graph = graph

    def __getattr__(self, op_type: str) -> Callable[..., Any]:
        if op_type.startswith("__"):
            raise AttributeError(op_type)
        return self[op_type]

    def __getitem__(self, op_type: str) -> Callable[..., Any]:
        return partial(self._build, self._dictionary[op_type])

    def __dir__(self) -> list[str]:
        return list(self._dictionary)

    def _build(
        self,
        op_def: OpDef,
        /,
        *args: Any,
        name: str | None = None,
        outputs: int | None = None,
        **kwargs: Any,
    ) -> OutputPort | tuple[OutputPort, ...]:
        recorded = self._dictionary.header.recorded
        bound = bind_arguments(op_def, args, kwargs, recorded=recorded)
        graph = self._graph
        before = graph.ops[-1] if len(graph) else None
        try:
            op = self._add(op_def, bound, name, outputs)
            faults = [*self._faults(op, op_def, bound)]
            if not faults:
                for key, body in bound.bodies.items():
                    op.set_body(key, body)
        except BaseException:
            _remove_after(graph, before)
            raise
        if faults:
            _remove_after(graph, before)
            raise GraphError(
                f"invalid arguments for {op_def.name} of {self._dictionary.name}",
                who=None if name is None else repr(name),
                expected=op_def.signature,
                problems=map(_fault_line, faults),
            )
        return op.outputs[0] if len(op.outputs) == 1 else op.outputs

    def _add(
        self, op_def: OpDef, args: CallArguments, name: str | None, outputs: int | None
    ) -> Op:
        graph = self._graph
        dtypes = dict(_bind_type_variables(op_def, args))
        if self._dictionary.header.named_inputs:
            return self._add_by_name(op_def, args, name, outputs, dtypes)
        inputs = [
            value
            if value is None or isinstance(value, OutputPort)
            else graph.constant(_constant_tensor(op_def, port, value, dtypes)).output
            for port, value in args.inputs
        ]
        attrs = dict(args.attrs)
        if self._dictionary.header.recorded:
            attrs |= _infer_attrs(op_def, args, dtypes, inputs)
        count = _min_outputs(op_def, attrs) if outputs is None else outputs
        op = add_op(
            graph,
            op_def.name,
            inputs,
            attrs,
            outputs=count,
            name=name,
            feedback=op_def.feedback,
        )
        _set_output_types(op, op_def, attrs, dtypes)
        return op

    def _add_by_name(
        self,
        op_def: OpDef,
        args: CallArguments,
        name: str | None,
        outputs: int | None,
        dtypes: dict[str, DType],
    ) -> Op:
        """Add an op whose arguments are inputs or attributes, as they are given."""
        arguments = dict(args.attrs)
        for port, value in args.inputs:
            given = value
            if not (value is None or isinstance(value, OutputPort | int | float)):
                tensor = _constant_tensor(op_def, port, value, dtypes)
                given = self._graph.constant(tensor).output
            if port.repeats:
                arguments.setdefault(port.name, []).append(given)
            else:
                arguments[port.name] = given
        found = CallLayout(op_def).inputs(arguments)
        count = _min_outputs(op_def, found.attrs) if outputs is None else outputs
        op = self._graph.add(
            op_def.name, found.values, found.attrs, outputs=count, name=name
        )
        ports = op.input_ports if found.names else []
        for place, label in found.names.items():
            ports[place].set_name(label)
        _set_output_types(op, op_def, found.attrs, dtypes)
        return op

    def _faults(self, op: Op, op_def: OpDef, args: CallArguments) -> Iterator[OpFault]:
        checker = get_checker(self._dictionary, op_def.name)
        assert checker is not None
        functions = frozenset(_root_graph(self._graph).functions)
        yield from checker.faults(op, functions, args.bodies)
        for key, body in args.bodies.items():
            attr = op_def.attr(key)
            if attr is not None and attr.body is not None:
                yield from body_faults(op, key, attr, body)

    def __repr__(self) -> str:
        return f"<builder of {self._dictionary.name} ops in {self._graph.label}>"


def _root_graph(graph: Graph) -> Graph:
    """The root graph, whose functions the ops of `graph` call."""
    at: Graph | None = graph
    while at is not None:
        graph = at
        holder = at.holder if at.holder is not None else at
        above = (holder.graph, at.outer, at.owner)
        at = next((one for one in above if one is not None), None)
    return graph


def _fault_line(fault: OpFault) -> str:
    return fault.message + (f" ({fault.hint})" if fault.hint else "")


def _remove_after(graph: Graph, before: Op | None) -> None:
    """Remove the ops that were added after `before`."""
    while len(graph) and graph.ops[-1] is not before:
        graph.remove(graph.ops[-1], by="a builder that found a fault")


# -- inferred types ----------------------------------------------------------------


def _bind_type_variables(
    op_def: OpDef, args: CallArguments
) -> Iterator[tuple[str, DType]]:
    """Element types of type variables, from attributes and from inputs."""
    for attr in (*op_def.attrs, *op_def.variables):
        value = args.attrs.get(attr.name)
        if attr.kind in ("dtype", "type") and isinstance(value, DType):
            yield attr.name, value
    seen = {name for name, value in args.attrs.items() if isinstance(value, DType)}
    for port, value in args.inputs:
        if not isinstance(port.type, str) or port.form in ("each", "list"):
            continue
        dtype = _dtype_of(value)
        if dtype is not None and port.type not in seen:
            seen.add(port.type)
            yield port.type, dtype


def _dtype_of(value: Any) -> DType | None:
    """The element type of a value, an array or a Tensor; Python numbers have none."""
    if isinstance(value, OutputPort):
        pattern = pattern_of(value.type)
        return pattern if isinstance(pattern, DType) else None
    if isinstance(value, Tensor):
        return value.dtype if isinstance(value.dtype, DType) else None
    dtype = getattr(value, "dtype", None)
    return None if dtype is None else DType.of(dtype)


def _constant_tensor(
    op_def: OpDef, port: Port, value: Any, dtypes: Mapping[str, DType]
) -> Tensor:
    """A constant of the element type of its port."""
    if isinstance(value, Tensor) or _dtype_of(value) is not None:
        return value if isinstance(value, Tensor) else Tensor.of(value)
    if isinstance(port.type, DType) and port.type is not unknown:
        return Tensor.of(value, port.type)
    if isinstance(port.type, str) and port.type in dtypes:
        return Tensor.of(value, dtypes[port.type])
    variable = op_def.attr(port.type) if isinstance(port.type, str) else None
    return Tensor.of(value, _default_dtype(value, variable))


def _default_dtype(value: Any, variable: Attr | None) -> DType | None:
    """The element type of a Python number if only a type variable restricts it."""
    kinds = {bool: "bool", int: "int", float: "float", str: "string", bytes: "string"}
    kind = kinds.get(type(_first_item(value)))
    if kind is None:
        return None
    allowed: list[DType] = []
    candidates: list[DType] = []
    if variable is not None:
        allowed = [one for one in variable.allowed if isinstance(one, DType)]
        if isinstance(variable.default, DType):
            candidates = [variable.default]
    usual = [DType(name) for name in _DEFAULT_DTYPES]
    candidates += [one for one in usual if not allowed or one in allowed] + allowed
    for dtype in candidates:
        if dtype.kind == kind:
            return dtype
    if kind == "int":  # no integer type is allowed: 2 may be 2.0
        return next((one for one in candidates if one.kind == "float"), None)
    return None


def _infer_attrs(
    op_def: OpDef,
    args: CallArguments,
    dtypes: Mapping[str, DType],
    inputs: Sequence[Any],
) -> dict[str, Any]:
    """Attributes that repeat types and numbers of inputs, as in TensorFlow."""
    attrs: dict[str, Any] = {}
    ports = [port for port, _ in args.inputs]
    for attr in op_def.variables:
        if attr.name in args.attrs:
            continue
        if attr.kind == "int":
            counted = {p.name for p in op_def.inputs if p.number == attr.name}
            first = next((p.name for p in ports if p.name in counted), None)
            if counted:
                attrs[attr.name] = sum(port.name == first for port in ports)
        elif attr.is_list:
            types = [
                _dtype_of(value)
                for port, value in zip(ports, inputs, strict=True)
                if port.form == "list" and port.type == attr.name
            ]
            if types and None not in types:
                attrs[attr.name] = types
        else:
            dtype = dtypes.get(attr.name) or _first_dtype(attr, ports, inputs)
            if dtype is not None:
                attrs[attr.name] = dtype
    return attrs


def _first_dtype(
    variable: Attr, ports: Sequence[Port], inputs: Sequence[Any]
) -> DType | None:
    """The element type of the first input whose type is `variable`."""
    for port, value in zip(ports, inputs, strict=True):
        if port.type == variable.name:
            return _dtype_of(value)
    return None


def _min_outputs(op_def: OpDef, attrs: Mapping[str, Any]) -> int:
    """The number of outputs without optional ones."""
    count = 0
    for port in op_def.outputs:
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


def _set_output_types(
    op: Op, op_def: OpDef, attrs: Mapping[str, Any], dtypes: Mapping[str, DType]
) -> None:
    """Set the element types of outputs that are determined; shapes are unknown."""
    bound = bind_ports(op_def.outputs, len(op.outputs), op_def, attrs)
    for binding, port in zip(bound.bindings or (), op.outputs, strict=False):
        kind = binding.port.type
        if isinstance(kind, str):
            value = attrs.get(kind, dtypes.get(kind))
            is_item = isinstance(value, list | tuple) and binding.offset < len(value)
            kind = value[binding.offset] if is_item else value
        if isinstance(kind, DType) and kind is not unknown and kind.bits:
            port.type = TensorType(kind, Shape(None))
