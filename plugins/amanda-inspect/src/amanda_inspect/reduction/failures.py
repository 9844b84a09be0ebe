"""How a model fails: a difference, an error, a crash, a time limit.

Two failures are the same if their kinds are, and their texts without names and numbers,
which change while a model is reduced.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from amanda.comparison import Difference
from amanda.errors import AmandaError, PluginBrokenError
from amanda.graph import Graph

__all__ = ["Failure", "Kind", "Test", "failure_of_difference", "failure_of_error"]

Kind = Literal["difference", "error", "crash", "time limit", "test"]


@dataclass(frozen=True)
class Failure:
    """How a model fails."""

    kind: Kind
    what: str
    """What has to stay the same, without names and numbers."""
    text: str = ""
    """The failure as people read it."""
    parts: frozenset[str] = frozenset()
    """Of an error with several problems, each of them like `what`."""
    result: str | int | None = None
    """The result that differs."""

    def is_like(self, other: Failure) -> bool:
        """Whether this is the other failure, or a part of it."""
        if (self.kind, self.what) != (other.kind, other.what):
            return False
        return self.parts <= other.parts and bool(self.parts) == bool(other.parts)

    def __str__(self) -> str:
        return f"{self.kind}: {self.text or self.what}"


Test = Callable[[Graph, Mapping[str, Any]], Failure | None]
"""Whether and how a model fails with these feeds; None where it does not."""

_QUOTED: Final = re.compile(r"'[^']*'|\"[^\"]*\"")
_LIST: Final = re.compile(r"\[[^\[\]]*\]|\([^()]*\)")
_NUMBER: Final = re.compile(r"#?-?\b\d[\d.,]*(?:e[-+]?\d+)?\b")
_SHOWN: Final = 400
"""Characters of a message that are kept."""


def without_names(text: str) -> str:
    """A message without quoted names, numbers and lists.

    >>> without_names("Conv 'stem': axis 3 of [1, 3, n] is not in 'x'")
    'Conv _: axis _ of _ is not in _'
    """
    text = _QUOTED.sub("_", text)
    while (shorter := _LIST.sub("_", text)) != text:
        text = shorter
    return _NUMBER.sub("_", text)[:_SHOWN]


def failure_of_error(error: BaseException) -> Failure:
    """An exception as a failure: its class, its message and the op that it names."""
    kind = type(error).__name__
    if not isinstance(error, AmandaError):
        return Failure("error", f"{kind}: {without_names(str(error))}", str(error))
    found = [kind, without_names(error.message)]
    if isinstance(error, PluginBrokenError):  # any exception of a plug-in
        found.append(without_names(error.got or ""))
    labels = [_op_type(place or "") for place in (error.who, error.where)]
    found += filter(None, labels)
    parts = frozenset(without_names(each) for each in error.problems)
    return Failure("error", ": ".join(found), str(error), parts)


def _op_type(place: str) -> str:
    """The type of the op that a label such as `Conv 'stem'` or `Conv #3` has.

    >>> _op_type("Conv 'stem'"), _op_type("stem")
    ('Conv', '')
    """
    match = re.match(r"([\w.:]+) (?:'|#\d|\(unnamed\))", place)
    return match[1] if match else ""


def failure_of_difference(result: str | int, found: Difference) -> Failure:
    """A difference of a result: of type, of finite values, or of values."""
    import numpy as np

    what = "values"
    if found.why:
        what = "type"
    elif _is_number(found.wanted) and np.isfinite(found.wanted):
        what = "values" if np.isfinite(found.got) else "not finite"
    return Failure("difference", what, f"{result}: {found}", result=result)


def _is_number(value: Any) -> bool:
    return getattr(getattr(value, "dtype", None), "kind", "") in "fc"
