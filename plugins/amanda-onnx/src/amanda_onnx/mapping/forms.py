"""What attributes of ONNX have to be, where its schemas say it in prose only.

Words of a few, integers that are flags, lists with a number for each axis of space. An
op that has something else is no op of ONNX: no rule is asked for it, and the words from
here are told, whatever the rule would have made of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from amanda.graph import Op
from amanda.types import TensorType

__all__ = ["FLAGS", "SPATIAL", "WORDS", "fault", "words_of"]

FLAGS: Final = frozenset((
    "allow_zero", "allowzero", "antialias", "ceil_mode", "center_point_box",
    "count_include_pad", "detect_negative", "detect_positive", "exclude_outside",
    "exclusive", "input_forget", "interleaved", "inverse", "is_case_sensitive",
    "is_causal", "keepdims", "largest", "layout", "linear_before_reset",
    "noop_with_empty_axes", "onesided", "periodic", "reverse", "saturate",
    "select_last_index", "sorted", "storage_order", "training_mode", "transA",
    "transB", "upper",
))  # fmt: skip
"""Integers of which ONNX says that they are 0 or 1."""

_REDUCTIONS = ("none", "sum", "mean")
_SCATTERED = ("none", "add", "mul", "max", "min")
_ROUND = ("up", "down", "nearest")
_WAYS = ("forward", "reverse", "bidirectional")

WORDS: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    # exporters leave it empty for the default
    ("", "auto_pad"): ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", ""),
    ("BitShift", "direction"): ("LEFT", "RIGHT"),
    ("Cast", "round_mode"): _ROUND,
    ("CastLike", "round_mode"): _ROUND,
    ("CausalConvWithState", "activation"): ("none", "silu", "swish"),
    ("DepthToSpace", "mode"): ("DCR", "CRD"),
    ("GRU", "direction"): _WAYS,
    ("Gelu", "approximate"): ("none", "tanh"),
    ("GridSample", "mode"): ("linear", "nearest", "cubic", "bilinear", "bicubic"),
    ("GridSample", "padding_mode"): ("zeros", "border", "reflection"),
    ("ImageDecoder", "pixel_format"): ("RGB", "BGR", "Grayscale"),
    ("LSTM", "direction"): _WAYS,
    ("LinearAttention", "update_rule"): ("linear", "gated", "delta", "gated_delta"),
    ("NegativeLogLikelihoodLoss", "reduction"): _REDUCTIONS,
    ("Pad", "mode"): ("constant", "reflect", "edge", "wrap"),
    ("RNN", "direction"): _WAYS,
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
    ("ScatterElements", "reduction"): _SCATTERED,
    ("ScatterND", "reduction"): _SCATTERED,
    ("SoftmaxCrossEntropyLoss", "reduction"): _REDUCTIONS,
    ("SpaceToDepth", "mode"): ("DCR", "CRD"),
    ("StringNormalizer", "case_change_action"): ("NONE", "LOWER", "UPPER"),
    ("TensorScatter", "mode"): ("linear", "circular"),
    ("TfIdfVectorizer", "mode"): ("TF", "IDF", "TFIDF"),
    ("Upsample", "mode"): ("nearest", "linear", "bilinear"),
}  # fmt: skip
"""The words that an attribute may be, by op and attribute; `""` is every op."""

SPATIAL: Final[dict[str, tuple[int | None, int | None]]] = {
    "AveragePool": (0, None), "Col2Im": (None, None), "Conv": (0, 1),
    "ConvInteger": (0, 1), "ConvTranspose": (0, 1), "DeformConv": (0, 1),
    "LpPool": (0, None), "MaxPool": (0, None), "MaxUnpool": (0, None),
    "QLinearConv": (0, 3),
}  # fmt: skip
"""Ops with axes of space: which input is the data, and which the weights."""

_EACH: Final = {
    "dilations": 1, "kernel_shape": 1, "output_padding": 1, "output_shape": 1,
    "pads": 2, "strides": 1,
}  # fmt: skip
"""Their lists: how many numbers there are for each axis of space."""

_POSITIVE: Final = ("dilations", "kernel_shape", "strides")
_GATES: Final = {"GRU": 2, "LSTM": 3, "RNN": 1}
"""Recurrent layers, and how many activations they have in each direction."""
_LAST: Final = 2
"""Their weights of the state, whose last dim is their size."""
_STAGE: Final = 3
"""The last stage of attention whose scores are given back."""


def words_of(type: str, attribute: str) -> tuple[str, ...]:
    """The words that an attribute may be; none where it may be any."""
    own = WORDS.get((type, attribute))
    return own or WORDS.get(("", attribute), ())


def fault(op: Op) -> str | None:
    """What is wrong with the attributes of an op of ONNX's own domain."""
    if not op.has_attrs:
        return None
    type = op.type or ""
    for key, value in op.attrs.items():
        if key in FLAGS:
            if value not in (0, 1):
                return _told(key, value, "0 or 1")
            continue
        words = words_of(type, key) if value.__class__ is str else ()
        if words and value not in words:
            return _told(key, value, f"one of {', '.join(filter(None, words))}")
    more = _MORE.get(type)
    return None if more is None else more(op)


