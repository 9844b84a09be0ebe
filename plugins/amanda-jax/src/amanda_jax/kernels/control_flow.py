"""Conditionals and loops: by XLA where the types allow, else driven by Python."""

from __future__ import annotations

from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import errors, lax

from amanda.errors import AmandaError
from amanda_jax.compile.trace_context import (
    PythonDrivenError,
    is_python_driven,
    note,
    why_untraceable,
)
from amanda_std.backends import per_tensor, run_branch
from amanda_std.ops import OPS

MAX_UNROLLED: Final = 64
"""Iterations up to which a loop that XLA does not support is unrolled."""


def static_value(value: Any) -> Any:
    """The content of a value that is static while tracing, else None."""
    if value is None or isinstance(value, np.ndarray | np.generic):
        return value
    try:
        return np.asarray(value)
    except errors.TracerArrayConversionError:
        return None


def _arrays(values: Any) -> tuple[Any, ...]:
    """Each value as an array of JAX; those in sequences and optionals as well."""
    return tuple(jax.tree.map(jnp.asarray, value) for value in values)


def if_(condition: Any, then: Any, otherwise: Any, *xs: Any) -> Any:
    static = static_value(condition)
    if static is not None:
        return tuple((then if np.all(static) else otherwise)(*xs))
    try:
        results = lax.cond(
            jnp.all(condition),
            lambda: _arrays(then(*xs)),
            lambda: _arrays(otherwise(*xs)),
        )
    except TypeError as error:
        raise PythonDrivenError(
            "the branches of an if return different types"
        ) from error
    except PythonDrivenError:
        raise
    except AmandaError as error:
        raise _branch_error("an if", error) from error
    note("if: lax.cond")
    return results


def _branch_error(where: str, error: AmandaError) -> PythonDrivenError:
    """XLA compiles every branch, also one that fails since the feeds are not for it.

    Python runs one branch; if that fails as well, it is an error of the model."""
    why = why_untraceable(error) or " ".join(str(error).split())
    return PythonDrivenError(f"a branch of {where} cannot be compiled: {why}")


def case(index: Any, branches: Any, *xs: Any) -> Any:
    static = static_value(index)
    if static is not None or is_python_driven():
        return run_branch(index, branches, *xs)
    last = len(branches) - 1
    position = jnp.asarray(index).reshape(())
    inside = (position >= 0) & (position <= last)
    try:
        results = lax.switch(
            jnp.where(inside, position, last).astype("int32"),
            [lambda body=body: _arrays(body(*xs)) for body in branches],
        )
    except TypeError as error:
        raise PythonDrivenError(
            "the branches of a case return different types"
        ) from error
    except PythonDrivenError:
        raise
    except AmandaError as error:
        raise _branch_error("a case", error) from error
    note("case: lax.switch")
    return results


def while_(condition: Any, body: Any, *init: Any, max_trips: int | None = None) -> Any:
    if is_python_driven():
        return OPS["while"].function(condition, body, *init, max_trips=max_trips)

    def keep_going(carry: Any) -> Any:
        go = jnp.all(condition(*carry[1:])[0])
        return go if max_trips is None else go & (carry[0] < max_trips)

    def step(carry: Any) -> Any:
        return (carry[0] + 1, *_arrays(body(*carry[1:])))

    try:
        start = (jnp.asarray(0, "int64"), *_arrays(init))
        results = lax.while_loop(keep_going, step, start)[1:]
    except TypeError as error:
        raise PythonDrivenError(
            "a value that a while carries changes its type"
        ) from error
    note("while: lax.while_loop")
    return results


def loop(trips: Any, condition: Any, body: Any, *init: Any) -> Any:
    if is_python_driven():
        return _loop_by_python(trips, condition, body, init)
    trip_count, go = static_value(trips), static_value(condition)
    if (trip_count is not None and trip_count <= 0) or (
        go is not None and not np.all(go)
    ):
        return OPS["loop"].function(trips, condition, body, *init)
    scans = len(body.result_types) > len(init) + 1
    try:
        if not scans:
            return _while(trips, condition, body, init)
        if trip_count is not None and (condition is None or go is not None):
            return _scan(int(trip_count), body, init)
        raise PythonDrivenError(
            "the number of iterations that a loop stacks is known only at run time"
        )
    except Exception as error:
        why = _why_unsupported(error)
        if why is None:
            raise
        if (
            trip_count is None
            or trip_count > MAX_UNROLLED
            or (condition is not None and go is None)
        ):
            raise PythonDrivenError(why) from error
    return _unroll(int(trip_count), body, init)


