"""Variables: state that an executable keeps between calls."""

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

_NO_GRADIENT = "variables have no gradient: read once, and differentiate by that value"


@primitive(numpy_only=True, effect="holds")
def variable(initial: Anything = None, *, key: str, type: Any = None) -> Ref:
    """Variable with a key; starts as `initial`, or empty with the given type"""
    state = current_run().state
    return Cell(key, initial) if state is None else state.cell(key, initial, type)


@variable.infer
def _(initial: Any, type: Any) -> Any:
    given = parse_type(type) if isinstance(type, str) else type
    held = given if initial is None or given is not None else without_content(initial)
    return [RefType(TensorType() if held is None else held)]


@primitive(numpy_only=True, effect="reads")
def read(v: Ref) -> Anything:
    """Value of a variable at this point of the execution order"""
    return v.read()


@read.infer
def _(v: Any) -> Any:
    return [expect_kind(RefType, v).element]


def _expect_fit(v: Any, x: Any) -> Any:
    held = expect_kind(RefType, v).element
    fits = accepts(held, x)
    if fits is False:
        raise InvalidTypeError("the variable has another type", expected=held, got=x)
    return [without_content(x)]


@primitive(numpy_only=True, effect="writes")
def assign(v: Ref, x: Array) -> Array:
    """Assign a value to a variable; returns the value"""
    return v.assign(x)


@primitive(numpy_only=True, effect="writes")
def assign_add(v: Ref, x: Array) -> Array:
    """Add to a variable; returns the new value"""
    return v.assign(np.add(v.read(), x))


@primitive(numpy_only=True, effect="writes")
def assign_subtract(v: Ref, x: Array) -> Array:
    """Subtract from a variable; returns the new value"""
    return v.assign(np.subtract(v.read(), x))


assign.infer(_expect_fit)


@assign_add.infer
@assign_subtract.infer
def _(v: Any, x: Any) -> Any:
    held = expect_kind(RefType, v).element
    if isinstance(held, TensorType) and held.dtype != x.dtype:
        _expect_fit(v, TensorType(x.dtype))
    return [held]


@read.explicit_state
def _(values: Any, v: Any) -> Any:
    return values[v]


@assign.explicit_state
def _(values: Any, v: Any, x: Any) -> Any:
    values[v] = x
    return x


@assign_add.explicit_state
def _(values: Any, v: Any, x: Any) -> Any:
    values[v] = values[v] + x
    return values[v]


@assign_subtract.explicit_state
def _(values: Any, v: Any, x: Any) -> Any:
    values[v] = values[v] - x
    return values[v]


for _op in (variable, read, assign, assign_add, assign_subtract):
    _op.not_differentiable(_NO_GRADIENT)


# -- samples: each call has its own cell ---------------------------------------------


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
