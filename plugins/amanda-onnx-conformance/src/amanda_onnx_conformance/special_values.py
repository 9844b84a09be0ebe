"""Cases with special values or shapes, for every op of ONNX.

Values: NaN, infinities, signed zeros, denormal and largest numbers. Shapes: empty ones
and scalars.

A case is a model of ONNX's backend test suite, or of `special_models`, whose float
inputs have special values, or whose inputs have other shapes. Inputs that decide shapes
stay as they are. There are no expected outputs: whoever runs a case compares with other
runtimes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from ml_dtypes import finfo

from amanda_onnx_conformance.cases import cases, data_sets, to_array
from amanda_onnx_conformance.second_data import shape_inputs, without_shapes
from amanda_onnx_conformance.special_models import added_models

__all__ = ["KINDS_OF_VALUES", "SpecialCase", "special_cases"]

Array = Any
Feeds = Mapping[str, Any]

_FLOATS: Final = frozenset({"float16", "bfloat16", "float32", "float64"})
_RANDOM: Final = frozenset({
    "Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
    "RandomUniformLike",
})  # fmt: skip
"""Ops whose results cannot be compared."""
_FIXED: Final = frozenset({
    ("OneHot", 1), ("Range", 0), ("Range", 1), ("Range", 2), ("Resize", 1),
    # scales are positive, and thresholds from 0 to 1, by definition
    ("NonMaxSuppression", 3), ("NonMaxSuppression", 4),
    ("QuantizeLinear", 1), ("DequantizeLinear", 1),
    ("QLinearConv", 1), ("QLinearConv", 4), ("QLinearConv", 6),
    ("QLinearMatMul", 1), ("QLinearMatMul", 4), ("QLinearMatMul", 6),
    # results of other values are random, or have no definition
    ("Bernoulli", 0), ("Multinomial", 0), ("MaxRoiPool", 1),
})  # fmt: skip
"""Float inputs that stay as they are, beside `SHAPE_INPUTS`."""


class SpecialCase(NamedTuple):
    """A model with feeds. `values`: which special values or shapes it has.

    `reference`: a model with the same results, for an op that no runtime has.
    """

    name: str
    op_type: str
    values: str
    model: Any
    feeds: Feeds
    reference: Any = None


# -- values ------------------------------------------------------------------------


def _cycle(step: int, *numbers: str) -> Callable[[Array, int], Array]:
    """Every `step`-th element replaced by these, which are names of `_number`."""

    def replace_elements(x: Array, start: int) -> Array:
        y = x.copy().reshape(-1)
        values = [_number(name, x.dtype) for name in numbers]
        for count, i in enumerate(range(start % step, y.size, step)):
            y[i] = values[(count + start) % len(values)]
        return y.reshape(x.shape)

    return replace_elements


def _number(name: str, dtype: Any) -> float:
    info: Any = finfo
    limits = info(dtype)
    found = {
        "tiny": limits.smallest_subnormal,
        "denormal": limits.smallest_normal / np.asarray(4, dtype),
        "max": limits.max,
    }
    sign = -1 if name.startswith("-") else 1
    bare = name.lstrip("-")
    return sign * (float(found[bare]) if bare in found else float(bare))


KINDS_OF_VALUES: Final[Mapping[str, Callable[[Array, int], Array]]] = {
    "nan": _cycle(3, "nan"),
    "inf": _cycle(3, "inf", "-inf"),
    "zero": _cycle(2, "-0", "0"),
    "negative zero": _cycle(1, "-0"),
    "denormal": _cycle(2, "tiny", "-denormal", "denormal", "-tiny"),
    "largest": _cycle(4, "max", "-max"),
    "mixed": _cycle(
        1, "nan", "inf", "-0", "0.25", "-inf", "0", "-3", "1", "-max", "7.5"
    ),
}
"""How float inputs are changed, by name: a function of an array and of the number of
elements to begin with, which is another for each input."""


def _map_values(value: Any, function: Callable[[Array], Array]) -> Any:
    """A value with its float arrays replaced, also those in a sequence or a map."""
    if isinstance(value, dict):
        numbers = function(np.array(list(value.values()), "float32"))
        return dict(zip(value, numbers.tolist(), strict=True))
    if isinstance(value, list | tuple):
        return [_map_values(item, function) for item in value]
    if isinstance(value, np.ndarray | np.generic) and value.dtype.name in _FLOATS:
        return function(np.asarray(value))
    return value


def _with_values(feeds: Feeds, fixed: set[str], values: str) -> Feeds | None:
    """Feeds with special values; None where there is no float input."""
    change = KINDS_OF_VALUES[values]
    found: dict[str, Any] = {}
    for i, (name, value) in enumerate(feeds.items()):
        found[name] = (
            value if name in fixed else _map_values(value, lambda x, i=i: change(x, i))  # type: ignore[misc]
        )
    return found if any(found[name] is not feeds[name] for name in feeds) else None


# -- shapes ------------------------------------------------------------------------


def _empty(feeds: Feeds, fixed: set[str], axis: int) -> Iterator[Feeds]:
    """Feeds with size 0 along an axis: in all inputs of that size, or in the first."""
    arrays = {n: v for n, v in feeds.items()
              if isinstance(v, np.ndarray) and n not in fixed and v.ndim}  # fmt: skip
    if not arrays:
        return
    first, data = next(iter(arrays.items()))
    size = data.shape[axis]
    same = [n for n, v in arrays.items() if v.shape[axis] == size]
    for names in dict.fromkeys((tuple(same), (first,))):
        yield {n: v.take([], axis) if n in names else v for n, v in feeds.items()}


def _scalar(feeds: Feeds, fixed: set[str]) -> Iterator[Feeds]:
    """Feeds with scalars for all arrays, or for all but those that decide shapes."""
    for kept in (set(), fixed):
        yield {
            n: v.reshape(-1)[:1].reshape(())
            if isinstance(v, np.ndarray) and v.size and n not in kept
            else v
            for n, v in feeds.items()
        }


_SHAPES: Final[Mapping[str, Callable[[Feeds, set[str]], Iterator[Feeds]]]] = {
    "empty first axis": lambda feeds, fixed: _empty(feeds, fixed, 0),
    "empty last axis": lambda feeds, fixed: _empty(feeds, fixed, -1),
    "scalar": _scalar,
}


def _with_shapes(model: Any, feeds: Feeds) -> Any:
    """A copy that declares the shapes of these feeds, and of nothing else."""
    copy = without_shapes(model)
    for info in copy.graph.input:
        value = feeds.get(info.name)
        if isinstance(value, np.ndarray) and info.type.HasField("tensor_type"):
            dims = info.type.tensor_type.shape
            del dims.dim[:]
            for size in value.shape:
                dims.dim.add().dim_value = size
    return copy


# -- cases -------------------------------------------------------------------------


def special_cases(
    is_valid: Callable[[Any, Feeds], bool],
    per_op: int = 3,
    is_wanted: Callable[[str], bool] = bool,
) -> Iterator[SpecialCase]:
    """Yield the cases of `per_op` models of each op.

    `is_valid`: whether some runtime accepts a model and feeds, which decides about
    other shapes; those that none accepts are left out. `is_wanted`: whether cases are
    made of a model, by its name.
    """
    added = (SpecialCase(values="unchanged", **row._asdict()) for row in added_models())
    for case in (*_suite_models(per_op), *added):
        if is_wanted(case.name):
            yield from _variants(case, is_valid)


def _variants(
    case: SpecialCase, is_valid: Callable[[Any, Feeds], bool]
) -> Iterator[SpecialCase]:
    """The cases of one model; itself only where it is none of the suite."""
    feeds, fixed = case.feeds, _shape_deciders(case.model)
    if case.values:
        yield case
    for values in KINDS_OF_VALUES:
        found = _with_values(feeds, fixed, values)
        if found is not None:
            yield case._replace(values=values, feeds=found)
    for values, shaped in _SHAPES.items():
        for other in shaped(feeds, fixed):
            changed = _with_shapes(case.model, other)
            if is_valid(case.reference or changed, other):
                yield case._replace(values=values, model=changed, feeds=other)
                break


def _suite_models(per_op: int) -> Iterator[SpecialCase]:
    """Models of the suite with one op, as unlike as possible, with their inputs."""
    by_op: dict[str, dict[Any, tuple[Any, Any]]] = defaultdict(dict)
    for _, case in cases(["node"]):
        if "_expanded" in case.name or len(case.model.graph.node) != 1:
            continue
        node = case.model.graph.node[0]
        if node.op_type not in _RANDOM and not _is_training_dropout(node):
            by_op[f"{node.domain}.{node.op_type}"].setdefault(
                _signature(case.model, node), (case, node)
            )
    for found in by_op.values():
        for case, node in _evenly_spaced(list(found.values()), per_op):
            values = [_as_array(v) for v in next(iter(data_sets(case)))[0]]
            names = [info.name for info in case.model.graph.input]
            feeds = dict(zip(names, values, strict=False))
            model = _with_shapes(case.model, feeds)
            yield SpecialCase(case.name, node.op_type, "", model, feeds)


def _is_training_dropout(node: Any) -> bool:
    """Whether a node may draw a random mask."""
    return node.op_type == "Dropout" and len(node.input) > 2


def _as_array(value: Any) -> Any:
    """A value of the suite; NumPy scalars as arrays."""
    found = to_array(value)
    return np.asarray(found) if isinstance(found, np.generic) else found


def _signature(model: Any, node: Any) -> Any:
    """What tells models of one op apart: inputs, element types, attributes, opset."""
    types = tuple(info.type.tensor_type.elem_type for info in model.graph.input)
    attrs = tuple(sorted(a.SerializeToString() for a in node.attribute))
    return types, len(node.output), attrs if len(attrs) < 8 else len(attrs)


def _evenly_spaced(items: Sequence[Any], count: int) -> Sequence[Any]:
    """At most `count` items, from the first to the last at equal distances."""
    if len(items) <= count:
        return items
    last = max(count - 1, 1)
    return [items[round(i * (len(items) - 1) / last)] for i in range(count)]


def _shape_deciders(model: Any) -> set[str]:
    """The inputs of a model that decide shapes, or have to be positive."""
    names = {info.name for info in model.graph.input}
    return set(shape_inputs(model)) | {
        name
        for node in model.graph.node
        for i, name in enumerate(node.input)
        if name in names and (node.op_type, i) in _FIXED
    }
