"""Selectors: which ops the callbacks of a tool are called for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from fnmatch import translate
from typing import TYPE_CHECKING, Any, Final, TypeVar

from amanda.graph import NamedOp

if TYPE_CHECKING:
    from amanda.graph import Op
    from amanda.instrument._sources import Sources

__all__ = ["CALLBACK_MARK", "Selector", "on_gradient", "on_op"]

_Method = TypeVar("_Method", bound=Callable[..., Any])

CALLBACK_MARK: Final = "_amanda_instrument_callbacks"
"""The attribute of a method of a tool with the selectors that it was declared with."""


class Selector:
    """Conditions on ops; all that are given must hold.

    - `type`: a name, a shell pattern such as `conv*`, an op definition, or several
    - `name`: a shell pattern or a compiled regular expression, for the name of the op
      or of an op of the model that it comes from
    - `scope`: the same, for the path of the module in which it was written
    - `dtype`: that of the first output: a name such as `float32`, or a kind: `float`
    - `source_type`: as `type`, for the ops of the model that it comes from
    - `where`: a predicate of the op
    """

    def __init__(
        self,
        type: str | NamedOp | Iterable[str | NamedOp] | None = None,
        *,
        name: str | re.Pattern[str] | None = None,
        scope: str | re.Pattern[str] | None = None,
        dtype: str | Iterable[str] | None = None,
        source_type: str | NamedOp | Iterable[str | NamedOp] | None = None,
        where: Callable[[Op], bool] | None = None,
    ) -> None:
        self._types = None if type is None else _any_of(type)
        self._name = _pattern(name)
        self._scope = _pattern(scope)
        self._dtypes = (
            None
            if dtype is None
            else frozenset([dtype] if isinstance(dtype, str) else dtype)
        )
        self._source_types = None if source_type is None else _any_of(source_type)
        self._where = where

    def matches(self, op: Op, sources: Sources) -> bool:
        """Whether an op satisfies the conditions."""
        if self._types is not None and not self._types.fullmatch(op.type or ""):
            return False
        if self._dtypes is not None and self._dtypes.isdisjoint(_dtype_names(op)):
            return False
        if self._scope is not None and not self._scope.fullmatch(sources.scope_of(op)):
            return False
        if self._name is not None or self._source_types is not None:
            found = sources.of(op)
            names = [op.name or "", *(source.name for source in found)]
            if self._name is not None and not any(map(self._name.fullmatch, names)):
                return False
            if self._source_types is not None and not any(
                self._source_types.fullmatch(source.type) for source in found
            ):
                return False
        return self._where is None or bool(self._where(op))


def _any_of(types: str | NamedOp | Iterable[str | NamedOp]) -> re.Pattern[str]:
    given = [types] if isinstance(types, str | NamedOp) else types
    names = (each if isinstance(each, str) else each.name for each in given)
    return re.compile("|".join(translate(name) for name in names))


def _pattern(text: str | re.Pattern[str] | None) -> re.Pattern[str] | None:
    return re.compile(translate(text)) if isinstance(text, str) else text


def _dtype_names(op: Op) -> tuple[str, ...]:
    """The name and the kind of the dtype of an op's first output."""
    dtype = getattr(op.outputs[0].type, "dtype", None) if op.outputs else None
    return () if dtype is None else (str(dtype), str(getattr(dtype, "kind", "")))


def on_op(*args: Any, **conditions: Any) -> Callable[[_Method], _Method]:
    """Call the decorated method of a tool for each op that a `Selector` matches.

    The method gets a `Site`."""
    return _declare(Selector(*args, **conditions), of_gradients=False)


def on_gradient(*args: Any, **conditions: Any) -> Callable[[_Method], _Method]:
    """Call the decorated method of a tool for the gradients of the outputs of ops.

    The method gets a `GradientSite`, once for each output that has a gradient."""
    return _declare(Selector(*args, **conditions), of_gradients=True)


def _declare(selector: Selector, *, of_gradients: bool) -> Callable[[_Method], _Method]:
    def mark(method: _Method) -> _Method:
        marks = getattr(method, CALLBACK_MARK, ())
        setattr(method, CALLBACK_MARK, (*marks, (selector, of_gradients)))
        return method

    return mark
