"""What mappings to and from the hub import: its side, and the ops of its graphs.

A mapping function traces ops of the hub where the matched op stood::

    from amanda_std import ops
    from amanda_std.mappings import inline_body

    def read_loop(op, xs):
        return ops.while_(..., lambda *carried: inline_body(op.bodies["body"], carried))
"""

from __future__ import annotations

from amanda.argument_checks import check_arguments
from amanda_std.autodiff.function_gradients import gradient_of, gradients_of
from amanda_std.autodiff.gradients import backpropagate
from amanda_std.engine.annotations import REQUIRED
from amanda_std.engine.arrays import array_type
from amanda_std.engine.operation import Operation
from amanda_std.engine.samples import Sample, difference
from amanda_std.engine.values import Value, tracing
from amanda_std.hub.computed_arguments import COMPUTED_ARGUMENTS
from amanda_std.hub.dim_values import dims_as_vector
from amanda_std.hub.loop_definitions import loop_as_while, scan_as_while
from amanda_std.hub.lowering import lower
from amanda_std.hub.mapping_side import STD_SIDE
from amanda_std.hub.mapping_values import (
    cast_to,
    expect,
    known_content,
    known_or_value,
    known_scalar,
    one_item,
    rank_of,
    required_content,
    required_integer,
    scalar_like,
    static_value,
    tensor_type_of,
)
from amanda_std.hub.narrow_floats import float32_definition
from amanda_std.hub.op_access import is_std, operation_of
from amanda_std.hub.random_definitions import (
    philox_by_arithmetic,
    threefry_by_arithmetic,
)
from amanda_std.hub.unsigned_integers import INT64_DEFINITIONS
from amanda_std.ops.control.bodies import inline as inline_body
from amanda_std.ops.ml.trees import COMPARISONS as TREE_COMPARISONS
from amanda_std.ops.ml.trees import JOINS as TREE_AGGREGATIONS
from amanda_std.ops.signal.complex_transforms import dft_by_matrices
from amanda_std.ops.tensor.saturating_cast import finite_limits as finite_limits
from amanda_std.passes.infer import infer

__all__ = [
    "COMPUTED_ARGUMENTS",
    "INT64_DEFINITIONS",
    "REQUIRED",
    "STD_SIDE",
    "TREE_AGGREGATIONS",
    "TREE_COMPARISONS",
    "Operation",
    "Sample",
    "Value",
    "array_type",
    "backpropagate",
    "cast_to",
    "dft_by_matrices",
    "difference",
    "dims_as_vector",
    "expect",
    "finite_limits",
    "float32_definition",
    "gradient_of",
    "gradients_of",
    "infer",
    "inline_body",
    "is_std",
    "known_content",
    "known_or_value",
    "known_scalar",
    "loop_as_while",
    "lower",
    "one_item",
    "operation_of",
    "philox_by_arithmetic",
    "rank_of",
    "required_content",
    "required_integer",
    "scan_as_while",
    "scalar_like",
    "static_value",
    "tensor_type_of",
    "threefry_by_arithmetic",
    "tracing",
]

check_arguments(globals())
