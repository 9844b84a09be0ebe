"""Choices and loops: by XLA where the types allow, else driven by the host."""

from __future__ import annotations

from typing import Any, Final

import jax.numpy as jnp
import numpy as np
from jax import errors, lax

from amanda_jax.notes import HostDrivenError, is_host_driven, note, why_untraceable
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
    return tuple(map(jnp.asarray, values))


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
    note("if: lax.cond")
    return made


def while_(condition: Any, body: Any, *init: Any) -> Any:
    if is_host_driven():
        return OPS["while"].function(condition, body, *init)
    try:
        made = lax.while_loop(
            lambda now: jnp.all(condition(*now)[0]),
            lambda now: _arrays(body(*now)),
            _arrays(init),
        )
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
