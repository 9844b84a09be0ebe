"""Side effects: printing, probes, assertions and host callbacks."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from amanda.errors import BackendError, InvalidTypeError, UsageError
from amanda.host import host_in_use
from amanda.types import TensorType, accepts, parse_type
from amanda_std.engine.annotations import Anything, Array, Logical, Other
from amanda_std.engine.arrays import array_type
from amanda_std.engine.operation import primitive
from amanda_std.engine.samples import Sample, Samples, arange_of_shape, array
from amanda_std.runtime.state import current_run


@primitive(name="print", numpy_only=True, effect="shows")
def print_(x: Array, *, text: str = "") -> Array:
    """Print x to standard error after a text; returns x"""
    shown = np.array2string(np.asarray(x), threshold=32)
    sys.stderr.write(f"{text}: {shown}\n" if text else f"{shown}\n")
    return x


@primitive(numpy_only=True, effect="shows")
def probe(x: Array, *, label: str) -> Array:
    """Show x to the observers of the executable; returns x"""
    observe = current_run().observe
    if observe is not None:
        observe(label, _read_only(np.asarray(x)))
    return x


for _op in (print_, probe):
    _op.infer(lambda x: [x])
    _op.gradient(lambda g: [g])


@primitive(name="assert", numpy_only=True, effect="shows")
def assert_(condition: Logical, *shown: Other, message: str = "") -> Logical:
    """Raise an error with the shown values if the condition is false; returns it"""
    if not np.all(condition):
        raise BackendError(
            message or "assertion of the graph failed",
            who="assert",
            problems=[np.array2string(np.asarray(s), threshold=32) for s in shown],
        )
    return condition


@assert_.infer
def _(condition: Any) -> Any:
    return [condition]


assert_.not_differentiable("its result is a boolean")


@primitive(numpy_only=True, effect="shows")
def host_callback(
    *xs: Anything, function: str, types: Any = ()
) -> tuple[Anything, ...]:
    """Call a Python function; the graph stores its name and the `types` of its results

    The function is supplied at compile time, or found in the process by name."""
    outputs = current_run().callback(function)(*map(_read_only, xs))
    results = (
        outputs
        if isinstance(outputs, tuple | list)
        else ()
        if outputs is None
        else (outputs,)
    )
    requested = _callback_types(types)
    if len(results) != len(requested):
        raise UsageError(
            f"the callback {function!r} returned another number of results",
            expected=len(requested),
            got=len(results),
        )
    return tuple(
        _expect_type(function, each, type_)
        for each, type_ in zip(results, requested, strict=True)
    )


def _read_only(value: Any) -> Any:
    """A view of an array that a function of the user can only read."""
    if not isinstance(value, np.ndarray):
        return value
    seen = value.view()
    seen.flags.writeable = False
    return seen


def _callback_types(types: Any) -> list[Any]:
    rows = [parse_type(t) if isinstance(t, str) else t for t in types]
    if not all(isinstance(t, TensorType) for t in rows):
        raise InvalidTypeError("callbacks return tensors", got=[str(t) for t in rows])
    return rows


def _expect_type(function: str, value: Any, expected: TensorType) -> Any:
    array = np.asarray(value)
    got = array_type(array)
    if accepts(expected, TensorType(got.dtype, got.shape)) is False:
        raise UsageError(
            f"the callback {function!r} returned another type",
            expected=expected,
            got=got,
        )
    return array


host_callback.label_attribute = ("function", "of")


@host_callback.infer
def _(types: Any) -> Any:
    return _callback_types(types)


host_callback.not_differentiable("the function is opaque")


# -- samples -----------------------------------------------------------------------


@print_.samples
def _() -> Samples:
    for dtype in ("float64", "int64"):
        for x in (array([1, 2], dtype), array([], dtype), array(3, dtype)):
            yield Sample((x,), x, {"text": "x"})


@probe.samples
def _() -> Samples:
    for dtype in ("float64", "int64"):
        for x in (array([1, 2], dtype), array([], dtype), array(3, dtype)):
            yield Sample((x,), x, {"label": "x"})


@assert_.samples
def _() -> Samples:
    for flag in ([True, True], [], True):
        c = array(flag, "bool")
        yield Sample((c, array([1.0]), array(2, "int64")), c, {"message": "why"})


@host_callback.samples
def _() -> Samples:
    """The function is registered by name with the host in use."""
    name = "amanda_std.ops.control.effects: a sample"

    def subtract_and_count(a: Any, b: Any) -> Any:
        return a - b, np.array(a.size, "int64")

    host_in_use().register_callback(name, subtract_and_count, replace=True)
    for dtype in ("float64", "int32"):
        for size, parts in ((3, [3, 1, -1]), (0, [])):
            x = arange_of_shape(size, dtype=dtype, start=5)
            y = array([2, 5, 8][:size], dtype)
            types = (f"{dtype}[{size}]", "int64[]")
            requested = [array(parts, dtype), array(size, "int64")]
            yield Sample((x, y), requested, {"function": name, "types": types})
