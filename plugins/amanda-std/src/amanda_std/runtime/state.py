"""What a running graph keeps and is surrounded by: variables, watchers, callbacks.

An executable has a `State` of its own unless it is given one: `state=` when it is
compiled. Two that are given one state share their variables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from threading import RLock
from typing import Any, NamedTuple

import numpy as np

from amanda.errors import InvalidTypeError, UsageError
from amanda.host import Host, host_in_use

__all__ = ["Cell", "State", "RunContext", "run_context", "current_run"]


class Cell:
    """The place of one variable. What it holds is never written over, but replaced."""

    __slots__ = ("_value", "initial", "key")

    def __init__(self, key: str, initial: Any = None) -> None:
        self.key = key
        self.initial = initial
        self._value: Any = None

    @property
    def has_value(self) -> bool:
        return self.initial is not None or self._value is not None

    def read(self) -> Any:
        found = self.initial if self._value is None else self._value
        if found is None:
            raise UsageError(
                f"the variable {self.key!r} has no value yet",
                hint="assign one first, or give the variable an initial value",
            )
        return found

    def assign(self, value: Any) -> Any:
        """Another value from now on; of the same element type."""
        kept = _kept(value)
        before = self.initial if self._value is None else self._value
        if before is not None and before.dtype != kept.dtype:
            raise InvalidTypeError(
                f"the variable {self.key!r} has another element type",
                expected=before.dtype,
                got=kept.dtype,
            )
        self._value = kept
        return kept

    def reset(self) -> None:
        """The initial value again."""
        self._value = None


def _kept(value: Any) -> Any:
    """A copy that nobody can write to, or the array itself where nobody can."""
    array = np.asarray(value)
    if array.flags.writeable or array.base is not None:
        array = array.copy()
        array.flags.writeable = False
    return array


class State(Mapping[str, Any]):
    """The variables of an executable, by key; what is read from it are copies.

    >>> state = State()
    >>> state["w"] = np.float32([1, 2])
    >>> state["w"] += 1.0
    >>> state["w"].tolist(), list(state)
    ([2.0, 3.0], ['w'])
    """

    def __init__(self) -> None:
        self.lock = RLock()
        """Held while a program that has state runs: one call after the other."""
        self._cells: dict[str, Cell] = {}

    def cell(self, key: str, initial: Any = None) -> Cell:
        """The place of a variable, made when it is first met."""
        cell = self._cells.get(key)
        if cell is None:
            cell = self._cells[key] = Cell(key)
        if cell.initial is None and initial is not None:
            cell.initial = _kept(initial)
        return cell

    def __getitem__(self, key: str) -> Any:
        if key not in self._cells:
            raise KeyError(
                f"no variable {key!r}; there are: {', '.join(self) or 'none'}"
            )
        with self.lock:
            return self._cells[key].read().copy()

    def __setitem__(self, key: str, value: Any) -> None:
        with self.lock:
            self.cell(key).assign(value)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._cells))

    def __len__(self) -> int:
        return len(self._cells)

    def reset(self, *keys: str) -> None:
        """The initial values again, of some variables or of all."""
        with self.lock:
            for key in keys or self:
                if key not in self._cells:
                    raise KeyError(f"no variable {key!r}")
                self._cells[key].reset()

    def __repr__(self) -> str:
        return f"<state of {', '.join(self) or 'nothing'}>"


class RunContext(NamedTuple):
    """What the kernels of effects reach while a program runs."""

    state: State | None = None
    observe: Callable[[str, Any], object] | None = None
    """Called with the label and the value of every probe."""
    callbacks: Mapping[str, Callable[..., Any]] = {}
    """Python functions that host_callback may call, by name."""
    host: Host | None = None
    """Where other names of callbacks are looked up; None for the host in use."""

    def callback(self, name: str) -> Callable[..., Any]:
        """The function of a name: told to the executable, or known to the host."""
        found = self.callbacks.get(name)
        if found is not None:
            return found
        host = self.host or host_in_use()
        if host.has("callbacks", name):
            registered: Callable[..., Any] = host.get("callbacks", name)
            return registered
        known = ", ".join([*self.callbacks, *host.names("callbacks")]) or "none"
        raise UsageError(
            f"there is no callback {name!r}",
            expected=f"one of those told: {known}",
            hint="compile with callbacks={name: function}, or "
            "host.register_callback(name, function)",
        )


_NOTHING = RunContext()
_current: ContextVar[RunContext] = ContextVar("amanda_std_around", default=_NOTHING)


def current_run() -> RunContext:
    return _current.get()


class run_context:  # noqa: N801 - read as a verb
    """Kernels of effects that run in here find these surroundings."""

    __slots__ = ("_held", "_token")

    def __init__(self, held: RunContext) -> None:
        self._held = held

    def __enter__(self) -> None:
        self._token = _current.set(self._held)

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)
