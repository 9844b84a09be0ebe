"""Edits of inputs and outputs: names, dims, parts of a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from amanda.errors import UsageError
from amanda.graph import Graph, OutputPort
from amanda.graph import set_dims as set_named_dims
from amanda.tensors import Tensor
from amanda.types import Dim, TensorType, parse_dim
from amanda_inspect.editing.selection import ValueName, find_value, result_index

__all__ = ["add_outputs", "extract", "fix_inputs", "keep_outputs", "rename_ports",
           "set_dims"]  # fmt: skip


def rename_ports(
    graph: Graph,
    inputs: Mapping[str, str] | None = None,
    outputs: Mapping[str, str] | None = None,
) -> None:
    """Rename inputs and outputs: `rename_ports(graph, {"x": "image"})`."""
    for old, new in (inputs or {}).items():
        port = find_value(graph, old)
        if port.op is not graph:
            raise UsageError(
                f"{old!r} is not an input of the model", expected=_inputs(graph)
            )
        port.name = new
    for old, new in (outputs or {}).items():
        result = graph.outputs[result_index(graph, old)]
        if any(port.name == new for port in graph.outputs if port is not result):
            raise UsageError(f"the model has an output {new!r} already")
        value = graph.results[result.index]
        if value is not None and value.name == result.name and value.op is not graph:
            value.name = new  # in ONNX an output is the value of this name
        result.name = new
    _rename_entries(graph, {**(inputs or {}), **(outputs or {})})


def _rename_entries(graph: Graph, names: Mapping[str, str]) -> None:
    for key, entry in list(graph.entries.items()):
        sides = [{names.get(k, k): v for k, v in side.items()} for side in entry]
        graph.set_entry(key, *sides)


def _inputs(graph: Graph) -> str:
    return ", ".join(str(port.name or port.index) for port in graph.parameters)


def set_dims(graph: Graph, dims: Mapping[str, Dim | str]) -> None:
    """Set dims of inputs, also those that have a size: `{"x:0": "batch", "n": 4}`.

    `x:0` is axis 0 of the input x; other names are those of symbolic dims. The shapes
    of other values are removed; `infer_types` finds them again.
    """
    for name, given in dims.items():
        dim = parse_dim(given) if isinstance(given, str) else given
        stem, _, axis = name.rpartition(":")
        port = next((p for p in graph.parameters if p.name == stem), None)
        if port is None or not axis.isdecimal():
            set_named_dims(graph, {name: dim})
        else:
            port.type = _with_dim(port, int(axis), dim)
    for part in graph.graphs():
        for op in part:
            for value in () if op.is_constant else op.outputs:
                if isinstance(value.type, TensorType):
                    value.type = TensorType(value.type.dtype, None)


def _with_dim(port: OutputPort, axis: int, dim: Dim) -> TensorType:
    kind = port.type
    if not isinstance(kind, TensorType) or not kind.shape.has_rank:
        raise UsageError(f"the rank of input {port.name!r} is not known", got=kind)
    dims = list(kind.shape)
    if axis >= len(dims):
        raise UsageError(
            f"input {port.name!r} has no axis {axis}", expected=f"0 to {len(dims) - 1}",
            got=kind,
        )  # fmt: skip
    dims[axis] = dim
    return TensorType(kind.dtype, dims, kind.axes)


def extract(
    graph: Graph, inputs: Iterable[ValueName], outputs: Iterable[ValueName]
) -> Graph:
    """The part that computes outputs from inputs, which may be values inside.

    Inputs of the model that the part needs besides are kept.
    """
    memo: dict[Any, Any] = {}
    names = {find_value(graph, name): name for name in inputs}
    targets = [find_value(graph, name) for name in outputs]
    for value in names:
        if value in targets:
            raise UsageError(f"the value {value} is both an input and an output")
    copy = graph.clone(memo=memo)
    for entry in list(copy.entries):
        copy.remove_entry(entry)
    chosen: dict[str | None, ValueName] = {}
    for value, name in names.items():
        port = memo[value]
        if value.op is not graph:
            port = copy.parameter(value.type, _input_name(copy, value, name))
            copy.replace_uses(memo[value], port)
        chosen[port.name] = name
    part = copy.clone([memo[value] for value in targets])
    for port, value in zip(part.outputs, targets, strict=True):
        port.name = _result_name(graph, value) or port.name
    _expect_inputs(part, chosen)
    return part


def _input_name(graph: Graph, value: OutputPort, name: ValueName) -> str | None:
    """The name of an input for a value: its own, or that by which it was found."""
    own = value.name or (name if isinstance(name, str) else value.op.name)
    return None if any(port.name == own for port in graph.parameters) else own


def _result_name(graph: Graph, value: OutputPort) -> str | None:
    names = [
        p.name for p, v in zip(graph.outputs, graph.results, strict=True) if v is value
    ]
    return names[0] if names else None


def _expect_inputs(graph: Graph, wanted: Mapping[str | None, ValueName]) -> None:
    """Raise an error for inputs that the outputs do not need."""
    known = {port.name for port in graph.parameters}
    for port_name, name in wanted.items():
        if port_name not in known:
            raise UsageError(
                f"the outputs do not need the input {str(name)!r}",
                expected="inputs before the outputs in the model",
            )


def keep_outputs(graph: Graph, outputs: Iterable[str]) -> Graph:
    """The part that some results need."""
    indices = [result_index(graph, name) for name in outputs]
    values = [graph.results[i] for i in indices]
    part = graph.clone([value for value in values if value is not None])
    for port, i in zip(part.outputs, indices, strict=True):
        port.name = graph.outputs[i].name
    return part


def add_outputs(graph: Graph, values: Iterable[ValueName]) -> None:
    """Make values inside of the model results, too."""
    for name in values:
        value = find_value(graph, name)
        if value in graph.results:
            raise UsageError(f"the value {value} is an output already")
        graph.result(value, value.name or (name if isinstance(name, str) else None))


def fix_inputs(graph: Graph, arrays: Mapping[str, Any]) -> None:
    """Replace inputs by constants."""
    for name, array in arrays.items():
        port = find_value(graph, name)
        if port.op is not graph:
            raise UsageError(
                f"{name!r} is not an input of the model", expected=_inputs(graph)
            )
        tensor = array if isinstance(array, Tensor) else Tensor.of(array)
        with graph.before(next(iter(graph), None)):
            constant = graph.constant(tensor)
        graph.replace_uses(port, constant.output)
        graph.remove_parameter(port.index)
        constant.output.name = name
