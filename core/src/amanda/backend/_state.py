"""State of an executable: variables that it keeps between calls.

An executable has a `State` of its own unless one is passed as `state=` when it is
compiled. Executables compiled with one state share their variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from threading import RLock
from typing import Any

from amanda.errors import BackendError, InvalidTypeError, UsageError
from amanda.types import DType, TensorType, Type, accepts, parse_type

__all__ = ["Cell", "State"]


class Cell:
    """The storage of one variable. Its array is replaced, never written to."""

    __slots__ = ("_value", "initial", "key", "type")

    def __init__(self, key: str, initial: Any = None) -> None:
        self.key = key
        self.initial = initial
        self.type: Type | None = None
        """The type that a graph declares for it, if any does."""
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
        """Set the value; the dtype must not change."""
        kept = _read_only(value)
        before = self.initial if self._value is None else self._value
        if before is not None and before.dtype != kept.dtype:
            raise InvalidTypeError(
                f"the variable {self.key!r} has another element type",
                expected=before.dtype,
                got=kept.dtype,
            )
        self._value = kept
        return kept

    def expect_fit(self, value: Any) -> None:
        """Raise InvalidTypeError for an array that is not of the declared type.

        Without one, its shape must be that of the value."""
        got = _type_of(value)
        if self.type is not None:
            held = self.type
        elif self.has_value:
            held = _type_of(self.read())
        else:
            return
        if isinstance(held, TensorType) and accepts(held, got) is False:
            raise InvalidTypeError(
                f"the variable {self.key!r} has another type",
                expected=held,
                got=got,
                hint=None if self.type is not None else _DECLARE,
            )

    def reset(self) -> None:
        """Restore the initial value."""
        self._value = None


_DECLARE = "if its shape may change, declare that where it is created: type=..."


def _type_of(value: Any) -> TensorType:
    import numpy as np

    array = np.asarray(value)
    return TensorType(DType.of(array), array.shape)


def _read_only(value: Any) -> Any:
    """A read-only copy; the array itself if nobody can write to it."""
    import numpy as np

    array = np.asarray(value)
    if array.flags.writeable or array.base is not None:
        array = array.copy()
        array.flags.writeable = False
    return array


class State(Mapping[str, Any]):
    """The variables of an executable, by key; reading returns copies.

    >>> import numpy as np
    >>> state = State()
    >>> state["w"] = np.float32([1, 2])
    >>> state["w"] += 1.0
    >>> state["w"].tolist(), list(state)
    ([2.0, 3.0], ['w'])
    """

    def __init__(self) -> None:
        self.lock = RLock()
        """Held while a program with state runs, so that calls are serialized."""
        self._cells: dict[str, Cell] = {}

    @classmethod
    def expect(cls, given: object) -> None:
        """Raise BackendError for a value of the option `state` that is no state."""
        if given is not None and not isinstance(given, cls):
            raise BackendError(
                "option 'state' is that of an executable, or a new one",
                expected="amanda.backend.State",
                got=type(given).__name__,
            )

    def cell(
        self, key: str, initial: Any = None, type_: Type | str | None = None
    ) -> Cell:
        """The cell of a variable, created on first use."""
        cell = self._cells.get(key)
        if cell is None:
            cell = self._cells[key] = Cell(key)
        if cell.initial is None and initial is not None:
            cell.initial = _read_only(initial)
        if cell.type is None and type_ is not None:
            cell.type = parse_type(type_) if isinstance(type_, str) else type_
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
            cell = self.cell(key)
            cell.expect_fit(value)
            cell.assign(value)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._cells))

    def __len__(self) -> int:
        return len(self._cells)

    def reset(self, *keys: str) -> None:
        """Restore the initial values of some variables, or of all."""
        with self.lock:
            for key in keys or self:
                if key not in self._cells:
                    raise UsageError(
                        "the state has no such variable",
                        expected=" or ".join(self._cells) or "no key",
                        got=repr(key),
                    )
                self._cells[key].reset()

    def __repr__(self) -> str:
        return f"<state of {', '.join(self) or 'nothing'}>"
