"""A second data set for each case of ONNX's suite: it shows what was baked in.

Inputs are the first ones in another order and a little smaller; those that decide
shapes have other values, where others are legal. What has to come out is computed by
the reference evaluator of onnx, of which nothing else here knows. The shapes that a
model declares for its outputs are taken away, since they may be others now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from zlib import crc32

import numpy as np

__all__ = ["EXCLUDED", "SHAPING", "Second", "shaping", "second"]

Array = Any
Candidates = Callable[[Array, Sequence[Any], Mapping[str, Any]], Iterator[Array]]

EXCLUDED: Final = {
    "real": "the reference evaluator takes minutes for a network of this size",
    "drawn": "what is drawn at random has no second value that is expected",
    "reference": "the reference evaluator does not give what the suite expects",
    "raises": "the reference evaluator fails on fresh inputs",
    "underflow": "the reference evaluator takes the logarithm of what became 0",
    "single": "no other input of its shape gives anything else",
}

_BY_NAME: Final = {
    f"test_logsoftmax_large_number{end}": "underflow"
    for end in ("", "_expanded", "_expanded_ver18")
}


class Second(NamedTuple):
    """What goes into a case and has to come out, and whether some shape is decided.

    `why` says why there is none, by a key of `EXCLUDED`."""

    model: Any
    feeds: Sequence[Any] = ()
    expected: Sequence[Any] = ()
    shaped: bool = False
    why: str = ""


# -- inputs that decide shapes -----------------------------------------------------


def _more(step: int = 1) -> Candidates:
    """A little more, or a little less."""

    def found(value: Array, _peers: Any, _attrs: Any) -> Iterator[Array]:
        yield value + np.asarray(step, value.dtype)
        yield value - np.asarray(step, value.dtype)

    return found


def _axes(value: Array, peers: Sequence[Any], _attrs: Any) -> Iterator[Array]:
    """Other axes, as many."""
    rank = max(np.ndim(peers[0]), 1)
    for step in range(1, rank):
        moved = (value + step) % rank
        if len(set(np.ravel(moved).tolist())) == moved.size:
            yield moved.astype(value.dtype)
    yield np.where(value < 0, value + rank, value - rank).astype(value.dtype)


def _new_axes(value: Array, peers: Sequence[Any], _attrs: Any) -> Iterator[Array]:
    rank = np.ndim(peers[0]) + value.size
    for step in range(1, rank):
        yield ((value + step) % rank).astype(value.dtype)


def _turned(value: Array, _peers: Any, _attrs: Any) -> Iterator[Array]:
    """The same numbers in another order."""
    for step in range(1, value.size):
        yield np.roll(value, step)
    yield value[::-1].copy()


def _shape(value: Array, peers: Sequence[Any], attrs: Any) -> Iterator[Array]:
    """Dims of a reshaped tensor, in another order; or a half of one."""
    data = peers[0]
    dims = [int(np.shape(data)[i]) if n == 0 and not attrs.get("allowzero") else int(n)
            for i, n in enumerate(value)]  # fmt: skip
    for step in range(1, len(dims)):
        yield np.array(dims[step:] + dims[:step], value.dtype)
    for i, n in enumerate(dims[:-1]):
        if n % 2 == 0 and n > 0:  # half of one, twice the other
            moved = dims.copy()
            moved[i], moved[-1] = n // 2, dims[-1] * (2 if dims[-1] > 0 else 1)
            yield np.array(moved, value.dtype)


def _broadcast(value: Array, peers: Sequence[Any], _attrs: Any) -> Iterator[Array]:
    """More of what is one: the data's dims, as far as they are told."""
    dims = np.shape(peers[0])
    have = np.array([*[1] * max(value.size - len(dims), 0), *dims][-value.size :])
    yield np.where(have == 1, value + 1, value).astype(value.dtype)
    yield np.where(have == 1, value, 1).astype(value.dtype)


def _sizes(value: Array, peers: Sequence[Any], _attrs: Any) -> Iterator[Array]:
    """Parts of other sizes, with the same sum."""
    if value.ndim == 0:
        yield value + 1
        return
    yield from _turned(value, peers, _attrs)
    moved = value.copy()
    if value.size > 1 and value[0] > 0:
        moved[0] -= 1
        moved[-1] += 1
        yield moved


def _ends(value: Array, _peers: Any, _attrs: Any) -> Iterator[Array]:
    yield value - 1
    yield value + 1


def _halves(value: Array, _peers: Any, _attrs: Any) -> Iterator[Array]:
    """Pads of both sides, exchanged; or more of them."""
    half = value.size // 2
    yield np.concatenate([value[half:], value[:half]])
    yield np.abs(value) + 1


