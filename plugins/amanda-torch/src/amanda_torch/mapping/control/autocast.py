"""The casts of regions with automatic mixed precision, as ops.

A region records the element types of its results, and not the casts that lead there:
`linear` of float32 gives bfloat16. Which ops cast to what depends on the device and the
version of PyTorch, so it follows from these records, and no list of ops is needed.
"""

from __future__ import annotations

from typing import Any, Final

from amanda.graph import Graph, Op, OutputPort
from amanda.types import DType, TensorType

__all__ = ["add_autocasts"]

REGION: Final = "higher_order.wrap_with_autocast"
FLOAT: Final = DType("float32")


def add_autocasts(graph: Graph) -> None:
    """Add the casts of all regions to their bodies."""
    for part in list(graph.graphs()):
        dtype = _region_type(part)
        if dtype is None:
            continue
        for op in list(part):
            _cast_inputs(op, dtype)


def _region_type(part: Graph) -> Any:
    """The narrow type of the innermost region that a graph is in, or None."""
    holder = part.holder
    while holder is not None:
        if holder.type == REGION:
            enabled = holder.attrs.get("enabled", True)
            return holder.attrs.get("dtype") if enabled else None
        holder = None if holder.graph is None else holder.graph.holder
    return None


def _cast_inputs(op: Op, narrow: Any) -> None:
    """Cast operands as the recorded type of the first result demands it.

    A narrow result of a wide operand comes from a cast to the narrow type; a wide
    result of narrow operands only, from casts to float32.
    """
    result = _dtype(op.outputs[0]) if op.outputs else None
    if op.bodies or "dtype" in op.attrs or _writes(op):
        return
    floats = [
        port for port in op.input_ports
        if port.source is not None and _dtype(port.source) in (narrow, FLOAT)
    ]  # fmt: skip
    types = {_dtype(port.source) for port in floats}
    wanted = (
        narrow if result == narrow and FLOAT in types
        else FLOAT if result == FLOAT and types == {narrow} else None
    )  # fmt: skip
    graph = op.graph
    if wanted is None or graph is None:
        return
    for port in floats:
        if _dtype(port.source) != wanted:
            with graph.before(op):
                cast = graph.add("aten.to.dtype", [port.source], {"dtype": wanted})
            known: Any = port.source.type  # type: ignore[union-attr]
            cast.output.type = TensorType(wanted, known.shape)
            port.connect(cast.output)


def _dtype(port: OutputPort | None) -> Any:
    type = None if port is None else port.type
    return type.dtype if isinstance(type, TensorType) else None


def _writes(op: Op) -> bool:
    definition = op.definition
    return definition is None or any(port.is_written for port in definition.inputs)
