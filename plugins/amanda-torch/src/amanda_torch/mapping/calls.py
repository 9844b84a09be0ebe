"""Calls of ATen ops as calls of Python functions.

A table names functions by overload. They are called with the arguments of the op as its
schema has them: tensors and numbers by position, the rest by keyword:

    READ = torch_functions({"add.Tensor add.Scalar": read_add, "relu": ops.relu})

Names without an overload are those of the overload `default`. Layouts, devices and the
like, which values do not depend on, are left out.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, Final, NamedTuple

from amanda.graph import Op, is_note
from amanda.mapping import Decline
from amanda_torch.mapping.type_promotion import SymbolicNumber

__all__ = ["bind_arguments", "torch_functions"]

_WITHOUT_EFFECT: Final = frozenset(
    {"layout", "device", "pin_memory", "memory_format", "non_blocking", "generator",
     "cudnn_enabled", "cudnn_enable", "implicit", "is_coalesced", "use_input_stats_"}
)  # fmt: skip
"""Arguments that values do not depend on."""


class _Parameters(NamedTuple):
    """What a mapping function takes."""

    positional: int | None
    """The most arguments by position; None for any number."""
    keywords: frozenset[str]
    takes_context: bool
    required: tuple[str, ...]
    """The arguments by position that have no default."""


def torch_functions(
    table: Mapping[str, Callable[..., Any]], domain: str = "aten"
) -> dict[str, Callable[..., Any]]:
    """A `READ` table of functions by the names of overloads, several in one key.

    `domain` is empty where names are complete.
    """
    return {
        _full_name(name, domain): _as_rule(function)
        for names, function in table.items()
        for name in names.split()
    }


def _full_name(name: str, domain: str) -> str:
    if not domain:
        return name
    return f"{domain}.{name if '.' in name else f'{name}.default'}"


def _as_rule(function: Callable[..., Any]) -> Callable[..., Any]:
    parameters = _read_parameters(function)

    def read(*values: Any, context: Any, **attributes: Any) -> Any:
        op = context.source
        bodies = {key: attributes[key] for key in op.bodies}
        positional, named = bind_arguments(op, values, bodies)
        _fit(parameters, positional, named)
        if parameters.takes_context:
            named["context"] = context
        return function(*positional, **named)

    read.__name__ = getattr(function, "__name__", "read")
    read.__doc__ = function.__doc__
    read.__signature__ = _rule_signature(read, function)  # type: ignore[attr-defined]
    return read


def _rule_signature(
    read: Callable[..., Any], function: Callable[..., Any]
) -> inspect.Signature:
    """The parameters of a rule, with the keywords of a function.

    They are covered even if the definition of the op is open and does not have them.
    """
    own = inspect.signature(read)
    known = list(own.parameters.values())
    more = [
        p for p in inspect.signature(function).parameters.values()
        if p.kind is p.KEYWORD_ONLY and p.name not in own.parameters
    ]  # fmt: skip
    return own.replace(parameters=[*known[:-1], *more, known[-1]])


def _read_parameters(function: Callable[..., Any]) -> _Parameters:
    found = inspect.signature(function).parameters.values()
    by_place = [
        p for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    takes_rest = any(p.kind is p.VAR_POSITIONAL for p in found)
    names = {
        p.name for p in found if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)
    }
    return _Parameters(
        None if takes_rest else len(by_place),
        frozenset(names),
        "context" in names,
        tuple(p.name for p in by_place if p.default is p.empty and p.name != "context"),
    )


def _fit(parameters: _Parameters, positional: list[Any], named: dict[str, Any]) -> None:
    """Leave out arguments without effect; Decline others that are not supported."""
    for name in [n for n in named if n not in parameters.keywords]:
        value = named.pop(name)
        if value is not None and name not in _WITHOUT_EFFECT:
            raise Decline(f"{name}={value} is not supported")
    most = parameters.positional
    while most is not None and len(positional) > most:
        value = positional.pop()
        if value is not None and value is not False:
            raise Decline(f"the argument {value} is not supported")
    for name in parameters.required[len(positional) :]:
        if name not in named:
            raise Decline(f"the op has no argument {name}")


class _Schema(NamedTuple):
    """The arguments of an overload, as its definition has them."""

    places: tuple[str, ...]
    """The names of arguments by position."""
    ports: tuple[tuple[str, bool], ...]
    """The names of inputs, and whether they are lists of values."""
    numbers: frozenset[str]
    """Arguments where a number promotes element types."""
    defaults: Mapping[str, Any]
    """What arguments are that are omitted before others."""


@cache
def _schema(definition: Any) -> _Schema:
    numbers = {a.name for a in definition.attrs if a.kind.startswith("number")}
    return _Schema(
        tuple(a.name for a in definition.arguments()),
        tuple((p.name, p.repeats) for p in definition.inputs),
        frozenset(numbers | {p.name for p in definition.inputs}),
        {a.name: a.default for a in definition.attrs if not a.required},
    )


def bind_arguments(
    op: Op, values: Sequence[Any], bodies: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of an op by position and by keyword.

    `values` are those of its inputs. Symbolic items of lists are values among numbers.
    """
    schema = _schema(op.definition)
    named = {key: value for key, value in op.attrs.items() if not is_note(key)}
    named |= bodies
    _bind_inputs(op, schema, values, named)
    for name in _WITHOUT_EFFECT & named.keys():
        if name != "layout" or named[name] in (None, "Strided", 7):
            named[name] = None
    last = max((i for i, n in enumerate(schema.places) if n in named), default=-1)
    places = schema.places[: last + 1]
    positional = [named.pop(name, schema.defaults.get(name)) for name in places]
    return positional, named


def _bind_inputs(
    op: Op, schema: _Schema, values: Sequence[Any], named: dict[str, Any]
) -> None:
    """Add the inputs of an op by the names of arguments."""
    names = [port.name for port in op.input_ports]
    plain = [i for i, name in enumerate(names) if name is None]
    fixed = sum(not repeats for _, repeats in schema.ports)
    lists = [name for name, repeats in schema.ports if repeats]
    at = iter(plain)
    for name, repeats in schema.ports:
        if not repeats:
            i = next(at, None)
            if i is not None and op.inputs[i] is not None:
                named[name] = values[i]
        elif name in op.attrs:
            named[name] = list(op.attrs[name])
        elif len(lists) == 1:
            count = max(len(plain) - fixed, 0)
            named[name] = [_value(op, values, next(at)) for _ in range(count)]
        else:
            named[name] = []
    for i, label in enumerate(names):
        if label is not None:
            _bind_name(op, label, _value(op, values, i), schema, named)


def _value(op: Op, values: Sequence[Any], i: int) -> Any:
    return None if op.inputs[i] is None else values[i]


def _bind_name(
    op: Op, name: str, value: Any, schema: _Schema, named: dict[str, Any]
) -> None:
    """Bind an input that has a name: `size.0`, `hx.1`, `end`, `args.0.1`."""
    key, _, index = name.partition(".")
    if not index:
        named[key] = SymbolicNumber(value) if key in schema.numbers else value
    elif key not in op.attrs and any(key == port for port, _ in schema.ports):
        named[key].append(value)
    else:
        _put(named, name.split("."), value)


def _put(items: Any, path: Sequence[str], value: Any) -> None:
    """Put a value into lists of lists, which are copied on the way."""
    for key, _ in pairwise(path):
        place: Any = int(key) if isinstance(items, list) else key
        held = items[place]
        items[place] = dict(held) if isinstance(held, Mapping) else list(held)
        items = items[place]
    items[int(path[-1]) if isinstance(items, list) else path[-1]] = value
