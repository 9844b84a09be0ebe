"""Choices and loops: by XLA where the types allow, else driven by the host."""

from __future__ import annotations

from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import errors, lax

from amanda.errors import AmandaError
from amanda_jax.compile.trace_context import (
    HostDrivenError,
    is_host_driven,
    note,
    why_untraceable,
)
from amanda_std.backends import per_tensor, run_branch
from amanda_std.ops import OPS

UNROLLED: Final = 64
"""Rounds up to which a loop that XLA cannot take is written out."""


def known(value: Any) -> Any:
    """The content of an array that is known while tracing, else None."""
    if value is None or isinstance(value, np.ndarray | np.generic):
        return value
    try:
        return np.asarray(value)
    except errors.TracerArrayConversionError:
        return None


def _arrays(values: Any) -> tuple[Any, ...]:
    """Each as an array of JAX; what is in sequences and optionals, too."""
    return tuple(jax.tree.map(jnp.asarray, value) for value in values)


def if_(condition: Any, then: Any, otherwise: Any, *xs: Any) -> Any:
    told = known(condition)
    if told is not None:
        return tuple((then if np.all(told) else otherwise)(*xs))
    try:
        made = lax.cond(
            jnp.all(condition),
            lambda: _arrays(then(*xs)),
            lambda: _arrays(otherwise(*xs)),
        )
    except TypeError as error:
        raise HostDrivenError("the branches of an if return different types") from error
    except HostDrivenError:
        raise
    except AmandaError as error:
        raise _of_a_branch("an if", error) from error
    note("if: lax.cond")
    return made


def _of_a_branch(where: str, error: AmandaError) -> HostDrivenError:
    """XLA takes every branch, also one that is not for what is fed and fails at it.

    The host takes one; if that fails as well, it is an error of the model.
    """
    why = why_untraceable(error) or " ".join(str(error).split())
    return HostDrivenError(f"a branch of {where} cannot be compiled: {why}")


def case(index: Any, branches: Any, *xs: Any) -> Any:
    told = known(index)
    if told is not None or is_host_driven():
        return run_branch(index, branches, *xs)
    last = len(branches) - 1
    place = jnp.asarray(index).reshape(())
    inside = (place >= 0) & (place <= last)
    try:
        made = lax.switch(
            jnp.where(inside, place, last).astype("int32"),
            [lambda body=body: _arrays(body(*xs)) for body in branches],
        )
    except TypeError as error:
        raise HostDrivenError(
            "the branches of a case return different types"
        ) from error
    except HostDrivenError:
        raise
    except AmandaError as error:
        raise _of_a_branch("a case", error) from error
    note("case: lax.switch")
    return made


def while_(condition: Any, body: Any, *init: Any, max_trips: int | None = None) -> Any:
    if is_host_driven():
        return OPS["while"].function(condition, body, *init, max_trips=max_trips)

    def goes_on(now: Any) -> Any:
        go = jnp.all(condition(*now[1:])[0])
        return go if max_trips is None else go & (now[0] < max_trips)

    def once(now: Any) -> Any:
        return (now[0] + 1, *_arrays(body(*now[1:])))

    try:
        start = (jnp.asarray(0, "int64"), *_arrays(init))
        made = lax.while_loop(goes_on, once, start)[1:]
    except TypeError as error:
        raise HostDrivenError("what a while carries changes its type") from error
    note("while: lax.while_loop")
    return made


def loop(trips: Any, condition: Any, body: Any, *init: Any) -> Any:
    if is_host_driven():
        return _by_host(trips, condition, body, init)
    most, go = known(trips), known(condition)
    if (most is not None and most <= 0) or (go is not None and not np.all(go)):
        return OPS["loop"].function(trips, condition, body, *init)
    scans = len(body.result_types) > len(init) + 1
    try:
        if not scans:
            return _while(trips, condition, body, init)
        if most is not None and (condition is None or go is not None):
            return _scan(int(most), body, init)
        raise HostDrivenError("how many rounds a loop stacks, only a run tells")
    except Exception as error:
        why = _why(error)
        if why is None:
            raise
        if most is None or most > UNROLLED or (condition is not None and go is None):
            raise HostDrivenError(why) from error
    return _unrolled(int(most), body, init)