def _spatial(step: int) -> Candidates:
    """More of each place; batch and channels stay."""

    def found(value: Array, _peers: Any, _attrs: Any) -> Iterator[Array]:
        moved = value.copy()
        moved[2:] += step
        yield moved

    return found


def _scales(value: Array, _peers: Any, _attrs: Any) -> Iterator[Array]:
    yield np.where(value == 1, value, value * np.float32(1.5)).astype(value.dtype)
    yield (value * np.float32(2)).astype(value.dtype)


def _sides(value: Array, _peers: Any, _attrs: Any) -> Iterator[Array]:
    yield np.where(value == 1, value, value + 1).astype(value.dtype)
    yield value + 1


def _count(value: Array, _peers: Any, _attrs: Any) -> Iterator[Array]:
    """Another count; a large one means all of them."""
    for other in (value - 1, value + 1, value // 2):
        if np.all(other > 0):
            yield other.astype(value.dtype)


def _flipped(value: Array, _peers: Any, _attrs: Any) -> Iterator[Array]:
    if value.size == 1:
        yield ~value
    for step in range(1, value.size):
        yield np.roll(value, step)


def _halved(value: Array, _peers: Any, _attrs: Any) -> Iterator[Array]:
    yield (value / 2).astype(value.dtype)


_REDUCTIONS: Final = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod",
                      "Sum", "SumSquare")  # fmt: skip

SHAPING: Final[Mapping[tuple[str, int], Candidates]] = {
    **{(f"Reduce{name}", 1): _axes for name in _REDUCTIONS},
    ("AffineGrid", 1): _spatial(1),
    ("BlackmanWindow", 0): _more(), ("HammingWindow", 0): _more(),
    ("HannWindow", 0): _more(),
    ("CenterCropPad", 1): _ends,
    ("Compress", 1): _flipped,
    ("ConstantOfShape", 0): _more(),
    ("CumProd", 1): _axes, ("CumSum", 1): _axes,
    ("DFT", 1): _more(), ("DFT", 2): _axes,
    ("Expand", 1): _broadcast,
    ("If", 0): _flipped,
    ("Loop", 0): _count,
    ("MaxUnpool", 2): _spatial(1),
    ("MelWeightMatrix", 0): _more(), ("MelWeightMatrix", 1): _more(2),
    ("NonMaxSuppression", 2): _count,
    ("OneHot", 1): _more(),
    ("Pad", 1): _halves, ("Pad", 3): _axes,
    ("Range", 1): _more(2), ("Range", 0): _more(),
    ("Reshape", 1): _shape,
    ("Resize", 2): _scales, ("Resize", 3): _sides,
    ("STFT", 1): _ends, ("STFT", 3): _ends,
    ("SequenceAt", 1): _ends, ("SequenceErase", 1): _ends, ("SequenceInsert", 2): _ends,
    ("Slice", 1): _more(), ("Slice", 2): _ends, ("Slice", 3): _axes,
    ("Slice", 4): _more(),
    ("Split", 1): _sizes, ("SplitToSequence", 1): _sizes,
    ("Squeeze", 1): _axes, ("Unsqueeze", 1): _new_axes,
    ("Tile", 1): _more(),
    ("TopK", 1): _ends,
    ("Trilu", 1): _more(),
    ("Upsample", 1): _scales,
}  # fmt: skip
"""Inputs that decide a shape or a course, and the values that they may have instead."""

_FIXED: Final = {("Col2Im", 1): "with the kernel, it says how many columns there are",
                 ("Col2Im", 2): "with the image, it says how many columns there are",
                 ("Dropout", 2): "whether a model trains"}  # fmt: skip
"""Inputs that may have no other value while the data stay, and why."""


def shaping(model: Any) -> dict[str, tuple[Any, int]]:
    """Which inputs of a model decide shapes: the node and its input."""
    names = {info.name for info in model.graph.input}
    found: dict[str, tuple[Any, int]] = {}
    for node in model.graph.node:
        for i, name in enumerate(node.input):
            if name in names and (node.op_type, i) in SHAPING:
                found.setdefault(name, (node, i))
    return found


# -- inputs that are data ----------------------------------------------------------


def _fresh(value: Any, random: np.random.Generator, scaled: bool = True) -> Any:
    """The same elements in another order; floats are a little nearer to 0."""
    if isinstance(value, list):
        return [_fresh(item, random, scaled) for item in value]
    if not isinstance(value, np.ndarray | np.generic):
        return value
    value = np.array(value)
    if value.dtype.kind == "b" and value.size == 1:
        return ~value
    if str(value.dtype) in ("int32", "int64"):  # rows stay rows: they may be places
        return random.permutation(value, axis=0) if value.ndim else value
    flat = random.permutation(value.reshape(-1))
    if value.dtype.kind == "f" and scaled:
        factors = random.uniform(0.6, 1.0, flat.shape)
        flat = (flat.astype("float64") * factors).astype(value.dtype)
    return flat.reshape(value.shape)


