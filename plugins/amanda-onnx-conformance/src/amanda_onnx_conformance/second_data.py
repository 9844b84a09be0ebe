"""A second data set for each case of ONNX's suite, to find values baked into programs.

Data inputs are the first ones permuted and scaled down a little; inputs that decide
shapes have other legal values. The expected outputs are computed by the reference
evaluator of the onnx package, which nothing else here uses. Declared output shapes are
removed from the model, since they may no longer hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from zlib import crc32

import numpy as np

__all__ = [
    "EXCLUDED",
    "SHAPE_INPUTS",
    "SecondDataSet",
    "second_data_set",
    "shape_inputs",
    "without_shapes",
]

Array = Any
Candidates = Callable[[Array, Sequence[Any], Mapping[str, Any]], Iterator[Array]]
"""Yields other values of an input, by its value, all inputs and attributes."""
Differs = Callable[[Sequence[Any], Sequence[Any]], str | None]

EXCLUDED: Final = {
    "real": "the reference evaluator takes minutes on a network of this size",
    "drawn": "random numbers have no second expected value",
    "reference": "the reference evaluator does not reproduce the expected outputs",
    "raises": "the reference evaluator fails on fresh inputs",
    "underflow": "the reference evaluator takes the logarithm of a value rounded to 0",
    "single": "no other input of its shape changes the outputs",
}
"""Why a case has no second data set."""

_BY_NAME: Final = {
    f"test_logsoftmax_large_number{end}": "underflow"
    for end in ("", "_expanded", "_expanded_ver18")
}


class SecondDataSet(NamedTuple):
    """Feeds and expected outputs; `shaped`: whether some shape input changed.

    `why`: why there is none, a key of `EXCLUDED`.
    """

    model: Any
    feeds: Sequence[Any] = ()
    expected: Sequence[Any] = ()
    shaped: bool = False
    why: str = ""


# -- inputs that decide shapes -----------------------------------------------------


def _plus_minus(step: int = 1) -> Candidates:
    """`step` more, or less."""

    def candidates(value: Array, _peers: Any, _attrs: Any) -> Iterator[Array]:
        yield value + np.asarray(step, value.dtype)
        yield value - np.asarray(step, value.dtype)

    return candidates


def _other_axes(value: Array, peers: Sequence[Any], _attrs: Any) -> Iterator[Array]:
    """As many other axes."""
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


def _permutations(value: Array, _peers: Any, _attrs: Any) -> Iterator[Array]:
    """The same elements in another order."""
    for step in range(1, value.size):
        yield np.roll(value, step)
    yield value[::-1].copy()


def _reshaped_dims(value: Array, peers: Sequence[Any], attrs: Any) -> Iterator[Array]:
    """The target dims of Reshape in another order, or one halved and one doubled."""
    data = peers[0]
    dims = [int(np.shape(data)[i]) if n == 0 and not attrs.get("allowzero") else int(n)
            for i, n in enumerate(value)]  # fmt: skip
    for step in range(1, len(dims)):
        yield np.array(dims[step:] + dims[:step], value.dtype)
    for i, n in enumerate(dims[:-1]):
        if n % 2 == 0 and n > 0:
            moved = dims.copy()
            moved[i], moved[-1] = n // 2, dims[-1] * (2 if dims[-1] > 0 else 1)
            yield np.array(moved, value.dtype)


def _broadcast_dims(value: Array, peers: Sequence[Any], _attrs: Any) -> Iterator[Array]:
    """Other sizes for broadcast dims; or the dims of the data only."""
    dims = np.shape(peers[0])
    have = np.array([*[1] * max(value.size - len(dims), 0), *dims][-value.size :])
    yield np.where(have == 1, value + 1, value).astype(value.dtype)
    yield np.where(have == 1, value, 1).astype(value.dtype)


def _split_sizes(value: Array, peers: Sequence[Any], _attrs: Any) -> Iterator[Array]:
    """Other sizes with the same sum."""
    if value.ndim == 0:
        yield value + 1
        return
    yield from _permutations(value, peers, _attrs)
    moved = value.copy()
    if value.size > 1 and value[0] > 0:
        moved[0] -= 1
        moved[-1] += 1
        yield moved


def _minus_plus_one(value: Array, _peers: Any, _attrs: Any) -> Iterator[Array]:
    yield value - 1
    yield value + 1


def _pads(value: Array, _peers: Any, _attrs: Any) -> Iterator[Array]:
    """Begin and end pads exchanged; or larger ones."""
    half = value.size // 2
    yield np.concatenate([value[half:], value[:half]])
    yield np.abs(value) + 1


def _spatial_dims(step: int) -> Candidates:
    """Larger spatial dims; batch and channels unchanged."""

    def candidates(value: Array, _peers: Any, _attrs: Any) -> Iterator[Array]:
        moved = value.copy()
        moved[2:] += step
        yield moved

    return candidates


def _scales(value: Array, _peers: Any, _attrs: Any) -> Iterator[Array]:
    yield np.where(value == 1, value, value * np.float32(1.5)).astype(value.dtype)
    yield (value * np.float32(2)).astype(value.dtype)


def _output_sizes(value: Array, _peers: Any, _attrs: Any) -> Iterator[Array]:
    yield np.where(value == 1, value, value + 1).astype(value.dtype)
    yield value + 1


def _count(value: Array, _peers: Any, _attrs: Any) -> Iterator[Array]:
    """Another count; a large one means no limit."""
    for other in (value - 1, value + 1, value // 2):
        if np.all(other > 0):
            yield other.astype(value.dtype)


def _other_flags(value: Array, _peers: Any, _attrs: Any) -> Iterator[Array]:
    if value.size == 1:
        yield ~value
    for step in range(1, value.size):
        yield np.roll(value, step)


_REDUCTIONS: Final = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod",
                      "Sum", "SumSquare")  # fmt: skip

SHAPE_INPUTS: Final[Mapping[tuple[str, int], Candidates]] = {
    **{(f"Reduce{name}", 1): _other_axes for name in _REDUCTIONS},
    ("AffineGrid", 1): _spatial_dims(1),
    ("BlackmanWindow", 0): _plus_minus(), ("HammingWindow", 0): _plus_minus(),
    ("HannWindow", 0): _plus_minus(),
    ("CenterCropPad", 1): _minus_plus_one,
    ("Compress", 1): _other_flags,
    ("ConstantOfShape", 0): _plus_minus(),
    ("CumProd", 1): _other_axes, ("CumSum", 1): _other_axes,
    ("DFT", 1): _plus_minus(), ("DFT", 2): _other_axes,
    ("Expand", 1): _broadcast_dims,
    ("If", 0): _other_flags,
    ("Loop", 0): _count,
    ("MaxUnpool", 2): _spatial_dims(1),
    ("MelWeightMatrix", 0): _plus_minus(), ("MelWeightMatrix", 1): _plus_minus(2),
    ("NonMaxSuppression", 2): _count,
    ("OneHot", 1): _plus_minus(),
    ("Pad", 1): _pads, ("Pad", 3): _other_axes,
    ("Range", 1): _plus_minus(2), ("Range", 0): _plus_minus(),
    ("Reshape", 1): _reshaped_dims,
    ("Resize", 2): _scales, ("Resize", 3): _output_sizes,
    ("STFT", 1): _minus_plus_one, ("STFT", 3): _minus_plus_one,
    ("SequenceAt", 1): _minus_plus_one, ("SequenceErase", 1): _minus_plus_one,
    ("SequenceInsert", 2): _minus_plus_one,
    ("Slice", 1): _plus_minus(), ("Slice", 2): _minus_plus_one,
    ("Slice", 3): _other_axes, ("Slice", 4): _plus_minus(),
    ("Split", 1): _split_sizes, ("SplitToSequence", 1): _split_sizes,
    ("Squeeze", 1): _other_axes, ("Unsqueeze", 1): _new_axes,
    ("Tile", 1): _plus_minus(),
    ("TopK", 1): _minus_plus_one,
    ("Trilu", 1): _plus_minus(),
    ("Upsample", 1): _scales,
}  # fmt: skip
"""Inputs that decide shapes or control flow, by op type and index, with other values.

