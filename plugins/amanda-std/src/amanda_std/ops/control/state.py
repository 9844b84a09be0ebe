"""State: variables, which an executable keeps from call to call."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.errors import InvalidTypeError
from amanda.types import RefType, TensorType, accepts, parse_type
from amanda_std.engine.annotations import Anything, Array, Ref
from amanda_std.engine.operation import primitive
from amanda_std.engine.samples import Sample, Samples, array
from amanda_std.runtime.containers import expect_kind, without_content
from amanda_std.runtime.state import Cell, current_run

_NO_SLOPE = "gradients are taken of values, not of variables: read it before, once"


@primitive(numpy_only=True, effect="holds")
def variable(initial: Anything = None, *, key: str, type: Any = None) -> Ref:
    """The variable of a key; it begins with a value, or with none of the type told"""
    del type
    state = current_run().state
    return Cell(key, initial) if state is None else state.cell(key, initial)


@variable.infer
def _(initial: Any, type: Any) -> Any:
    told = parse_type(type) if isinstance(type, str) else type
    held = told if initial is None or told is not None else without_content(initial)
    return [RefType(TensorType() if held is None else held)]


@primitive(numpy_only=True, effect="reads")
def read(v: Ref) -> Anything:
    """What a variable holds at this place of the order"""
    return v.read()


@read.infer
def _(v: Any) -> Any:
    return [expect_kind(RefType, v).element]


def _expect_fit(v: Any, x: Any) -> Any:
    held = expect_kind(RefType, v).element
    fits = accepts(held, x)
    if fits is False:
        raise InvalidTypeError(
            "the variable holds tensors of another type", expected=held, got=x
        )
    return [without_content(x)]


@primitive(numpy_only=True, effect="writes")
def assign(v: Ref, x: Array) -> Array:
    """Another value of a variable from now on; the value"""
    return v.assign(x)


@primitive(numpy_only=True, effect="writes")
def assign_add(v: Ref, x: Array) -> Array:
    """x added to a variable; what it holds then"""
    return v.assign(np.add(v.read(), x))


@primitive(numpy_only=True, effect="writes")
def assign_subtract(v: Ref, x: Array) -> Array:
    """x subtracted from a variable; what it holds then"""
    return v.assign(np.subtract(v.read(), x))


assign.infer(_expect_fit)


@assign_add.infer
@assign_subtract.infer
def _(v: Any, x: Any) -> Any:
    held = expect_kind(RefType, v).element
    if isinstance(held, TensorType) and held.dtype != x.dtype:
        _expect_fit(v, TensorType(x.dtype))
    return [held]


for _op in (variable, read, assign, assign_add, assign_subtract):
    _op.not_differentiable(_NO_SLOPE)


# -- samples: each call has a place of its own ---------------------------------------


def _cell(dtype: str) -> Cell:
    return Cell("v", array([1, 2], dtype))


@variable.samples
def _() -> Samples:
    for dtype in ("float32", "int64"):
        yield Sample((array([1, 2], dtype),), [_cell(dtype)], {"key": "v"})


@read.samples
def _() -> Samples:
    for dtype in ("float32", "int64"):
        yield Sample((_cell(dtype),), array([1, 2], dtype))


@assign.samples
def _() -> Samples:
    for dtype in ("float32", "int64"):
        x = array([3, 4], dtype)
        yield Sample((_cell(dtype), x), x.copy())
        yield Sample((Cell("v"), array([], dtype)), array([], dtype))


@assign_add.samples
def _() -> Samples:
    for dtype in ("float32", "int64"):
        yield Sample((_cell(dtype), array([3, 4], dtype)), array([4, 6], dtype))
        yield Sample((_cell(dtype), array(1, dtype)), array([2, 3], dtype))


@assign_subtract.samples
def _() -> Samples:
    for dtype in ("float32", "int64"):
        yield Sample((_cell(dtype), array([3, 5], dtype)), array([-2, -3], dtype))
