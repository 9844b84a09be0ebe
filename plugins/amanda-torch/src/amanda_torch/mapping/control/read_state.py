"""From PyTorch: parameters, buffers and constants.

Those that nothing writes are constants already; the others are variables of the hub,
read at the start of a call and assigned at its end.
"""

from __future__ import annotations

from typing import Any

from amanda.mapping import Decline
from amanda.tensors import Tensor
from amanda_std import ops
from amanda_std.mappings import Value, cast_to

__all__ = ["READ"]


def read_attribute(*, target: str, kind: str = "", context: Any) -> Any:
    """The value of a variable."""
    del kind
    value = context.source.attrs.get("x-value")
    if not isinstance(value, Tensor):
        raise Decline(
            f"{target} is not in the file as a plain tensor; a weight of a class of "
            "its own becomes one by run_decompositions({}) before saving"
        )
    initial = context.graph.constant(value).output
    return ops.read(ops.variable(initial, key=target, type=value.type))


def read_update(value: Any, new: Any, *, non_blocking: bool = False) -> Any:
    """Assign a buffer its new value."""
    del non_blocking
    source = value.port.op
    if source.type != "read":
        raise Decline("only a buffer of the program can be written")
    return ops.assign(Value(source.inputs[0]), cast_to(new, value.dtype))


READ: dict[str, Any] = {
    "get_attr": read_attribute,
    "aten.copy_.default": read_update,
}
