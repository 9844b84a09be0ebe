"""The values that ops accept as indices and lengths, and where functions are defined.

Every argument annotated as `Index` has a row, which a test checks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from amanda.graph import Op, OutputPort
from amanda.types import Sym, TensorType
from amanda_std.engine.values import constant_of
from amanda_std.hub.op_access import op_arguments, operation_of

__all__ = ["DOMAINS", "INDEX_READERS", "Call", "Interval"]

_SMALL: Final = 1 / 64


class Interval(NamedTuple):
    """All numbers from `low` to `high`, both included; None where there is no bound."""

    low: float | None
    high: float | None


class Call:
    """The arguments and attributes of an op by name."""

    def __init__(self, op: Op) -> None:
        args, attrs = op_arguments(op, lambda port: port)
        params = operation_of(op).form.params_of(len(args))
        self.values: dict[str, Any] = dict(attrs)
        self.values |= {p.name: arg for p, arg in zip(params, args, strict=True)}

    def integer(self, name: str) -> int | None:
        """An argument or attribute that is one integer, if it is known."""
        value = self.values.get(name)
        if isinstance(value, OutputPort):
            tensor = constant_of(value)
            is_one = tensor is not None and tensor.size == 1
            value = tensor.numpy().item() if tensor is not None and is_one else None
        if isinstance(value, Sequence) and len(value) == 1:
            (value,) = value
        return value if isinstance(value, int) else None

    def sizes(self, name: str) -> list[int | None] | None:
        """The shape of an argument; None for dims, or ranks, that are unknown."""
        port = self.values.get(name)
        type_ = port.type if isinstance(port, OutputPort) else None
        if not isinstance(type_, TensorType) or not type_.shape.has_rank:
            return None
        return [None if isinstance(dim, Sym) else int(dim) for dim in type_.shape]

    def size(self, name: str, axis: int | None) -> int | None:
        """The size of an axis of an argument, or of all of it; None if unknown."""
        sizes = self.sizes(name)
        if sizes is None:
            return None
        if axis is None:
            return _product(sizes)
        return sizes[axis] if -len(sizes) <= axis < len(sizes) else None


def _product(sizes: Sequence[int | None]) -> int | None:
    found = 1
    for size in sizes:
        if size is None:
            return None
        found *= size
    return found


Limit = Callable[[Call], Interval | None]


def _within(name: str, axis: int | str | None) -> Limit:
    """Positions on an axis of an argument; the axis may be an argument itself."""

    def limit(call: Call) -> Interval | None:
        at = call.integer(axis) if isinstance(axis, str) else axis
        size = call.size(name, at)
        return None if size is None else Interval(0, max(size - 1, 0))

    return limit


def _up_to(name: str, axis: int | str) -> Limit:
    """Lengths of at least 1, up to the size of an axis."""

    def limit(call: Call) -> Interval | None:
        size = call.size(name, call.integer(axis) if isinstance(axis, str) else axis)
        return None if size is None else Interval(min(1, size), size)

    return limit


def _below(name: str) -> Limit:
    """Integers below an argument."""

    def limit(call: Call) -> Interval | None:
        count = call.integer(name)
        return None if count is None else Interval(0, max(count - 1, 0))

    return limit


def _fixed_range(low: float | None, high: float | None) -> Limit:
    return lambda _: Interval(low, high)


def _coordinates(call: Call) -> Interval | None:
    """Coordinates in the last axis of indices: all are within the smallest axis."""
    sizes, depth = call.sizes("x"), call.size("indices", -1)
    if sizes is None or depth is None:
        return None
    start = call.integer("batch_dims") or 0
    indexed = [size for size in sizes[start : start + depth] if size is not None]
    return Interval(0, max(min(indexed) - 1, 0)) if indexed else None


def _of_shape(call: Call) -> Interval | None:
    shape = call.values.get("shape")
    if not isinstance(shape, tuple) or not all(isinstance(n, int) for n in shape):
        return None
    return Interval(0, max(min(shape, default=1) - 1, 0))


def _flat_of_shape(call: Call) -> Interval | None:
    shape = call.values.get("shape")
    if not isinstance(shape, tuple) or not all(isinstance(n, int) for n in shape):
        return None
    return Interval(0, max((_product(shape) or 1) - 1, 0))


def _branches(call: Call) -> Interval:
    return Interval(0, max(len(call.values.get("branches") or ()) - 1, 0))


def _starts(of: str, part: str) -> Limit:
    """Starts of a part that lies inside another tensor, on every axis."""

    def limit(call: Call) -> Interval | None:
        whole, sizes = call.sizes(of), call.values.get(part)
        inner = call.sizes(part) if isinstance(sizes, OutputPort) else sizes
        if whole is None or not isinstance(inner, list | tuple):
            return None
        rest = [a - b for a, b in zip(whole, inner, strict=False)
                if isinstance(a, int) and isinstance(b, int)]  # fmt: skip
        return Interval(0, max(min(rest, default=0), 0))

    return limit


def _up_to_length(call: Call) -> Interval | None:
    """Lengths of the sequences of a recurrent layer."""
    return _up_to("x", 1 if call.values.get("batch_first") else 0)(call)


def _last_key(call: Call) -> Interval | None:
    """The index of the last key, in a cache that grows by the new keys or never."""
    old, new = call.size("past_key", 2) or 0, call.size("q", 1)
    if new is None:
        return None
    size = old if call.values.get("grows") == "never" else old + new
    return Interval(min(new, size) - 1, size - 1)


def _total_keys(call: Call) -> Interval | None:
    old, new = call.size("past_key", 2) or 0, call.size("q", 1)
    return None if new is None else Interval(old + new, old + new)


def _labels(call: Call) -> Interval | None:
    return _within("x", "axis")(call)


INDEX_READERS: Final[Mapping[str, Mapping[str, Limit]]] = {
    "adam_step": {"step": _fixed_range(1, 1000)},
    "adamax_step": {"step": _fixed_range(1, 1000)},
    "attention_with_cache": {"lengths": _up_to("k", -2)},
    "bincount": {"x": _fixed_range(0, None)},
    "case": {"index": _branches},
    "crop_and_resize": {"batch": _within("x", 0)},
    "ctc_beam_search": {"steps": _up_to("x", 0)},
    "ctc_loss": {
        "labels": lambda call: Interval(1, max((call.size("x", -1) or 2) - 1, 1)),
        "steps": _up_to("x", 0),
        "lengths": _up_to("labels", -1),
    },
    "dynamic_quantized_lstm": {"lengths": _up_to("x", 0)},
    "dynamic_slice": {"starts": _starts("x", "sizes")},
    "dynamic_update_slice": {"starts": _starts("x", "update")},
    "gather": {"indices": _within("x", "axis")},
    "gather_elements": {"indices": _within("x", "axis")},
    "gather_nd": {"indices": _coordinates},
    "grouped_attention": {
        "last": _last_key,
        "total": _total_keys,
        "at": _within("cos", 0),
    },
    "grouped_matmul": {"ends": _up_to("x", 0)},
    "gru": {"lengths": _up_to_length},
    "in_top_k": {"targets": _within("x", -1), "k": _fixed_range(1, 1)},
    "ldl_solve": {"pivots": _within("packed", -1)},
    "loop": {"trips": _fixed_range(1, 3)},
    "lstm": {"lengths": _up_to_length},
    "max_unpool": {"indices": _within("x", None)},
    "multi_head_attention": {"seen": _up_to("k", 1)},
    "nll_loss": {"labels": _labels},
    "nms": {"limit": _fixed_range(1, 100)},
    "one_hot": {"indices": _below("depth")},
    "random_fold_in": {"data": _fixed_range(0, 1 << 30)},
    "random_key": {"seed": _fixed_range(0, 1 << 30)},
    "ravel_index": {"places": _of_shape},
    "reverse_sequence": {"lengths": _up_to("x", "time_axis")},
    "rnn": {"lengths": _up_to_length},
    "roi_align": {"batch": _within("x", 0)},
    "roi_pool": {"batch": _within("x", 0)},
    "roll": {"shifts": _fixed_range(0, 3)},
    "rotary_embedding": {"at": _within("cos", 0)},
    "scatter_elements": {"indices": _within("x", "axis")},
    "scatter_nd": {"indices": _coordinates},
    "segment_reduce": {"segments": _below("count")},
    "sequence_at": {"at": _fixed_range(0, 0)},
    "sequence_erase": {"at": _fixed_range(0, 0)},
    "sequence_insert": {"at": _fixed_range(0, 0)},
    "softmax_cross_entropy": {"labels": _labels},
    "substring": {"start": _fixed_range(0, 0), "length": _fixed_range(1, 4)},
    "take": {"indices": _within("x", "axis")},
    "tensor_scatter": {"at": _fixed_range(0, 0)},
    "tree_ensemble": dict.fromkeys(
        ("roots", "feature", "yes", "no", "asks"), _fixed_range(0, 0)
    ),
    "tree_leaves": dict.fromkeys(
        ("roots", "feature", "yes", "no", "asks"), _fixed_range(0, 0)
    ),
    "unravel_index": {"indices": _flat_of_shape},
}
"""For each op, the arguments that are indices or lengths, with the values accepted."""

DOMAINS: Final[Mapping[str, Interval]] = {
    "acos": Interval(-1, 1),
    "acosh": Interval(1, None),
    "asin": Interval(-1, 1),
    "atanh": Interval(_SMALL - 1, 1 - _SMALL),
    "digamma": Interval(_SMALL, None),
    "erfinv": Interval(_SMALL - 1, 1 - _SMALL),
    "lgamma": Interval(_SMALL, None),
    "log": Interval(_SMALL, 1),
    "log1p": Interval(_SMALL - 1, 1),
    "rsqrt": Interval(_SMALL, 1),
    "sqrt": Interval(0, 1),
}
"""Where functions of real numbers are defined and finite."""
