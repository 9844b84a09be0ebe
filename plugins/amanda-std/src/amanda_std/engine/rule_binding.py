"""Rules of an op (shape, content, gradient), called with the arguments that they name.

    tanh.gradient(lambda g, y: [g * (1.0 - y * y)])
    matmul.gradient(lambda g, a, b: ...)

A rule's `*xs` is the op's variadic parameter if it has that name, else all
arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from amanda_std.engine.annotations import OpForm


class NoGradient:
    """Returned by a gradient rule for an argument that has no gradient; the reason."""

    __slots__ = ("why",)

    def __init__(self, why: str) -> None:
        self.why = why


class HasForm(Protocol):
    """An op, whose form is read when it is first needed."""

    @property
    def form(self) -> OpForm: ...


class Binding(NamedTuple):
    """Where the parameters of a rule come from."""

    positional: list[tuple[str, int]]
    """Names and places among the op's parameters; -1: what the caller adds."""
    named: list[str]
    """The op's attributes."""
    rest: int
    """The place of the op's variadic parameter, or -1."""
    all: int | None
    """The place from which on `*xs` gets the arguments; None without `*xs`."""


class BoundRule:
    """A function, and where each of its parameters comes from, found at the first
    call."""

    def __init__(
        self, function: Callable[..., Any], op: HasForm, extra: Sequence[str] = ()
    ) -> None:
        self.function = function
        self._op = op
        self._extra = tuple(extra)

    @cached_property
    def binding(self) -> Binding:
        """Where the parameters come from; TypeError for a name that the op lacks."""
        form = self._op.form
        places = {p.name: i for i, p in enumerate(form.params)}
        last = form.params[-1:]
        variadic = last[0].name if last and last[0].variadic else None
        rest = len(form.params) - 1 if variadic else -1
        positional: list[tuple[str, int]] = []
        named: list[str] = []
        all_from: int | None = None
        for p in inspect.signature(self.function).parameters.values():
            if p.kind is p.VAR_POSITIONAL:
                all_from = rest if p.name == variadic else 0
            elif p.name in form.attributes:
                named.append(p.name)
            elif p.name in places or p.name in self._extra:
                positional.append((p.name, places.get(p.name, -1)))
            elif p.default is p.empty and p.kind is not p.VAR_KEYWORD:
                function = self.function
                raise TypeError(f"{function} names {p.name!r}, which the op has not")
        return Binding(positional, named, rest, all_from)

    def __call__(
        self, args: Sequence[Any], attrs: Mapping[str, Any], **extra: Any
    ) -> Any:
        """Call the rule with an op's arguments, attributes and the `extra` that it
        names."""
        positional, named, rest, all_from = self.binding
        given = [
            extra[name] if at < 0 else args[at:] if at == rest else args[at]
            for name, at in positional
        ]
        if all_from is not None:
            given += args[all_from:]
        return self.function(*given, **{key: attrs[key] for key in named})
