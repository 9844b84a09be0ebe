"""Optionals: a value or nothing. An omitted argument also counts as nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.errors import InvalidTypeError, UsageError
from amanda.types import OptionalType, TensorType, parse_type
from amanda_std.engine.annotations import Anything, Logical, Maybe
from amanda_std.engine.operation import primitive
from amanda_std.engine.samples import Sample, Samples, array
from amanda_std.engine.traits import Trait
from amanda_std.engine.values import UNKNOWN
from amanda_std.runtime.containers import expect_kind, without_content

_NO_GRADIENT = "gradients flow only through elements known before the run"


@primitive(numpy_only=True)
def optional(x: Anything = None, *, type: Any = None) -> Maybe:
    """Optional that holds x, or nothing of a given type"""
    del type
    return x


optional.trait(Trait.CONTAINER)


@optional.infer
def _(x: Any, type: Any) -> Any:
    if isinstance(x, OptionalType):
        raise InvalidTypeError("optionals cannot be nested", got=x)
    held = type if x is None else without_content(x)
    if isinstance(held, str):
        held = parse_type(held)
    return [OptionalType(UNKNOWN if held is None else held)]


@primitive()
def has_element(x: Anything = None) -> Logical:
    """Whether an optional holds a value; true for anything that is no optional"""
    return np.asarray(x is not None)


@has_element.infer
def _() -> Any:
    return [TensorType("bool", [])]


@primitive()
def get_element(x: Anything) -> Anything:
    """The value of an optional; other values are returned unchanged"""
    if x is None:
        raise UsageError(
            "the optional is empty", hint="check has_element first, in an if"
        )
    return x


@get_element.infer
def _(x: Any) -> Any:
    if isinstance(x, OptionalType):
        return [x.element]
    expect_kind(OptionalType, None if x == UNKNOWN else OptionalType(x))
    return [x]


for _op in (get_element, has_element):
    _op.trait(Trait.CONTAINER)
for _op in (optional, get_element):
    _op.not_differentiable(_NO_GRADIENT)
has_element.not_differentiable("its result is a boolean")


# -- samples -----------------------------------------------------------------------


@optional.samples
def _() -> Samples:
    for dtype in ("float32", "int64"):
        for x in (array([1, 2], dtype), array([], dtype), array(3, dtype)):
            yield Sample((x,), x)
    yield Sample(([array([1.0])],), [[array([1.0])]])
    yield Sample((), [None], {"type": TensorType("float32")})


@has_element.samples
def _() -> Samples:
    for x in (array([1.0, 2.0]), array([], "int64"), [array(1.0)], []):
        yield Sample((x,), array(True, "bool"))
    yield Sample((), array(False, "bool"))


@get_element.samples
def _() -> Samples:
    for dtype in ("float32", "int64"):
        for x in (array([1, 2], dtype), array([], dtype), array(3, dtype)):
            yield Sample((x,), x)
    yield Sample(([array([1.0])],), [[array([1.0])]])