_AS_THEY_ARE: Final = frozenset({
    "Attention", "Bernoulli", "ImageDecoder", "LinearAttention", "NonMaxSuppression",
    "ReverseSequence", "TensorScatter",
})  # fmt: skip
"""Ops of which integers, in another order, may be illegal beside the other inputs."""

_WHOLE: Final = frozenset({"OneHot"})
"""Ops of which floats have to be whole."""


_TRIES: Final = 6
"""Orders of the data until something else comes out."""


# -- one case ----------------------------------------------------------------------


def _loose(model: Any) -> Any:
    """A copy that says nothing of the shapes of what it computes."""
    copy = type(model)()
    copy.CopyFrom(model)
    del copy.graph.value_info[:]
    for info in copy.graph.output:
        if info.type.HasField("tensor_type"):
            info.type.tensor_type.ClearField("shape")
    return copy


def second(
    name: str, model: Any, roles: Any, feeds: Sequence[Any], expected: Sequence[Any],
    differs: Callable[[Sequence[Any], Sequence[Any]], str | None],
) -> Second:  # fmt: skip
    """The second data set of a case, by its first one.

    `roles`: a model with the same inputs, whose nodes say what they decide."""
    if name in _BY_NAME:
        return Second(model, why=_BY_NAME[name])
    types = {node.op_type for node in model.graph.node}
    if types & {"Bernoulli", "RandomNormal", "RandomUniform", "RandomNormalLike",
                "RandomUniformLike", "Multinomial"}:  # fmt: skip
        return Second(model, why="drawn")
    names = [info.name for info in model.graph.input]
    held = dict(zip(names, feeds, strict=False))
    random = np.random.default_rng(crc32(name.encode()))
    for judge in (model, roles):
        judging = _loose(judge)
        told = _told(judging, held)
        if told is not None and not differs(told, expected):
            found = _searched(judging, shaping(roles), held, told, random, differs)
            return found._replace(model=_loose(model))
    return Second(model, why="reference")


def _searched(
    model: Any, deciding: Mapping[str, Any], held: Mapping[str, Any],
    first: Sequence[Any], random: np.random.Generator,
    differs: Callable[[Sequence[Any], Sequence[Any]], str | None],
) -> Second:  # fmt: skip
    """Fresh data first, then other shapes one after the other, as far as they go."""
    types = {node.op_type for node in model.graph.node}
    expected: Sequence[Any] | None = None
    for _ in range(_TRIES):
        trial = _all_fresh(held, deciding, types, random)
        found = _told(model, trial)
        if found is not None:
            held, expected = trial, found
            if differs(found, first):
                break
    raised, expected = expected is None, first if expected is None else expected
    shaped = False
    for name, role in deciding.items():
        if name not in held:
            continue
        for value in _others(role, held, name):
            trial = {**held, name: value}
            found = _told(model, trial)
            if found is not None and differs(found, expected):
                held, expected, shaped = trial, found, True
                break
    if not differs(expected, first):
        return Second(model, why="raises" if raised else "single")
    return Second(model, list(held.values()), expected, shaped)


def _others(role: Any, held: Mapping[str, Any], name: str) -> Iterator[Array]:
    """Other values of an input that decides a shape, of the type that it has."""
    node, at = role
    peers = [held.get(each) for each in node.input]
    attrs = {a.name: a.i for a in node.attribute if a.type == a.INT}
    old = np.asarray(held[name])
    for value in SHAPING[node.op_type, at](old, peers, attrs):
        value = np.asarray(value)
        if value.shape == old.shape and value.dtype == old.dtype:
            yield value


def _all_fresh(
    held: Mapping[str, Any], deciding: Mapping[str, Any], types: set[str],
    random: np.random.Generator,
) -> dict[str, Any]:  # fmt: skip
    made = {}
    for name, value in held.items():
        is_number = isinstance(value, np.ndarray) and value.dtype.kind in "iub"
        stays = name in deciding or (is_number and bool(types & _AS_THEY_ARE))
        made[name] = value if stays else _fresh(value, random, not types & _WHOLE)
    return made


def _told(model: Any, held: Mapping[str, Any]) -> Sequence[Any] | None:
    """What the reference gives; None where it fails, as it may in any way."""
    from onnx.reference import ReferenceEvaluator

    try:
        with np.errstate(all="ignore"):
            found = ReferenceEvaluator(model).run(None, dict(held))
    except Exception:  # noqa: BLE001 - what is not legal, or what it does not know
        return None
    return [_plain(each) for each in found]


def _plain(value: Any) -> Any:
    """Texts as objects, as the suite has them."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "US":
        return value.astype(object)
    return value
