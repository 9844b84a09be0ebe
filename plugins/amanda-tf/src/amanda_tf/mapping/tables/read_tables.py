"""From TensorFlow: lookup tables whose content is known, as constants."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.graph import Op
from amanda.mapping import Decline
from amanda.tensors import Tensor
from amanda_std import ops
from amanda_tf.mapping.variables.resources import TABLES
from amanda_tf.notes import TABLE_KEYS, TABLE_VALUES

__all__ = ["READ"]

_READERS = (
    "LookupTableFind", "LookupTableFindV2", "LookupTableSize", "LookupTableSizeV2",
    "LookupTableExport", "LookupTableExportV2", "If", "While", "Case",
)  # fmt: skip
"""Ops that leave a table as it is."""


def read_table(**_names: Any) -> Any:
    """Nothing uses the handle: what reads a table finds its content."""
    return ops.identity(np.int64(0))


def _content(context: Any) -> tuple[Tensor, Tensor]:
    """Keys and values of the table that an op reads."""
    handle = context.source.inputs[0]
    table: Op = handle.op
    keys, values = table.attrs.get(TABLE_KEYS), table.attrs.get(TABLE_VALUES)
    if not isinstance(keys, Tensor) or not isinstance(values, Tensor):
        raise Decline("the content of the table is not part of the graph")
    changed = [op for op in handle.user_ops if op.type not in _READERS]
    if changed:
        raise Decline(f"{changed[0].type} changes the table, which the hub has not")
    return keys, values


def read_find(
    handle: Any, x: Any, default: Any, *, Tin: Any = None, Tout: Any = None,  # noqa: N803
    context: Any,
) -> Any:  # fmt: skip
    """LookupTableFind to `lookup`."""
    del handle, Tin, Tout
    keys, values = _content(context)
    if len(values.shape) != 1:
        raise Decline("a table of tensors")
    if not keys.size:
        return ops.broadcast_to(default, ops.shape_of(x))
    known = context.graph.constant(keys).output
    found = context.graph.constant(values).output
    return ops.lookup(x, known, found, default)


def read_size(handle: Any, *, context: Any) -> Any:
    """LookupTableSize to a constant."""
    del handle
    return ops.identity(np.int64(_content(context)[0].size))


def read_export(
    handle: Any, *, Tkeys: Any = None, Tvalues: Any = None, context: Any,  # noqa: N803
) -> Any:  # fmt: skip
    """LookupTableExport to constants."""
    del handle, Tkeys, Tvalues
    return tuple(ops.identity(context.graph.constant(t).output)
                 for t in _content(context))  # fmt: skip


READ: dict[str, Any] = {
    **dict.fromkeys(TABLES, read_table),
    **{
        f"LookupTable{name}{version}": function
        for version in ("", "V2")
        for name, function in (
            ("Find", read_find), ("Size", read_size), ("Export", read_export),
        )
    },
}  # fmt: skip
