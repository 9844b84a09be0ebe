"""From TensorFlow: functions mapped over rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amanda_std import ops
from amanda_std.mappings import inline_body

__all__ = ["READ"]


def read_map_function(
    *xs: Any, f: Any, Targuments: Sequence[Any], Tcaptured: Any = None,  # noqa: N803
    output_types: Any = None, output_shapes: Any = None,
    max_intra_op_parallelism: int = 1,
) -> Any:  # fmt: skip
    """A function for each slice along the first axis; the results are stacked."""
    del Tcaptured, output_types, output_shapes, max_intra_op_parallelism
    rows, rest = xs[: len(Targuments)], xs[len(Targuments) :]
    return tuple(
        ops.scan(lambda *row: inline_body(f, (*row, *rest)), None, *rows, carried=0)
    )


READ: dict[str, Any] = {
    "MapDefun": read_map_function,
}
