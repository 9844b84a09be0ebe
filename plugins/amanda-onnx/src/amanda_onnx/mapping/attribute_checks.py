"""Checks of ONNX attributes that schemas describe in prose only.

Strings with a few allowed values, integers that are flags, lists with a number for each
spatial axis. An op that violates them is not valid ONNX: no rule is tried, and the
fault is reported. The same holds for attributes of a wrong type, and for integers that
are out of the bounds in the dictionary.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from amanda.dictionary import Attr, attribute_fault
from amanda.graph import Op
from amanda.types import TensorType

__all__ = [
    "FLAGS",
    "SPATIAL",
    "ALLOWED_STRINGS",
    "attribute_fault_of",
    "allowed_strings",
]

Attrs = Mapping[str, Any]
AttributeCheck = Callable[[Op, Attrs], str | None]

FLAGS: Final = frozenset((
    "allow_zero", "allowzero", "antialias", "ceil_mode", "center_point_box",
    "count_include_pad", "detect_negative", "detect_positive", "exclude_outside",
    "exclusive", "input_forget", "interleaved", "inverse", "is_case_sensitive",
    "is_causal", "keepdims", "largest", "layout", "linear_before_reset",
    "noop_with_empty_axes", "onesided", "periodic", "reverse", "saturate",
    "select_last_index", "sorted", "storage_order", "training_mode", "transA",
    "transB", "upper",
))  # fmt: skip
"""Integers that must be 0 or 1."""

_REDUCTIONS = ("none", "sum", "mean")
_SCATTER_REDUCTIONS = ("none", "add", "mul", "max", "min")
_ROUNDINGS = ("up", "down", "nearest")
_DIRECTIONS = ("forward", "reverse", "bidirectional")

ALLOWED_STRINGS: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    # exporters leave it empty for the default
    ("", "auto_pad"): ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", ""),
    ("BitShift", "direction"): ("LEFT", "RIGHT"),
    ("Cast", "round_mode"): _ROUNDINGS,
    ("CastLike", "round_mode"): _ROUNDINGS,
    ("CausalConvWithState", "activation"): ("none", "silu", "swish"),
    ("DepthToSpace", "mode"): ("DCR", "CRD"),
    ("GRU", "direction"): _DIRECTIONS,
    ("Gelu", "approximate"): ("none", "tanh"),
    ("GridSample", "mode"): ("linear", "nearest", "cubic", "bilinear", "bicubic"),
    ("GridSample", "padding_mode"): ("zeros", "border", "reflection"),
    ("ImageDecoder", "pixel_format"): ("RGB", "BGR", "Grayscale"),
    ("LSTM", "direction"): _DIRECTIONS,
    ("LinearAttention", "update_rule"): ("linear", "gated", "delta", "gated_delta"),
    ("NegativeLogLikelihoodLoss", "reduction"): _REDUCTIONS,
    ("Pad", "mode"): ("constant", "reflect", "edge", "wrap"),
    ("RNN", "direction"): _DIRECTIONS,
    ("Resize", "coordinate_transformation_mode"): (
        "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
        "asymmetric", "tf_crop_and_resize", "tf_half_pixel_for_nn",
    ),
    ("Resize", "keep_aspect_ratio_policy"): ("stretch", "not_larger", "not_smaller"),
    ("Resize", "mode"): ("nearest", "linear", "cubic"),
    ("Resize", "nearest_mode"): (
        "round_prefer_floor", "round_prefer_ceil", "floor", "ceil",
    ),
    ("RoiAlign", "coordinate_transformation_mode"): ("half_pixel", "output_half_pixel"),
    ("RoiAlign", "mode"): ("avg", "max"),
    ("ScatterElements", "reduction"): _SCATTER_REDUCTIONS,
    ("ScatterND", "reduction"): _SCATTER_REDUCTIONS,
    ("SoftmaxCrossEntropyLoss", "reduction"): _REDUCTIONS,
    ("SpaceToDepth", "mode"): ("DCR", "CRD"),
    ("StringNormalizer", "case_change_action"): ("NONE", "LOWER", "UPPER"),
    ("TensorScatter", "mode"): ("linear", "circular"),
    ("TfIdfVectorizer", "mode"): ("TF", "IDF", "TFIDF"),
    ("Upsample", "mode"): ("nearest", "linear", "bilinear"),
}  # fmt: skip
"""Allowed values of string attributes, by op and attribute; `""` is every op."""

_ANY_BYTES: Final = frozenset({"Constant"})
"""Ops with a string attribute that is data, and so need not be UTF-8."""

_WORDED: Final = frozenset(name for _, name in ALLOWED_STRINGS)

SPATIAL: Final[dict[str, tuple[int | None, int | None]]] = {
    "AveragePool": (0, None), "Col2Im": (None, None), "Conv": (0, 1),
    "ConvInteger": (0, 1), "ConvTranspose": (0, 1), "DeformConv": (0, 1),
    "LpPool": (0, None), "MaxPool": (0, None), "MaxUnpool": (0, None),
    "QLinearConv": (0, 3),
}  # fmt: skip
"""Ops with spatial axes: the inputs that are data and weights."""

_EACH: Final = {
    "dilations": 1, "kernel_shape": 1, "output_padding": 1, "output_shape": 1,
    "pads": 2, "strides": 1,
}  # fmt: skip
"""Their lists: the number of items for each spatial axis."""

_POSITIVE: Final = ("kernel_shape", "strides", "dilations")
_GATES: Final = {"GRU": 2, "LSTM": 3, "RNN": 1}
"""Recurrent layers: the number of activations in each direction."""
_RECURRENT_WEIGHTS: Final = 2
"""The input with recurrent weights, whose last dim is the hidden size."""
_LAST_SCORE_STAGE: Final = 3
"""The last stage of attention whose scores can be returned."""


def allowed_strings(type: str, attribute: str) -> tuple[str, ...]:
    """The allowed values of a string attribute; empty for any."""
    own = ALLOWED_STRINGS.get((type, attribute))
    return own or ALLOWED_STRINGS.get(("", attribute), ())


def attribute_fault_of(op: Op, known: Mapping[str, Attr]) -> str | None:
    """What is invalid about the attributes of an op.

    `known` are the definitions of its attributes. Others are not checked: rules report
    them as not covered.
    """
    if not op.has_attrs:
        return None
    attrs = {key: value for key, value in op.attrs.items() if key in known}
    type = op.type or ""
    for key, value in attrs.items():
        if known[key].base == "graph":
            return f"{key} is {reprlib.repr(value)}, not a graph"
        why = _flag_or_word_fault(type, key, value) or attribute_fault(
            known[key], value
        )
        if why is None and value.__class__ is bytes and type not in _ANY_BYTES:
            why = f"{key} is not UTF-8"
        if why is not None:
            return why
    more = _CHECKS.get(type)
    return None if more is None else more(op, attrs)


def _flag_or_word_fault(type: str, key: str, value: Any) -> str | None:
    if key in FLAGS:
        fits = value.__class__ in (int, bool) and value in (0, 1)
        return None if fits else _fault_text(key, value, "0 or 1")
    words = allowed_strings(type, key) if key in _WORDED else ()
    if words and (value.__class__ is not str or value not in words):
        return _fault_text(key, value, f"one of {', '.join(filter(None, words))}")
    return None


def _fault_text(key: str, value: Any, expected: str) -> str:
    return f"{key}={value!r}: {expected} expected"


def _check_spatial(op: Op, attrs: Attrs) -> str | None:
    data, weights = SPATIAL[op.type or ""]
    kernel = None if weights is None else _dims_of(op, weights)
    count = _spatial_rank(op, attrs, data, kernel)
    for key, each in _EACH.items():
        value = attrs.get(key)
        if value is None:
            continue
        if count is not None and len(value) != each * count:
            return _fault_text(key, value, f"{each * count} numbers for {count} axes")
        if key in _POSITIVE and any(item < 1 for item in value):
            return _fault_text(key, value, "positive numbers")
    own = attrs.get("kernel_shape")
    if own is not None and kernel is not None and _differs(own, kernel[2:]):
        return _fault_text("kernel_shape", own, f"that of the weights, {kernel[2:]}")
    return _check_padding(attrs) or _check_output_padding(attrs)


def _check_output_padding(attrs: Attrs) -> str | None:
    """Output padding must be smaller than the stride or the dilation."""
    more = attrs.get("output_padding")
    steps = [step for key in ("strides", "dilations") if (step := attrs.get(key))]
    for i, rows in enumerate(more or ()):
        most = max([1, *(step[i] for step in steps if i < len(step))])
        if not 0 <= rows < most:
            return _fault_text("output_padding", more, f"0 to {most - 1} at axis {i}")
    return None


def _spatial_rank(
    op: Op, attrs: Attrs, data: int | None, kernel: list[Any] | None
) -> int | None:
    """The number of spatial axes, where it is known."""
    if op.type == "Col2Im":
        block = _dims_of(op, 2)
        return block[0] if block and isinstance(block[0], int) else None
    dims = None if data is None else _dims_of(op, data)
    known = dims or kernel
    if known is not None:
        return len(known) - 2
    given = (attrs.get(key) for key in _POSITIVE)
    return next((len(value) for value in given if value is not None), None)


def _check_padding(attrs: Attrs) -> str | None:
    """Both `auto_pad` and `pads` are set, and ONNX does not define which counts."""
    word, pads = attrs.get("auto_pad"), attrs.get("pads")
    if word in (None, "", "NOTSET") or not any(pads or ()):
        return None
    return _fault_text("pads", pads, f"none beside auto_pad={word!r}")


def _check_recurrent(op: Op, attrs: Attrs) -> str | None:
    """Check the number of activations, and the hidden size."""
    names = attrs.get("activations")
    if names is not None:
        directions = 2 if attrs.get("direction") == "bidirectional" else 1
        count = directions * _GATES[op.type or ""]
        allowed = (count, 2) if op.type == "RNN" else (count,)  # its default has 2
        if len(names) not in allowed:
            return _fault_text("activations", names, f"{count} names")
    size = attrs.get("hidden_size")
    dims = _dims_of(op, _RECURRENT_WEIGHTS)
    if size is None or not dims or not isinstance(dims[-1], int) or dims[-1] == size:
        return None
    return _fault_text("hidden_size", size, f"that of the weights, {dims[-1]},")


def _check_attention(_op: Op, attrs: Attrs) -> str | None:
    mode = attrs.get("qk_matmul_output_mode", 0)
    known = 0 <= mode <= _LAST_SCORE_STAGE
    return (
        None
        if known
        else _fault_text("qk_matmul_output_mode", mode, f"0 to {_LAST_SCORE_STAGE}")
    )


def _check_scan(_op: Op, attrs: Attrs) -> str | None:
    rows = attrs.get("num_scan_inputs", 0)
    for key in ("scan_input_axes", "scan_input_directions", "directions"):
        value = attrs.get(key)
        if value is not None and len(value) != rows:
            return _fault_text(key, value, f"a number for each of {rows} scan inputs")
    return None


_CHECKS: Final[Mapping[str, AttributeCheck]] = {
    **dict.fromkeys(SPATIAL, _check_spatial),
    **dict.fromkeys(_GATES, _check_recurrent),
    "Attention": _check_attention,
    "Scan": _check_scan,
}


def _dims_of(op: Op, at: int) -> list[Any] | None:
    """The dims of an input, where its rank is known."""
    value = op.inputs[at] if at < len(op.inputs) else None
    found = None if value is None else value.type
    if not isinstance(found, TensorType) or not found.shape.has_rank:
        return None
    return list(found.shape.dims)


def _differs(one: Sequence[Any], other: Sequence[Any]) -> bool:
    if len(one) != len(other):
        return True
    pairs = zip(one, other, strict=True)
    return any(isinstance(b, int) and a != b for a, b in pairs)
