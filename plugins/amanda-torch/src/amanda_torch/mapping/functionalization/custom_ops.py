"""Ops of `torch.library` that `amanda.custom_op` declares, in namespaces of their own.

The op `mylib::scale_` of PyTorch is `scale_` of the namespace `torch/mylib`, and its
overload `mylib::scale_.out` is `scale_.out`. One that writes its arguments, as
`x: tensor(a!)` says, returns what PyTorch returns and then their new values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from amanda import namespace
from amanda.graph import Graph, Op, OutputPort
from amanda.host import host_in_use
from amanda.types import Sym, TensorType
from amanda_torch.codes import op_type

__all__ = ["attach_custom_ops", "is_custom"]

_FUNCTIONALIZED: Final = (
    "higher_order.auto_functionalized", "higher_order.auto_functionalized_v2",
)  # fmt: skip
_DEFAULT: Final = ".default"


class _Declared(NamedTuple):
    """A custom op: its namespace and its definition."""

    namespace: str
    definition: Any

    @property
    def writes(self) -> list[str]:
        """The names of the arguments that it writes."""
        return [port.name for port in self.definition.inputs if port.is_written]


def is_custom(op: Op) -> bool:
    """Whether an op is of a namespace of `torch.library`."""
    return op.own_namespace is not None and op.own_namespace.startswith("torch/")


def attach_custom_ops(graph: Graph) -> set[Op]:
    """Give ops that are declared their namespaces, their inputs in order.

    Ops that PyTorch has functionalized become calls that write copies. Returns the
    unknown ops without results: what they are for are writes.
    """
    dictionary: Any = namespace(graph.namespace or "torch", assume=True)
    unknown: set[Op] = set()
    for part in list(graph.graphs()):
        for op in list(part):
            if op.type in _FUNCTIONALIZED:
                _unwrap(part, op)
            elif op.type not in dictionary:
                declared = _find(op.type or "")
                if declared is not None:
                    _attach(part, op, declared)
                elif not op.outputs:
                    unknown.add(op)
    return unknown


def _find(type: str) -> _Declared | None:
    """The declaration of `mylib.scale_.default`."""
    library, _, name = type.partition(".")
    path, host = f"torch/{library}", host_in_use()
    if not name or not host.has("namespaces", path):
        return None
    dictionary: Any = host.namespace(path)
    definition = dictionary.get(name.removesuffix(_DEFAULT))
    return None if definition is None else _Declared(dictionary.name, definition)


# -- calls -----------------------------------------------------------------------------


def _attach(graph: Graph, op: Op, declared: _Declared) -> None:
    arguments: dict[str, Any] = dict(op.attrs)
    for port in op.input_ports:
        _put(arguments, port.name or "", port.source)
    with graph.before(op):
        made = _call(graph, declared, arguments, len(op.outputs), op.name)
    for old, new in zip(op.outputs, made.outputs, strict=False):
        new.type = old.type
    graph.replace(op, made.outputs[: len(op.outputs)])


def _put(arguments: dict[str, Any], name: str, value: OutputPort | None) -> None:
    """Put a value under its name; one of a list has its index in the name."""
    key, _, index = name.partition(".")
    if not index:
        arguments[key] = value
        return
    items = list(arguments.get(key) or ())
    items += [None] * (int(index) + 1 - len(items))
    items[int(index)] = value
    arguments[key] = items


def _call(
    graph: Graph, declared: _Declared, arguments: Mapping[str, Any], results: int,
    name: str | None = None,
) -> Op:  # fmt: skip
    """A call whose further results are the new values of written arguments."""
    ports = {port.name for port in declared.definition.inputs}
    inputs: list[OutputPort | None] = []
    for port in declared.definition.inputs:
        value = arguments.get(port.name)
        inputs += value if isinstance(value, list) else [value]
    attrs = {k: v for k, v in arguments.items() if k not in ports}
    written = [arguments.get(name) for name in declared.writes]
    kind = declared.definition.name
    made = graph.add(kind, inputs, attrs, outputs=results + len(written))
    made.namespace = declared.namespace
    if name is not None:
        made.name = graph.fresh_name(name)
    for port, value in zip(made.outputs[results:], written, strict=True):
        port.type = None if value is None else value.type
    return made


# -- calls that PyTorch has functionalized ---------------------------------------------


def _unwrap(graph: Graph, op: Op) -> None:
    """Replace `auto_functionalized` by copies that the op writes.

    Where the op is not declared, a rule declines the op by its name.
    """
    arguments: dict[str, Any] = dict(op.attrs)
    for port in op.input_ports:
        _put(arguments, port.name or "", port.source)
    declared = _find(op_type(str(arguments.pop("_mutable_op", ""))))
    if declared is None:
        for key in [key for key in op.attrs if key != "_mutable_op"]:
            del op.attrs[key]
        return
    with graph.before(op):
        bases = _copies(graph, arguments, declared)
        count = len(declared.definition.outputs) - len(declared.writes)
        made = _call(graph, declared, arguments, count, op.name)
    for old, new in zip(op.outputs, made.outputs[:count], strict=False):
        new.type = old.type
    empty = [None] * (len(op.outputs) - count - len(bases))  # in place of no result
    graph.replace(op, [*made.outputs[:count], *empty, *bases])


def _copies(
    graph: Graph, arguments: dict[str, Any], declared: _Declared
) -> list[OutputPort]:
    """Copies of the tensors that an op writes; its arguments become views of them."""
    if "_all_bases" not in arguments:
        bases = [_add(graph, "clone.default", arguments[n]) for n in declared.writes]
        arguments.update(zip(declared.writes, bases, strict=True))
        return bases
    bases = [_add(graph, "clone.default", v) for v in arguments.pop("_all_bases")]
    for name in declared.writes:
        prefix = f"_{name}_"
        view = {
            key.removeprefix(prefix): arguments.pop(key)
            for key in list(arguments)
            if key.startswith(prefix)
        }
        arguments[name] = _view(graph, bases, view)
    return bases


def _view(
    graph: Graph, bases: Sequence[OutputPort], view: Mapping[str, Any]
) -> OutputPort | None:
    """The part of a copy that an argument is."""
    index = view.get("base_index")
    if index is None:
        return None
    base: OutputPort = bases[index]
    if "slice_dim" in view:
        names = ("dim", "start", "end")
        attrs = {name: view[f"slice_{name}"] for name in names}
        part = _add(graph, "slice.Tensor", base, **attrs)
        part.type = _type_of_slice(base.type, **attrs)
        return part
    if "size" in view:
        attrs = {key: view[key] for key in ("size", "stride", "storage_offset")}
        part = _add(graph, "as_strided.default", base, **attrs)
        if isinstance(base.type, TensorType):
            part.type = TensorType(base.type.dtype, view["size"])
        return part
    return base


def _type_of_slice(type: Any, dim: int, start: int, end: int) -> Any:
    """The type of a part of a tensor, whose end may lie behind that of the tensor."""
    if not isinstance(type, TensorType) or not type.shape.has_rank:
        return type
    dims = list(type.shape.dims)
    size = dims[dim]
    last = min(end, size) if isinstance(size, int) else None
    dims[dim] = Sym.unknown() if last is None else last - start
    return TensorType(type.dtype, dims)


def _add(graph: Graph, kind: str, value: OutputPort, **attrs: Any) -> OutputPort:
    made: OutputPort = graph.add(f"aten.{kind}", [value], attrs).output
    made.type = value.type
    return made
