"""View ops: how they are repeated, and what a write into their result means."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from amanda.errors import ConversionError
from amanda.graph import Graph, Op, OutputPort
from amanda.types import TensorType
from amanda_torch.aliases import returns_argument
from amanda_torch.mapping.functionalization.strides import shares_memory

__all__ = ["apply_view", "is_view", "viewed_input", "write_view"]

_SAME: Final = (
    "alias", "detach", "detach_", "lift_fresh", "to", "contiguous", "clone",
    "view_as_complex_", "resolve_conj", "resolve_neg", "type_as", "positive",
    "conj_physical", "dropout", "feature_dropout", "alpha_dropout",
    "feature_alpha_dropout",
)  # fmt: skip
"""Ops that return their argument, or something equal to it."""
_RESHAPED: Final = (
    "view", "reshape", "_unsafe_view", "flatten", "unflatten", "squeeze", "unsqueeze",
    "ravel", "view_as", "reshape_as", "atleast_1d", "atleast_2d", "atleast_3d",
    "_reshape_alias", "unsqueeze_", "squeeze_",
)  # fmt: skip
_COPIES_IF_NEEDED: Final = (
    "reshape", "reshape_as", "flatten", "ravel", "contiguous"
)  # fmt: skip
"""Ops that return a view if the strides of their argument allow it, else a copy."""
_JOINT: Final = ("broadcast_tensors", "meshgrid")
"""Ops with a view of each of their arguments."""
_EXPANDED: Final = ("expand", "expand_as", "broadcast_to", *_JOINT)
"""Views that repeat elements: PyTorch writes into those that repeat none."""
_OWN_INVERSE: Final = (
    "transpose", "t", "swapaxes", "swapdims", "numpy_T", "mT", "matrix_H", "mH",
    "adjoint", "conj", "_conj", "_neg_view", "transpose_", "t_",
)  # fmt: skip


def base_name(op: Op) -> str:
    """The name of an ATen op without its overload."""
    return (op.type or "").removeprefix("aten.").partition(".")[0]


def is_view(op: Op, source: OutputPort) -> bool:
    """Whether the results of an op share the memory of an argument, the first one."""
    kind = base_name(op)
    if returns_argument(op):
        return True
    definition = op.definition
    if definition is None or not definition.outputs or not definition.inputs:
        return False
    first, out = definition.inputs[0].alias, definition.outputs[0].alias
    if not first or not out or "!" in first:
        return False
    if kind == "to":
        same = _dtype(source) == _dtype(op.outputs[0])
        return same and not op.attrs.get("copy") and shares_memory(op, source)
    return kind not in _COPIES_IF_NEEDED or shares_memory(op, source)


def _dtype(port: OutputPort) -> Any:
    return port.type.dtype if isinstance(port.type, TensorType) else None


def viewed_input(op: Op, index: int) -> int:
    """The place of the argument whose memory a result of a view op shares."""
    return index if base_name(op) in _JOINT else 0


def apply_view(
    graph: Graph, before: Op | None, op: Op, index: int, base: OutputPort
) -> OutputPort:
    """The result of a view op for another base."""
    kind = base_name(op)
    if kind in _JOINT:
        return _apply_joint(graph, before, op, index, base)
    type = (op.type or "").replace(f"{kind}.", f"{kind.rstrip('_')}.", 1)
    made = _add(graph, before, op, type, [base], skip=1, outputs=len(op.outputs))
    for new, old in zip(made, op.outputs, strict=True):
        new.type = old.type
    return made[index]


def _apply_joint(
    graph: Graph, before: Op | None, op: Op, index: int, base: OutputPort
) -> OutputPort:
    values = list(op.inputs)
    values[index] = base
    with graph.before(before):
        made = graph.add(op.type, values, dict(op.attrs), outputs=len(values))
    for new, old in zip(made.outputs, op.outputs, strict=True):
        new.type = old.type
    return made.outputs[index]


def _add(
    graph: Graph, before: Op | None, op: Op, type: str, first: Sequence[OutputPort],
    *, skip: int = 1, outputs: int = 1, attrs: Mapping[str, Any] | None = None,
) -> tuple[OutputPort, ...]:  # fmt: skip
    """Add an op with the attributes of another one, and its inputs after `skip`."""
    ports = op.input_ports[skip:]
    with graph.before(before):
        made = graph.add(
            type, [*first, *(p.source for p in ports)],
            dict(op.attrs) if attrs is None else attrs, outputs=outputs,
        )  # fmt: skip
    for i, port in enumerate(ports, len(first)):
        if port.name is not None:
            made.input_ports[i].set_name(port.name)
    return made.outputs


def write_view(
    graph: Graph, before: Op | None, op: Op, index: int,
    base: OutputPort, value: OutputPort,
) -> OutputPort:  # fmt: skip
    """A base after a value was written into the result of a view op of it."""
    kind = base_name(op)
    if kind in _SAME:
        return value
    shown = op.outputs[index]
    is_whole = kind in _EXPANDED and _same_size(base, shown)
    if op.type == "aten.view.dtype":
        return _write_bits(graph, before, base, value)
    if kind in _RESHAPED or is_whole:
        with graph.before(before):
            return graph.add("aten.reshape_as.default", [value, base]).output
    if kind in _OWN_INVERSE:
        return apply_view(graph, before, op, 0, value)
    write = _WRITES.get(kind)
    if write is None:
        raise ConversionError(
            "a write into a view of this kind is not supported",
            who=op.label, got=op.type,
            hint="load what torch.export.export(...).run_decompositions() returns, "
            "which has no writes",
        )  # fmt: skip
    return write(graph, before, op, index, base, value)


def _write_bits(
    graph: Graph, before: Op | None, base: OutputPort, value: OutputPort
) -> OutputPort:
    """A write into the bits of a tensor, seen as elements of another type."""
    with graph.before(before):
        attrs = {"dtype": _dtype(base)}
        return graph.add("aten.view.dtype", [value], attrs).output


def _same_size(a: OutputPort, b: OutputPort) -> bool:
    """Whether two tensors differ at most in axes of size 1."""
    dims = [
        [d for d in port.type.shape.dims if d != 1]
        for port in (a, b)
        if isinstance(port.type, TensorType)
    ]
    return len(dims) == 2 and dims[0] == dims[1]


_Write = Callable[[Graph, "Op | None", Op, int, OutputPort, OutputPort], OutputPort]


def _by_scatter(type: str) -> _Write:
    """A write by the op that writes into this kind of view."""

    def write(
        graph: Graph, before: Op | None, op: Op, _index: int,
        base: OutputPort, value: OutputPort,
    ) -> OutputPort:  # fmt: skip
        return _add(graph, before, op, type, [base, value])[0]

    return write


def _write_matrix_diagonal(
    graph: Graph, before: Op | None, op: Op, _index: int,
    base: OutputPort, value: OutputPort,
) -> OutputPort:  # fmt: skip
    attrs = {"dim1": -2, "dim2": -1} | dict(op.attrs)
    type = "aten.diagonal_scatter.default"
    return _add(graph, before, op, type, [base, value], attrs=attrs)[0]


def _write_permuted(
    graph: Graph, before: Op | None, op: Op, _index: int,
    _base: OutputPort, value: OutputPort,
) -> OutputPort:  # fmt: skip
    dims = [int(d) % len(op.attrs["dims"]) for d in op.attrs["dims"]]
    inverse = [dims.index(i) for i in range(len(dims))]
    with graph.before(before):
        return graph.add("aten.permute.default", [value], {"dims": inverse}).output


def _write_moved(
    graph: Graph, before: Op | None, op: Op, _index: int,
    _base: OutputPort, value: OutputPort,
) -> OutputPort:  # fmt: skip
    attrs = {"source": op.attrs["destination"], "destination": op.attrs["source"]}
    with graph.before(before):
        return graph.add(op.type, [value], attrs).output


def _write_part(
    graph: Graph, before: Op | None, op: Op, index: int,
    base: OutputPort, value: OutputPort,
) -> OutputPort:  # fmt: skip
    """A write into one of the parts that a tensor is split into."""
    dim = _split_axis(op)
    sizes = [_size(port, dim) for port in op.outputs[: index + 1]]
    start = sum(sizes[:index])
    attrs = {"dim": dim, "start": start, "end": start + sizes[index], "step": 1}
    with graph.before(before):
        return graph.add("aten.slice_scatter.default", [base, value], attrs).output


def _split_axis(op: Op) -> int:
    """The axis that an op splits; `hsplit` splits vectors along their only one."""
    kind, part = base_name(op), op.outputs[0].type
    if kind == "hsplit" and isinstance(part, TensorType):
        return min(part.shape.rank, 2) - 1
    return 2 if kind == "dsplit" else int(op.attrs.get("dim", 0))


def _size(port: OutputPort, dim: int) -> int:
    dims = port.type.shape.dims if isinstance(port.type, TensorType) else ()
    size = dims[dim] if dims else None
    if not isinstance(size, int):
        raise ConversionError(
            "a write into a part of unknown size", who=port.op.label, got=port.type
        )
    return size


def _write_row(
    graph: Graph, before: Op | None, op: Op, index: int,
    base: OutputPort, value: OutputPort,
) -> OutputPort:  # fmt: skip
    attrs = {"dim": op.attrs.get("dim", 0), "index": index}
    with graph.before(before):
        return graph.add("aten.select_scatter.default", [base, value], attrs).output


def _write_narrowed(
    graph: Graph, before: Op | None, op: Op, _index: int,
    base: OutputPort, value: OutputPort,
) -> OutputPort:  # fmt: skip
    dim = op.attrs["dim"]
    start, length = op.attrs.get("start"), op.attrs.get("length")
    if isinstance(start, int) and start < 0:
        start += _size(base, dim)
    if not isinstance(start, int) or not isinstance(length, int):
        raise ConversionError(
            "a write into a part of unknown size", who=op.label, got=op.type
        )
    attrs = {"dim": dim, "start": start, "end": start + length, "step": 1}
    with graph.before(before):
        return graph.add("aten.slice_scatter.default", [base, value], attrs).output


def _write_pairs(
    graph: Graph, before: Op | None, _op: Op, _index: int,
    _base: OutputPort, value: OutputPort,
) -> OutputPort:  # fmt: skip
    with graph.before(before):
        return graph.add("aten.view_as_complex.default", [value]).output


def _write_complex_part(is_real: bool) -> _Write:
    def write(
        graph: Graph, before: Op | None, _op: Op, _index: int,
        base: OutputPort, value: OutputPort,
    ) -> OutputPort:  # fmt: skip
        dtype = _dtype(base)
        if dtype is not None and dtype.kind != "complex":
            return value  # the real part of a real tensor is the tensor
        other = "aten.imag.default" if is_real else "aten.real.default"
        with graph.before(before):
            rest = graph.add(other, [base]).output
            parts = [value, rest] if is_real else [rest, value]
            return graph.add("aten.complex.default", parts).output

    return write


_WRITES: Final[Mapping[str, _Write]] = {
    "select": _by_scatter("aten.select_scatter.default"),
    "slice": _by_scatter("aten.slice_scatter.default"),
    "diagonal": _by_scatter("aten.diagonal_scatter.default"),
    "linalg_diagonal": _write_matrix_diagonal,
    "as_strided": _by_scatter("aten.as_strided_scatter.default"),
    "permute": _write_permuted,
    "movedim": _write_moved,
    "moveaxis": _write_moved,
    "split": _write_part,
    "split_with_sizes": _write_part,
    "chunk": _write_part,
    "tensor_split": _write_part,
    "hsplit": _write_part,
    "vsplit": _write_part,
    "dsplit": _write_part,
    "unsafe_split": _write_part,
    "unsafe_split_with_sizes": _write_part,
    "unsafe_chunk": _write_part,
    "unbind": _write_row,
    "narrow": _write_narrowed,
    "view_as_real": _write_pairs,
    "real": _write_complex_part(True),
    "imag": _write_complex_part(False),
}
