"""What attributes of ONNX have to be, where its schemas say it in prose only.

Words of a few, integers that are flags, lists with a number for each axis of space. An
op that has something else is no op of ONNX: no rule is asked for it, and the words from
here are told, whatever the rule would have made of it. So it is with a number where a
list is due: whoever looks into an attribute here looks into one of its kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from amanda import namespace
from amanda.dictionary import Attr, attribute_fault
from amanda.graph import Op
from amanda.types import TensorType

__all__ = ["FLAGS", "SPATIAL", "WORDS", "fault", "words_of"]

Attrs = Mapping[str, Any]
Rule = Callable[[Op, Attrs], str | None]

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

_WORDED: Final = frozenset(name for _, name in WORDS)

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

_POSITIVE: Final = ("kernel_shape", "strides", "dilations")
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


def fault(op: Op, opset: int) -> str | None:
    """What is wrong with the attributes of an op of ONNX's own domain."""
    if not op.has_attrs:
        return None
    type = op.type or ""
    for key, value in op.attrs.items():
        if key in FLAGS:
            if value.__class__ not in (int, bool) or value not in (0, 1):
                return _told(key, value, "0 or 1")
            continue
        words = words_of(type, key) if key in _WORDED else ()
        if words and (value.__class__ is not str or value not in words):
            return _told(key, value, f"one of {', '.join(filter(None, words))}")
    more = _MORE.get(type)
    return None if more is None else _looked_into(op, opset, more)


def _looked_into(op: Op, opset: int, more: Rule) -> str | None:
    """What a rule of the op says, to which each attribute comes as what it has to be.

    One that no opset has it does not see: who maps tells that it is not covered.
    """
    known, attrs = _attributes(op.type or "", opset), {}
    for key, value in op.attrs.items():
        attr = known.get(key)
        if attr is None:
            continue
        why = attribute_fault(attr, value)
        if why is not None:
            return why
        attrs[key] = value
    return more(op, attrs)


@cache
def _attributes(type: str, opset: int) -> Mapping[str, Attr]:
    """Those of the op in an opset, and in others, for files mix them."""
    own: Any = namespace(f"amanda/onnx/{opset}", assume=True)
    history = own.history
    found: dict[str, Attr] = {}
    for each in (*map(history.at, history.versions()), own):
        entry = each.get(type)
        found |= {attr.name: attr for attr in entry.attrs} if entry else {}
    return found


def _told(key: str, value: Any, expected: str) -> str:
    return f"{key}={value!r}: {expected} expected"


def _spatial(op: Op, attrs: Attrs) -> str | None:
    data, weights = SPATIAL[op.type or ""]
    kernel = None if weights is None else _dims(op, weights)
    count = _axes(op, attrs, data, kernel)
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
    return _padded_twice(attrs) or _behind(attrs)


def _behind(attrs: Attrs) -> str | None:
    """There are fewer rows behind what is given than steps to the next element."""
    more = attrs.get("output_padding")
    steps = [step for key in ("strides", "dilations") if (step := attrs.get(key))]
    for i, rows in enumerate(more or ()):
        most = max([1, *(step[i] for step in steps if i < len(step))])
        if not 0 <= rows < most:
            return _told("output_padding", more, f"0 to {most - 1} at axis {i}")
    return None


def _axes(
    op: Op, attrs: Attrs, data: int | None, kernel: list[Any] | None
) -> int | None:
    """The number of axes of space, as far as it is told."""
    if op.type == "Col2Im":
        block = _dims(op, 2)
        return block[0] if block and isinstance(block[0], int) else None
    dims = None if data is None else _dims(op, data)
    known = dims or kernel
    if known is not None:
        return len(known) - 2
    told = (attrs.get(key) for key in _POSITIVE)
    return next((len(value) for value in told if value is not None), None)


def _padded_twice(attrs: Attrs) -> str | None:
    """Two attributes pad, and say different things: neither ONNX nor others choose."""
    word, pads = attrs.get("auto_pad"), attrs.get("pads")
    if word in (None, "", "NOTSET") or not any(pads or ()):
        return None
    return _told("pads", pads, f"none beside auto_pad={word!r}")


def _recurrent(op: Op, attrs: Attrs) -> str | None:
    """Each direction has as many activations as it has gates of its own."""
    names = attrs.get("activations")
    if names is not None:
        ways = 2 if attrs.get("direction") == "bidirectional" else 1
        count = ways * _GATES[op.type or ""]
        told = (count, 2) if op.type == "RNN" else (count,)  # 2 are its default
        if len(names) not in told:
            return _told("activations", names, f"{count} names")
    size = attrs.get("hidden_size")
    dims = _dims(op, _LAST)
    if size is None or not dims or not isinstance(dims[-1], int) or dims[-1] == size:
        return None
    return _told("hidden_size", size, f"that of the weights, {dims[-1]},")


def _attention(_op: Op, attrs: Attrs) -> str | None:
    mode = attrs.get("qk_matmul_output_mode", 0)
    known = 0 <= mode <= _STAGE
    return None if known else _told("qk_matmul_output_mode", mode, f"0 to {_STAGE}")


def _scan(_op: Op, attrs: Attrs) -> str | None:
    rows = attrs.get("num_scan_inputs", 0)
    for key in ("scan_input_axes", "scan_input_directions", "directions"):
        value = attrs.get(key)
        if value is not None and len(value) != rows:
            return _told(key, value, f"a number for each of {rows} scan inputs")
    return None


_MORE: Final[Mapping[str, Rule]] = {
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
    if len(one) != len(other):
        return True
    pairs = zip(one, other, strict=True)
    return any(isinstance(b, int) and a != b for a, b in pairs)
