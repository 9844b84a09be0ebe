"""What mappings share of frameworks whose graphs are dataflow of tokens.

token_flow.py     switches and merges as conditionals and loops with bodies
stacked_array.py  arrays of tensors, which loops read and write, as one tensor
loop_types.py     the types of a loop's variables
strided_slice.py  slices with masks
"""

from __future__ import annotations

from amanda_std.dataflow.loop_types import variable_type, wider_loop_types
from amanda_std.dataflow.stacked_array import (
    array_length,
    concat_elements,
    empty_array,
    gather_elements,
    is_open,
    is_open_type,
    push_element,
    read_element,
    scatter_elements,
    split_elements,
    with_element_type,
    with_known_elements,
    with_shape,
    write_element,
    written_type,
)
from amanda_std.dataflow.strided_slice import strided_slice
from amanda_std.dataflow.token_flow import TokenOps, structure_control_flow

__all__ = [
    "TokenOps",
    "array_length",
    "concat_elements",
    "empty_array",
    "gather_elements",
    "is_open",
    "is_open_type",
    "push_element",
    "read_element",
    "scatter_elements",
    "split_elements",
    "strided_slice",
    "structure_control_flow",
    "variable_type",
    "wider_loop_types",
    "with_element_type",
    "with_known_elements",
    "with_shape",
    "write_element",
    "written_type",
]
