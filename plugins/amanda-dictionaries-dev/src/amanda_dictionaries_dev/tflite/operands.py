"""Names of operands and results, which the schema lacks.

They are those of the MLIR dialect in TensorFlow's sources, `tfl_ops.td`, if it has the
operator; other operands are numbered. `x?` is optional, `*x` stands for one or more,
`**x` for any number.

Files omit more than the dialect allows: the shape of RESHAPE may be in its options
only, and an LSTM with the BASIC kernel has five inputs, with other meanings, and four
results. So these are optional here.
"""

from __future__ import annotations

from collections.abc import Iterator

_GATES = ("input", "forget", "cell", "output")
_ROWS = """\
lhs rhs -> output: ADD BITWISE_XOR DIV FLOOR_DIV FLOOR_MOD GREATER GREATER_EQUAL LESS
lhs rhs -> output: LESS_EQUAL LOGICAL_AND LOGICAL_OR MUL NOT_EQUAL POW RIGHT_SHIFT
lhs rhs -> output: SQUARED_DIFFERENCE SUB
lhs rhs -> max: MAXIMUM
lhs rhs -> min: MINIMUM
x y -> output: BATCH_MATMUL EQUAL
y x -> output: ATAN2
x -> y: ABS CEIL COS ELU EXP FLOOR LOG LOGISTIC NEG RELU RELU6 RELU_0_TO_1
x -> y: RELU_N1_TO_1 ROUND RSQRT SIN SQRT SQUARE
x -> output: SIGN
lhs -> output: LOGICAL_NOT
input -> output: AVERAGE_POOL_2D BITCAST BUCKETIZE CAST COMPLEX_ABS DENSIFY
input -> output: DEPTH_TO_SPACE DEQUANTIZE FAKE_QUANT GELU HARD_SWISH IMAG
input -> output: L2_NORMALIZATION LEAKY_RELU LOCAL_RESPONSE_NORMALIZATION LOG_SOFTMAX
input -> output: MAX_POOL_2D QUANTIZE RANK REAL SHAPE SOFTMAX SPACE_TO_DEPTH SQUEEZE
input -> output: TANH ZEROS_LIKE
*inputs -> sum: ADD_N
*values -> output: CONCATENATION PACK
input dim -> output: ARG_MAX ARG_MIN EXPAND_DIMS
input axis -> output: CUMSUM MEAN REVERSE_V2
input axes -> output: REDUCE_MAX REDUCE_MIN REDUCE_PROD SUM
input reduction_indices -> output: REDUCE_ALL REDUCE_ANY
input filter bias? -> output: CONV_2D CONV_3D DEPTHWISE_CONV_2D
input filter bias? -> *output: FULLY_CONNECTED
output_shape filter input bias? -> output: CONV_3D_TRANSPOSE
output_shape weights input bias? -> output: TRANSPOSE_CONV
params indices -> output: GATHER GATHER_ND
indices updates shape -> output: SCATTER_ND
diagonal -> output: MATRIX_DIAG
input diagonal -> result: MATRIX_SET_DIAG
lookup value -> output: EMBEDDING_LOOKUP
dims input -> result: FILL
indices depth on_value off_value -> output: ONE_HOT
input begin size -> output: SLICE
input begin end strides -> output: STRIDED_SLICE
input padding -> output: PAD
input padding constant_values -> output: PADV2
input pad -> output: MIRROR_PAD
input alpha -> output: PRELU
input shape? -> output: RESHAPE
input shape -> output: BROADCAST_TO
input seq_lengths -> output: REVERSE_SEQUENCE
input multiples -> output: TILE
input perm -> output: TRANSPOSE
input block_shape indices -> output: BATCH_TO_SPACE_ND
input block_shape paddings -> output: SPACE_TO_BATCH_ND
input size -> output: RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR
input fft_length -> output: RFFT2D
input segment_ids -> output: SEGMENT_SUM
input segment_ids num_segments -> output: UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_MIN
input segment_ids num_segments -> output: UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_SUM
input k -> values indices: TOPK_V2
input -> output idx: UNIQUE
input -> *outputs: UNPACK
split_dim value -> *outputs: SPLIT
value size_splits split_dim -> *outputs: SPLIT_V
start limit delta -> result: RANGE
condition -> index: WHERE
condition x y -> output: SELECT SELECT_V2
operand update start_indices -> output: DYNAMIC_UPDATE_SLICE
sparse_indices output_shape sparse_values default_value -> dense: SPARSE_TO_DENSE
s0 s1 -> r0: BROADCAST_ARGS
shape -> out: RANDOM_STANDARD_NORMAL RANDOM_UNIFORM
logits num_samples -> out: MULTINOMIAL
cond **input -> **results: IF
**input -> **output: WHILE
 -> : CALL_ONCE
 -> resource_handle: VAR_HANDLE
resource_id -> result: READ_VARIABLE
resource_id value -> : ASSIGN_VARIABLE
 -> out: HASHTABLE
hash_table -> out: HASHTABLE_SIZE
hash_table keys default_value -> out: HASHTABLE_FIND
hash_table keys values -> : HASHTABLE_IMPORT
"""
_BOXES = "boxes scores max_output_size iou_threshold score_threshold"
_LONG = {
    "NON_MAX_SUPPRESSION_V4": f"{_BOXES} -> selected_indices valid_outputs",
    "NON_MAX_SUPPRESSION_V5": f"{_BOXES} soft_nms_sigma -> "
    "selected_indices selected_scores valid_outputs",
    "SVDF": "input feature_weights time_weights input_gate_bias? activation_state "
    "-> output",
    "UNIDIRECTIONAL_SEQUENCE_RNN": "input input_to_input_weights "
    "recurrent_to_input_weights input_gate_bias hidden_state -> output",
}


