"""Notes that a value, computed by a formula, is the result of a known op."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from amanda_std.engine.annotations import Array, Other
from amanda_std.engine.links import find_operation
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, array
from amanda_std.ops.math.arithmetic import identity


@composite
def schema_note(
    x: Array,
    *inputs: Other,  # noqa: ARG001  as `attrs`
    schema: str,
    attrs: dict[str, Any] | None = None,  # noqa: ARG001  read by the pass `stable`
) -> Array:
    """x, with the note that it is the op `schema` of `inputs`, with attributes `attrs`

    A frontend that writes a softmax as a division attaches the note to the quotient.
    Losses, gradients and backends then use the stable op in place of the formula."""
    find_operation(schema)
    return identity(x)


@schema_note.samples
def _() -> Samples:
    note = {"schema": "softmax", "attrs": {"axes": (1,)}}
    for dtype in ("float64", "float32"):
        x = array([[0.5, -1.0, 2.0]], dtype)
        sums = [math.fsum(map(math.exp, row)) for row in x.tolist()]
        y = (np.exp(x) / array(sums)[:, None]).astype(dtype)
        yield Sample((y, x), y, note)
    yield Sample((x[:, :0], x[:, :0]), x[:, :0], note, smooth=False)
