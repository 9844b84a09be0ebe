"""What ops make of padding: every rule held against what the op does to real padding.

Each sample of each op is taken with some of its sizes open. Where the analysis says
that they may be padded, they are, with elements from elsewhere in the same array, and
the op, run on numpy, has to give what it gives without, once its results are cut.
`python test_padding.py` prints the counts.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice

import numpy as np
import pytest

import amanda
from amanda.errors import AmandaError
from amanda.graph import Graph
from amanda.types import DType, Sym, TensorType, evaluate
from amanda_jax.shapes.bucketing import padded_results
from amanda_jax.shapes.padding_rules import RULES
from amanda_std import Operation, trace
from amanda_std.backends import Param, Sample
from amanda_std.ops import OPS
from amanda_std.passes.stable import stable_form

MORE = 3
_ROLES = ("tensor", "value")


def samples_of(operation: Operation) -> Iterator[Sample]:
    """Its samples about tensors of numbers."""
    rule = operation.samples_rule
    for sample in () if rule is None else rule():
        params = operation.form.params_of(len(sample.args))
        rows = zip(params, sample.args, strict=True)
        given = [a for p, a in rows if a is not None and p.role in _ROLES]
        many = isinstance(sample.expected, list | tuple) and operation.form.many
        wanted = list(sample.expected) if many else [sample.expected]
        if all(map(is_of_numbers, (*given, *wanted))):
            yield sample


def is_of_numbers(value: object) -> bool:
    if isinstance(value, bool | int | float | complex):
        return True
    return isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biufcV"


Open = Mapping[int, int]
"""Which axis of which tensor is open."""


def placings(arrays: list[np.ndarray]) -> Iterator[Open]:
    """Each axis of each tensor alone; then those of all, from the front and behind."""
    for i, array in enumerate(arrays):
        for axis in range(array.ndim):
            yield {i: axis}
    if len(arrays) < 2:
        return
    for axis in range(max(a.ndim for a in arrays)):
        for place in (axis, -1 - axis):
            rows = {
                i: place % a.ndim
                for i, a in enumerate(arrays)
                if -a.ndim <= place < a.ndim
            }
            sizes = {arrays[i].shape[at] for i, at in rows.items()}
            if len(rows) > 1 and len(sizes) == 1:
                yield rows


def opened(operation: Operation, sample: Sample, places: Open) -> Graph:
    """The op as a graph of inputs of which these sizes are open."""
    params = operation.form.params_of(len(sample.args))
    is_fed = [is_open(p, a) for p, a in zip(params, sample.args, strict=True)]

    def function(*values):
        rest = iter(values)
        rows = zip(sample.args, is_fed, strict=True)
        return operation(*(next(rest) if f else a for a, f in rows), **sample.attrs)

    types = []
    for i, array in enumerate(fed(operation, sample)):
        dims: list = list(array.shape)
        if i in places:
            dims[places[i]] = Sym.named("n")
        types.append(TensorType(DType.of(array), dims))
    return trace(function, types)


def fed(operation: Operation, sample: Sample) -> list[np.ndarray]:
    params = operation.form.params_of(len(sample.args))
    rows = zip(params, sample.args, strict=True)
    return [np.asarray(a) for p, a in rows if is_open(p, a)]


def is_open(param: Param, value: object) -> bool:
    """Whether an argument is fed when the graph runs."""
    return param.role in _ROLES and value is not None


def longer(array: np.ndarray, axis: int) -> np.ndarray:
    """The array with some of its own elements behind it."""
    extra = np.take(array, np.arange(MORE)[::-1] % array.shape[axis], axis)
    return np.concatenate([array, extra], axis)


def padding_outcome(operation: Operation, sample: Sample, places: Open) -> str:
    """'padded' where it may be and the results are right, 'wrong', or 'refused'."""
    arrays = fed(operation, sample)
    size = {arrays[i].shape[axis] for i, axis in places.items()}.pop()
    try:
        graph = stable_form(opened(operation, sample, places))
        cuts = padded_results(graph, {"n": size + MORE})
    except AmandaError:
        return "refused"
    wanted = amanda.run(graph, arrays, backend="numpy").values()
    more = [
        longer(array, places[i]) if i in places else array
        for i, array in enumerate(arrays)
    ]
    with np.errstate(all="ignore"):
        made = amanda.run(graph, more, backend="numpy").values()
    for got, want, axes in zip(made, wanted, cuts, strict=True):
        ends = {axis: evaluate(dim, {"n": size}) for axis, dim in axes.items()}
        cut = got[tuple(slice(ends.get(i)) for i in range(got.ndim))]
        if not is_close(cut, want):
            return "wrong"
    return "padded"


def is_close(one: np.ndarray, other: np.ndarray) -> bool:
    if one.shape != other.shape:
        return False
    a, b = one.astype("complex128"), other.astype("complex128")
    return np.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)


def outcomes(name: str, most: int) -> Counter[str]:
    operation = OPS[name]
    found: Counter[str] = Counter()
    for sample in islice(samples_of(operation), most):
        arrays = fed(operation, sample)
        for places in placings(arrays):
            if all(arrays[i].shape[axis] for i, axis in places.items()):
                found[padding_outcome(operation, sample, places)] += 1
    return found


@pytest.mark.parametrize("name", OPS)
def test_what_is_padded_is_right(name):
    assert outcomes(name, 3)["wrong"] == 0


@pytest.mark.parametrize("name", [name for name in RULES if name in OPS])
def test_every_rule_hands_some_padding_on(name):
    if not OPS[name].form.results or name in ("full", "arange", "eye"):
        pytest.skip("its samples have no tensors that could be padded")
    found = outcomes(name, 12)
    assert found["padded"]
    assert not found["wrong"]


def main() -> None:
    total: Counter[str] = Counter()
    for name in OPS:
        found = outcomes(name, 100)
        total += found
        if found and not found["padded"]:
            print(name, "is never padded")
    print(total)


if __name__ == "__main__":
    sys.exit(main())