def _why_unsupported(error: Exception) -> str | None:
    """Why XLA does not support a loop; None for an error of another kind."""
    if isinstance(error, TypeError):
        return "a value that a loop carries changes its type"
    return why_untraceable(error)


def _while(trips: Any, condition: Any, body: Any, init: Any) -> Any:
    def keep_going(carry: Any) -> Any:
        trip, go, *_ = carry
        return go if trips is None else go & (trip < jnp.asarray(trips).reshape(()))

    def step(carry: Any) -> Any:
        trip, go, *rest = carry
        flag, *after = body(trip, go, *rest)
        return (trip + 1, jnp.all(flag), *_arrays(after))

    go = jnp.asarray(True) if condition is None else jnp.all(condition)
    start = (jnp.asarray(0, "int64"), go, *_arrays(init))
    results = lax.while_loop(keep_going, step, start)
    note("loop: lax.while_loop")
    return results[2:]


_TRUE: Final = np.asarray(True)


def _scan(trip_count: int, body: Any, init: Any) -> Any:
    def step(carry: Any, trip: Any) -> Any:
        flag, *rest = body(trip, _TRUE, *carry)
        _expect_true(flag)
        return _arrays(rest[: len(init)]), _arrays(rest[len(init) :])

    trip_numbers = jnp.arange(trip_count, dtype="int64")
    last, rows = lax.scan(step, _arrays(init), trip_numbers)
    note("loop: lax.scan")
    return (*last, *rows)


def _expect_true(flag: Any) -> None:
    static = static_value(flag)
    if static is None or not np.all(static):
        raise PythonDrivenError("a loop that stacks its iterations may end early")


def scan(
    body: Any, length: Any, *values: Any, carried: int, axes: Any, reverse: Any,
    out_axes: Any, out_reverse: Any,
) -> Any:  # fmt: skip
    """Scanned axes are moved to the front and back, and reversed where asked."""
    if is_python_driven():
        return _scan_by_python(
            body, length, *values, carried=carried, axes=axes, reverse=reverse,
            out_axes=out_axes, out_reverse=out_reverse,
        )  # fmt: skip
    init, xs = _arrays(values[:carried]), values[carried:]
    options = zip(
        per_tensor(axes, len(xs), 0), per_tensor(reverse, len(xs), False), strict=True
    )
    rows = [
        _flip_if(jnp.moveaxis(jnp.asarray(x), axis, 0), is_reversed)
        for x, (axis, is_reversed) in zip(xs, options, strict=True)
    ]

    def step(carry: Any, row: Any) -> Any:
        results = body(*carry, *row)
        return _arrays(results[:carried]), _arrays(results[carried:])

    try:
        last, results = lax.scan(step, init, tuple(rows), length=length)
    except TypeError as error:
        raise PythonDrivenError(
            "a value that a scan carries changes its type"
        ) from error
    note("scan: lax.scan")
    count = len(results)
    outputs = zip(
        results,
        per_tensor(out_axes, count, 0),
        per_tensor(out_reverse, count, False),
        strict=True,
    )
    return (*last, *(jnp.moveaxis(_flip_if(y, r), 0, axis) for y, axis, r in outputs))


def _flip_if(x: Any, is_reversed: bool) -> Any:
    return jnp.flip(x, 0) if is_reversed else x


def _scan_by_python(*args: Any, **attrs: Any) -> Any:
    return _arrays(OPS["scan"].function(*args, **attrs))


def _unroll(trip_count: int, body: Any, init: Any) -> Any:
    carry: Any = init
    rows = []
    for trip in range(trip_count):
        flag, *rest = body(np.asarray(trip, "int64"), _TRUE, *carry)
        _expect_true(flag)
        carry = rest[: len(init)]
        rows.append(rest[len(init) :])
    note("loop: unrolled")
    return (*carry, *(jnp.stack(_arrays(column)) for column in zip(*rows, strict=True)))


def _loop_by_python(trips: Any, condition: Any, body: Any, init: Any) -> Any:
    results = OPS["loop"].function(trips, condition, body, *init)
    return _arrays(results)
