"""What backends for the hub import: op access, kernel tables, the step runner, state.

A backend with kernels of its own lowers a graph to what it supports, and runs it as
steps over numbered slots::

    from amanda_std.backends import Kernels, StepRunner, is_not_composite, lower

    KERNELS = Kernels("mine", {"tanh": mine.tanh, "add": mine.add})

    def compile(self, graph, device, options):
        lower(graph, lambda op: op.type in KERNELS or is_not_composite(op))
        return Executable(StepRunner(graph, KERNELS))

One with a runner of its own binds the arguments of each op to its kernel:
`bind_kernel(op, KERNELS[op.type])`.
"""

from __future__ import annotations

from amanda.argument_checks import check_arguments
from amanda_std.engine.annotations import BODY, SHAPE_ARG, Param
from amanda_std.engine.array_methods import ArrayLike
from amanda_std.engine.arrays import Kernels, current_kernels, use_kernels
from amanda_std.engine.function_lookup import find_function
from amanda_std.engine.kernel_dispatch import dispatch, when
from amanda_std.engine.operation import Operation, why_no_kernel
from amanda_std.engine.samples import Sample, difference
from amanda_std.engine.traits import Trait
from amanda_std.engine.values import Value, tracing
from amanda_std.hub.effect_order import effect_of
from amanda_std.hub.expansion import is_not_composite
from amanda_std.hub.lowering import lower
from amanda_std.hub.op_access import (
    compile_time_arguments,
    has_trait,
    inputs_and_captures,
    is_std,
    op_arguments,
    operation_of,
    shape_arguments,
    why_invalid,
)
from amanda_std.hub.op_samples import op_samples
from amanda_std.inference import shapes
from amanda_std.inference.element_types import part_type as real_dtype
from amanda_std.inference.shape_arguments import to_integers
from amanda_std.inference.shapes import product
from amanda_std.ops.control.bodies import inline as inline_body
from amanda_std.ops.control.conditionals import select_branch as run_branch
from amanda_std.ops.control.scan import one_for_each as per_tensor
from amanda_std.ops.math.reduction import extreme_identity as dtype_bound
from amanda_std.ops.nn.convolution import input_first as input_first_permutation
from amanda_std.ops.nn.convolution import output_sizes as window_counts
from amanda_std.ops.nn.convolution import permute as permute
from amanda_std.ops.nn.convolution import resolve_padding as explicit_padding
from amanda_std.ops.nn.convolution import strides_or_ones as per_axis
from amanda_std.ops.nn.convolution import (
    to_channels_first as channels_first_permutation,
)
from amanda_std.ops.nn.convolution import transposed_geometry as transposed_windows
from amanda_std.ops.nn.convolution import window_slice as window_slices
from amanda_std.ops.nn.pooling import pooled_sizes as pooled_sizes
from amanda_std.ops.nn.pooling import replace_nan as replace_nan
from amanda_std.passes.data_movement import full_permutation, inverse_permutation
from amanda_std.passes.drop import drop
from amanda_std.passes.fold import MAX_FOLDED_BYTES
from amanda_std.passes.infer import infer
from amanda_std.runtime.containers import join_types
from amanda_std.runtime.implementations import implementations_in_table
from amanda_std.runtime.kernel_binding import BoundKernel, bind_kernel
from amanda_std.runtime.numpy_kernels import NUMPY
from amanda_std.runtime.profiling import time_steps
from amanda_std.runtime.state import RunContext, State, run_context
from amanda_std.runtime.step_runner import (
    RunStep,
    StepRunner,
    UnscheduledStep,
    run_steps,
    slot_reader,
)

__all__ = [
    "BODY",
    "MAX_FOLDED_BYTES",
    "NUMPY",
    "SHAPE_ARG",
    "ArrayLike",
    "BoundKernel",
    "Kernels",
    "Operation",
    "Param",
    "RunContext",
    "RunStep",
    "Sample",
    "State",
    "StepRunner",
    "Trait",
    "UnscheduledStep",
    "Value",
    "bind_kernel",
    "channels_first_permutation",
    "compile_time_arguments",
    "current_kernels",
    "difference",
    "dispatch",
    "drop",
    "dtype_bound",
    "effect_of",
    "explicit_padding",
    "find_function",
    "full_permutation",
    "has_trait",
    "implementations_in_table",
    "infer",
    "inline_body",
    "input_first_permutation",
    "inputs_and_captures",
    "inverse_permutation",
    "is_not_composite",
    "is_std",
    "join_types",
    "lower",
    "op_arguments",
    "op_samples",
    "operation_of",
    "per_axis",
    "per_tensor",
    "permute",
    "pooled_sizes",
    "product",
    "real_dtype",
    "run_branch",
    "run_context",
    "run_steps",
    "shape_arguments",
    "shapes",
    "slot_reader",
    "time_steps",
    "to_integers",
    "tracing",
    "transposed_windows",
    "use_kernels",
    "when",
    "why_invalid",
    "why_no_kernel",
    "window_counts",
    "window_slices",
    "replace_nan",
]

check_arguments(globals())