def _why(error: Exception) -> str | None:
    """Why XLA cannot take a loop; None where the fault is another."""
    if isinstance(error, TypeError):
        return "what a loop carries changes its type"
    return why_untraceable(error)


def _while(trips: Any, condition: Any, body: Any, init: Any) -> Any:
    def goes_on(now: Any) -> Any:
        done, go, *_ = now
        return go if trips is None else go & (done < jnp.asarray(trips).reshape(()))

    def once(now: Any) -> Any:
        done, go, *rest = now
        flag, *after = body(done, go, *rest)
        return (done + 1, jnp.all(flag), *_arrays(after))

    go = jnp.asarray(True) if condition is None else jnp.all(condition)
    start = (jnp.asarray(0, "int64"), go, *_arrays(init))
    made = lax.while_loop(goes_on, once, start)
    note("loop: lax.while_loop")
    return made[2:]


_TRUE: Final = np.asarray(True)


def _scan(most: int, body: Any, init: Any) -> Any:
    def once(now: Any, done: Any) -> Any:
        flag, *rest = body(done, _TRUE, *now)
        _expect_true(flag)
        return _arrays(rest[: len(init)]), _arrays(rest[len(init) :])

    rounds = jnp.arange(most, dtype="int64")
    last, rows = lax.scan(once, _arrays(init), rounds)
    note("loop: lax.scan")
    return (*last, *rows)


def _expect_true(flag: Any) -> None:
    told = known(flag)
    if told is None or not np.all(told):
        raise HostDrivenError("a loop that stacks its rounds may end early")


def scan(
    body: Any, length: Any, *values: Any, carried: int, axes: Any, reverse: Any,
    out_axes: Any, out_reverse: Any,
) -> Any:  # fmt: skip
    """Rows come to the front, those from the end turned round, and go back after."""
    if is_host_driven():
        return _scan_by_host(
            body, length, *values, carried=carried, axes=axes, reverse=reverse,
            out_axes=out_axes, out_reverse=out_reverse,
        )  # fmt: skip
    init, xs = _arrays(values[:carried]), values[carried:]
    ways = zip(
        per_tensor(axes, len(xs), 0), per_tensor(reverse, len(xs), False), strict=True
    )
    rows = [
        _turned(jnp.moveaxis(jnp.asarray(x), axis, 0), back)
        for x, (axis, back) in zip(xs, ways, strict=True)
    ]

    def once(now: Any, row: Any) -> Any:
        made = body(*now, *row)
        return _arrays(made[:carried]), _arrays(made[carried:])

    try:
        last, made = lax.scan(once, init, tuple(rows), length=length)
    except TypeError as error:
        raise HostDrivenError("what a scan carries changes its type") from error
    note("scan: lax.scan")
    count = len(made)
    back = zip(
        made,
        per_tensor(out_axes, count, 0),
        per_tensor(out_reverse, count, False),
        strict=True,
    )
    return (*last, *(jnp.moveaxis(_turned(y, r), 0, axis) for y, axis, r in back))


def _turned(x: Any, back: bool) -> Any:
    return jnp.flip(x, 0) if back else x


def _scan_by_host(*args: Any, **attrs: Any) -> Any:
    return _arrays(OPS["scan"].function(*args, **attrs))


def _unrolled(most: int, body: Any, init: Any) -> Any:
    now: Any = init
    rows = []
    for done in range(most):
        flag, *rest = body(np.asarray(done, "int64"), _TRUE, *now)
        _expect_true(flag)
        now = rest[: len(init)]
        rows.append(rest[len(init) :])
    note("loop: written out")
    return (*now, *(jnp.stack(_arrays(column)) for column in zip(*rows, strict=True)))


def _by_host(trips: Any, condition: Any, body: Any, init: Any) -> Any:
    made = OPS["loop"].function(trips, condition, body, *init)
    return _arrays(made)