def _told(key: str, value: Any, expected: str) -> str:
    return f"{key}={value!r}: {expected} expected"


def _spatial(op: Op) -> str | None:
    attrs = op.attrs
    data, weights = SPATIAL[op.type or ""]
    kernel = None if weights is None else _dims(op, weights)
    count = _axes(op, data, kernel)
    for key, each in _EACH.items():
        value = attrs.get(key)
        if value is None:
            continue
        if count is not None and len(value) != each * count:
            return _told(key, value, f"{each * count} numbers for {count} axes")
        if key in _POSITIVE and any(item < 1 for item in value):
            return _told(key, value, "positive numbers")
    own = attrs.get("kernel_shape")
    if own is not None and kernel is not None and _differ(own, kernel[2:]):
        return _told("kernel_shape", own, f"that of the weights, {kernel[2:]}")
    return _padded_twice(op) or _behind(op)


def _behind(op: Op) -> str | None:
    """There are fewer rows behind what is given than steps to the next element."""
    more = op.attrs.get("output_padding")
    steps = [op.attrs.get(key) for key in ("strides", "dilations")]
    for i, rows in enumerate(more or ()):
        most = max(1 if step is None else step[i] for step in steps)
        if not 0 <= rows < most:
            return _told("output_padding", more, f"0 to {most - 1} at axis {i}")
    return None


def _axes(op: Op, data: int | None, kernel: list[Any] | None) -> int | None:
    """The number of axes of space, as far as it is told."""
    if op.type == "Col2Im":
        block = _dims(op, 2)
        return block[0] if block and isinstance(block[0], int) else None
    dims = None if data is None else _dims(op, data)
    known = dims or kernel
    if known is not None:
        return len(known) - 2
    own = op.attrs.get("kernel_shape")
    return None if own is None else len(own)


def _padded_twice(op: Op) -> str | None:
    """Two attributes pad, and say different things: neither ONNX nor others choose."""
    word, pads = op.attrs.get("auto_pad"), op.attrs.get("pads")
    if word in (None, "", "NOTSET") or not any(pads or ()):
        return None
    return _told("pads", pads, f"none beside auto_pad={word!r}")


def _recurrent(op: Op) -> str | None:
    """Each direction has as many activations as it has gates of its own."""
    names = op.attrs.get("activations")
    if names is not None:
        ways = 2 if op.attrs.get("direction") == "bidirectional" else 1
        count = ways * _GATES[op.type or ""]
        told = (count, 2) if op.type == "RNN" else (count,)  # 2 are its default
        if len(names) not in told:
            return _told("activations", names, f"{count} names")
    size = op.attrs.get("hidden_size")
    dims = _dims(op, _LAST)
    if size is None or not dims or not isinstance(dims[-1], int) or dims[-1] == size:
        return None
    return _told("hidden_size", size, f"that of the weights, {dims[-1]},")


def _attention(op: Op) -> str | None:
    mode = op.attrs.get("qk_matmul_output_mode", 0)
    known = 0 <= mode <= _STAGE
    return None if known else _told("qk_matmul_output_mode", mode, f"0 to {_STAGE}")


def _scan(op: Op) -> str | None:
    rows = op.attrs.get("num_scan_inputs", 0)
    for key in ("scan_input_axes", "scan_input_directions", "directions"):
        value = op.attrs.get(key)
        if value is not None and len(value) != rows:
            return _told(key, value, f"a number for each of {rows} scan inputs")
    return None


_MORE: Final[dict[str, Callable[[Op], str | None]]] = {
    **dict.fromkeys(SPATIAL, _spatial),
    **dict.fromkeys(_GATES, _recurrent),
    "Attention": _attention,
    "Scan": _scan,
}


def _dims(op: Op, at: int) -> list[Any] | None:
    """The dims of an input, as far as they are told."""
    value = op.inputs[at] if at < len(op.inputs) else None
    found = None if value is None else value.type
    if not isinstance(found, TensorType) or not found.shape.has_rank:
        return None
    return list(found.shape.dims)


def _differ(one: Sequence[Any], other: Sequence[Any]) -> bool:
    pairs = zip(one, other, strict=True)
    return any(isinstance(b, int) and a != b for a, b in pairs)
