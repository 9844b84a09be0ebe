"""Rules of an op (shape, content, gradient), called with the arguments that they name.

    tanh.gradient(lambda g, y: [g * (1.0 - y * y)])
    matmul.gradient(lambda g, a, b: ...)

A rule's `*xs` is the op's variadic parameter if it has that name, else all
arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from amanda_std.engine.annotations import OpForm


class NoGradient:
    """Returned by a gradient rule for an argument that has no gradient; the reason."""

    __slots__ = ("why",)

    def __init__(self, why: str) -> None:
        self.why = why


class BoundRule:
    """A function, and where each of its parameters comes from."""

    __slots__ = ("_all", "_extra", "_named", "_positional", "_rest", "function")

    def __init__(
        self, function: Callable[..., Any], form: OpForm, extra: Sequence[str] = ()
    ) -> None:
        self.function = function
        self._extra = tuple(extra)
        places = {p.name: i for i, p in enumerate(form.params)}
        last = form.params[-1:]
        variadic = last[0].name if last and last[0].variadic else None
        self._rest = len(form.params) - 1 if variadic else -1
        self._positional: list[tuple[str, int]] = []
        self._named: list[str] = []
        self._all: int | None = None  # where what `*xs` gets begins
        for p in inspect.signature(function).parameters.values():
            if p.kind is p.VAR_POSITIONAL:
                self._all = self._rest if p.name == variadic else 0
            elif p.name in form.attributes:
                self._named.append(p.name)
            elif p.name in places or p.name in self._extra:
                self._positional.append((p.name, places.get(p.name, -1)))
            elif p.default is p.empty and p.kind is not p.VAR_KEYWORD:
                raise TypeError(f"{function} names {p.name!r}, which the op has not")

    def __call__(
        self, args: Sequence[Any], attrs: Mapping[str, Any], **extra: Any
    ) -> Any:
        """Call the rule with an op's arguments, attributes and the `extra` that it
        names."""
        given = [
            extra[name] if at < 0 else args[at:] if at == self._rest else args[at]
            for name, at in self._positional
        ]
        if self._all is not None:
            given += args[self._all :]
        return self.function(*given, **{key: attrs[key] for key in self._named})
