"""Notes on ops: what a GraphDef does not hold and other sources of graphs do.

A GraphDef has the ops of a variable or a table, not their content, and functions list
the ops that run although no result needs them.
"""

from __future__ import annotations

from typing import Final

from amanda.graph import VALUE_NOTE

__all__ = ["CONTROL_OUTPUT", "STATE_NOTES", "TABLE_KEYS", "TABLE_VALUES", "VALUE"]

VALUE: Final = VALUE_NOTE
"""The value of a variable: a Tensor, on `VarHandleOp`, `VariableV2` or `Variable`."""

TABLE_KEYS: Final = "x-keys"
TABLE_VALUES: Final = "x-values"
"""The content of a lookup table: vectors, on `HashTableV2` etc."""

CONTROL_OUTPUT: Final = "x-control-output"
"""True on an op that runs in every call, also where no result needs it."""

STATE_NOTES: Final = (VALUE, TABLE_KEYS, TABLE_VALUES, CONTROL_OUTPUT)