Left out, since other values are illegal while the data stay: the image and block shapes
of Col2Im, and training_mode of Dropout.
"""


def shape_inputs(model: Any) -> dict[str, tuple[Any, int]]:
    """The inputs of a model that decide shapes, each with a node and input index."""
    names = {info.name for info in model.graph.input}
    found: dict[str, tuple[Any, int]] = {}
    for node in model.graph.node:
        for i, name in enumerate(node.input):
            if name in names and (node.op_type, i) in SHAPE_INPUTS:
                found.setdefault(name, (node, i))
    return found


# -- inputs that are data ----------------------------------------------------------


def _perturb(value: Any, random: np.random.Generator, scaled: bool = True) -> Any:
    """The same elements permuted; floats scaled by 0.6 to 1."""
    if isinstance(value, list):
        return [_perturb(item, random, scaled) for item in value]
    if not isinstance(value, np.ndarray | np.generic):
        return value
    value = np.array(value)
    if value.dtype.kind == "b" and value.size == 1:
        return ~value
    if str(value.dtype) in (
        "int32",
        "int64",
    ):  # rows may be indices
        return random.permutation(value, axis=0) if value.ndim else value
    flat = random.permutation(value.reshape(-1))
    if value.dtype.kind == "f" and scaled:
        factors = random.uniform(0.6, 1.0, flat.shape)
        flat = (flat.astype("float64") * factors).astype(value.dtype)
    return flat.reshape(value.shape)


_FIXED_INTEGERS: Final = frozenset({
    "Attention", "Bernoulli", "ImageDecoder", "LinearAttention", "NonMaxSuppression",
    "ReverseSequence", "TensorScatter",
})  # fmt: skip
"""Ops whose integer inputs may be illegal in another order."""

_INTEGRAL_FLOATS: Final = frozenset({"OneHot"})
"""Ops whose float inputs must have integral values."""

_TRIES: Final = 6
"""Permutations tried until the outputs change."""


# -- one case ----------------------------------------------------------------------


def without_shapes(model: Any) -> Any:
    """A copy that declares no shapes of intermediate values and outputs."""
    copy = type(model)()
    copy.CopyFrom(model)
    del copy.graph.value_info[:]
    for info in copy.graph.output:
        if info.type.HasField("tensor_type"):
            info.type.tensor_type.ClearField("shape")
    return copy


def second_data_set(
    name: str, model: Any, one_op: Any, feeds: Sequence[Any], expected: Sequence[Any],
    differs: Differs,
) -> SecondDataSet:  # fmt: skip
    """The second data set of a case, derived from its first one.

    `one_op`: a model with the same inputs, whose nodes show which decide shapes.
    """
    if name in _BY_NAME:
        return SecondDataSet(model, why=_BY_NAME[name])
    types = {node.op_type for node in model.graph.node}
    if types & {"Bernoulli", "RandomNormal", "RandomUniform", "RandomNormalLike",
                "RandomUniformLike", "Multinomial"}:  # fmt: skip
        return SecondDataSet(model, why="drawn")
    names = [info.name for info in model.graph.input]
    first = dict(zip(names, feeds, strict=False))
    random = np.random.default_rng(crc32(name.encode()))
    for source in (model, one_op):
        reference = without_shapes(source)
        outputs = _reference_outputs(reference, first)
        if outputs is not None and not differs(outputs, expected):
            found = _search(
                reference, shape_inputs(one_op), first, outputs, random, differs
            )  # fmt: skip
            return found._replace(model=without_shapes(model))
    return SecondDataSet(model, why="reference")


def _search(
    model: Any, deciders: Mapping[str, Any], feeds: Mapping[str, Any],
    first: Sequence[Any], random: np.random.Generator,
    differs: Differs,
) -> SecondDataSet:  # fmt: skip
    """Perturb the data first, then change shape inputs one by one where legal."""
    types = {node.op_type for node in model.graph.node}
    expected: Sequence[Any] | None = None
    for _ in range(_TRIES):
        trial = _perturb_all(feeds, deciders, types, random)
        found = _reference_outputs(model, trial)
        if found is not None:
            feeds, expected = trial, found
            if differs(found, first):
                break
    raised, expected = expected is None, first if expected is None else expected
    shaped = False
    for name, decider in deciders.items():
        if name not in feeds:
            continue
        for value in _other_values(decider, feeds, name):
            trial = {**feeds, name: value}
            found = _reference_outputs(model, trial)
            if found is not None and differs(found, expected):
                feeds, expected, shaped = trial, found, True
                break
    if not differs(expected, first):
        return SecondDataSet(model, why="raises" if raised else "single")
    return SecondDataSet(model, list(feeds.values()), expected, shaped)


def _other_values(decider: Any, feeds: Mapping[str, Any], name: str) -> Iterator[Array]:
    """Other values of a shape input, of the same shape and dtype."""
    node, at = decider
    peers = [feeds.get(each) for each in node.input]
    attrs = {a.name: a.i for a in node.attribute if a.type == a.INT}
    old = np.asarray(feeds[name])
    for value in SHAPE_INPUTS[node.op_type, at](old, peers, attrs):
        value = np.asarray(value)
        if value.shape == old.shape and value.dtype == old.dtype:
            yield value


def _perturb_all(
    feeds: Mapping[str, Any], deciders: Mapping[str, Any], types: set[str],
    random: np.random.Generator,
) -> dict[str, Any]:  # fmt: skip
    perturbed = {}
    for name, value in feeds.items():
        is_number = isinstance(value, np.ndarray) and value.dtype.kind in "iub"
        stays = name in deciders or (is_number and bool(types & _FIXED_INTEGERS))
        perturbed[name] = (
            value if stays else _perturb(value, random, not types & _INTEGRAL_FLOATS)
        )
    return perturbed


def _reference_outputs(model: Any, feeds: Mapping[str, Any]) -> Sequence[Any] | None:
    """The outputs of the reference evaluator; None where it fails."""
    from onnx.reference import ReferenceEvaluator

    try:
        with np.errstate(all="ignore"):
            found = ReferenceEvaluator(model).run(None, dict(feeds))
    except Exception:  # noqa: BLE001 - illegal inputs and missing ops fail in many ways
        return None
    return [_with_object_strings(each) for each in found]


def _with_object_strings(value: Any) -> Any:
    """String arrays with dtype object, as in the suite."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "US":
        return value.astype(object)
    return value
