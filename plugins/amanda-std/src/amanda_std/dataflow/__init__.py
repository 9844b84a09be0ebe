"""What mappings share of frameworks whose graphs are dataflow of tokens.

token_flow.py        switches and merges as conditionals and loops with bodies
stacked_array.py     arrays of tensors, which loops read and write, as one tensor
loop_types.py        the types of a loop's variables
strided_slice.py     slices with masks
places.py            coordinates, partitions, diagonals, orders of axes
images.py            sizes of images by weights, patches, selections of boxes
colours.py           colours by their channels
recurrent_cells.py   the steps of LSTM and GRU
batch_statistics.py  batch normalization in training
"""

from __future__ import annotations

from amanda_std.dataflow.batch_statistics import normalize_batch
from amanda_std.dataflow.colours import (
    adjust_contrast,
    adjust_hue,
    adjust_saturation,
    colour_channels,
    hsv_to_rgb,
    rgb_to_hsv,
)
from amanda_std.dataflow.images import (
    as_float32,
    image_patches,
    resize_area,
    resize_bicubic,
    resize_coordinates,
    select_boxes,
)
from amanda_std.dataflow.loop_types import variable_type, wider_loop_types
from amanda_std.dataflow.places import (
    broadcast_of_shapes,
    coordinates_of_nonzero,
    diagonal_of_tensor,
    elements_not_in,
    pad_symmetric,
    partition_rows,
    scatter_into_zeros,
    stitch_rows,
    tensor_of_diagonal,
    transpose_by,
)
from amanda_std.dataflow.recurrent_cells import gru_step, lstm_layer, lstm_step
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
    "normalize_batch",
    "adjust_contrast",
    "adjust_hue",
    "adjust_saturation",
    "colour_channels",
    "hsv_to_rgb",
    "rgb_to_hsv",
    "as_float32",
    "image_patches",
    "resize_area",
    "resize_bicubic",
    "resize_coordinates",
    "select_boxes",
    "variable_type",
    "wider_loop_types",
    "broadcast_of_shapes",
    "coordinates_of_nonzero",
    "diagonal_of_tensor",
    "elements_not_in",
    "pad_symmetric",
    "partition_rows",
    "scatter_into_zeros",
    "stitch_rows",
    "tensor_of_diagonal",
    "transpose_by",
    "gru_step",
    "lstm_layer",
    "lstm_step",
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
    "with_element_type",
    "with_known_elements",
    "with_shape",
    "write_element",
    "written_type",
    "strided_slice",
    "TokenOps",
    "structure_control_flow",
]