def _cell(way: str = "") -> list[str]:
    """The weights of one LSTM; input gate and peephole weights are optional."""
    names = [f"{way}input_to_{gate}_weights" for gate in _GATES]
    names += [f"{way}recurrent_to_{gate}_weights" for gate in _GATES]
    names += [f"{way}cell_to_{gate}_weights" for gate in ("input", "forget", "output")]
    names += [f"{way}input_gate_bias", f"{way}forget_gate_bias"]
    names += [f"{way}cell_bias", f"{way}output_gate_bias"]
    names += [f"{way}projection_weights", f"{way}projection_bias"]
    free = ("cell_to_", "_input_gate", "to_input_", "projection_")
    return [f"{n}?" if any(part in f"_{n}" for part in free) else n for n in names]


_STATES = ["input_activation_state", "input_cell_state"]
_NORMS = [f"{gate}_layer_norm_coefficients?" for gate in _GATES]
_SEQUENCE = ["input", *_cell(), *_STATES, *_NORMS]
_BOTH = ["input", *_cell("fw_"), *_cell("bw_")]
_BOTH += [f"{way}{state}" for way in ("fw_", "bw_") for state in _STATES]
_BOTH += ["aux_input?"]
_BOTH += [f"{w}aux_input_to_{g}_weights?" for w in ("fw_", "bw_") for g in _GATES]
_LONG |= {
    "BIDIRECTIONAL_SEQUENCE_LSTM": f"{' '.join(_BOTH)} -> fw_output bw_output?",
    "LSTM": " ".join(["input", *(f"{n.rstrip('?')}?" for n in _SEQUENCE[1:])])
    + " -> *output",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": f"{' '.join(_SEQUENCE)} -> output",
}


def _format_ports(text: str) -> str:
    """
    >>> _format_ports("input bias? **rest -> *out")
    '(input: tensor, bias?: tensor, *rest: tensor >= 0) -> (*out: tensor)'
    """
    inputs, _, outputs = text.partition("->")
    return f"({', '.join(_ports(inputs))}) -> ({', '.join(_ports(outputs))})"


def _ports(text: str) -> Iterator[str]:
    for name in text.split():
        least = " >= 0" if name.startswith("**") else ""
        yield f"{name.replace('**', '*')}: tensor{least}"


NUMBERED = "(*inputs: tensor? >= 0) -> (*outputs: tensor >= 0)"
OPERANDS = {
    op: _format_ports(ports)
    for line in _ROWS.splitlines()
    for ports, _, ops in [line.partition(":")]
    for op in ops.split()
} | {op: _format_ports(ports) for op, ports in _LONG.items()}
"""Ports by operator, in signature syntax."""
