"""`fill_diagonal_`, which has no functional form, as ops that have one."""

from __future__ import annotations

from amanda.errors import ConversionError
from amanda.graph import Graph, Op, OutputPort
from amanda.types import TensorType

__all__ = ["fill_diagonal"]


def fill_diagonal(graph: Graph, op: Op, value: OutputPort) -> OutputPort:
    """What a tensor holds after a `fill_diagonal_`; `value` is what it held before."""
    shape = value.type.shape if isinstance(value.type, TensorType) else None
    with graph.before(op):
        if shape is not None and shape.rank == 2 and not op.attrs.get("wrap"):
            line = graph.add("aten.diagonal.default", [value]).output
            return graph.add(
                "aten.diagonal_scatter.default", [value, _fill(graph, op, line)]
            ).output
        return _fill_steps(graph, op, value)


def _fill_steps(graph: Graph, op: Op, value: OutputPort) -> OutputPort:
    """Fill the elements that are equally far apart in the order of rows."""
    attrs = _diagonal_places(op, value)
    flat = graph.add("aten.reshape.default", [value], {"shape": [-1]}).output
    line = graph.add("aten.slice.Tensor", [flat], attrs).output
    filled = graph.add(
        "aten.slice_scatter.default", [flat, _fill(graph, op, line)], attrs
    ).output
    return graph.add("aten.reshape_as.default", [filled, value]).output


def _fill(graph: Graph, op: Op, line: OutputPort) -> OutputPort:
    number = {"value": op.attrs["fill_value"]}
    return graph.add("aten.fill.Scalar", [line], number).output


def _diagonal_places(op: Op, value: OutputPort) -> dict[str, int]:
    """The slice of all elements in the order of rows that is the diagonal.

    That of a matrix which wraps goes on until the last row.
    """
    dims = value.type.shape.dims if isinstance(value.type, TensorType) else (None,)
    sizes = [dim for dim in dims if isinstance(dim, int)]
    if len(sizes) < len(dims):
        raise ConversionError(
            "a diagonal of a tensor whose sizes are known at run time only",
            who=op.label, got=value.type,
        )  # fmt: skip
    step, whole = 0, 1
    for size in reversed(sizes):
        step, whole = step + whole, whole * size
    wraps = op.attrs.get("wrap") and len(sizes) == 2
    end = whole if wraps else min(sizes) * step
    return {"dim": 0, "start": 0, "end": end, "step": step}
