"""The attributes of ops as a dictionary has them, from annotations."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import signature
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args, get_origin

from amanda.dictionary import Attr
from amanda_std.engine.annotations import REQUIRED

if TYPE_CHECKING:
    from amanda_std.engine.operation import Operation

__all__ = ["attributes_of"]

_KINDS = {bool: "bool", int: "int", float: "double", str: "string"}


def attributes_of(operation: Operation) -> Iterator[Attr]:
    """The attributes, with kinds from the function's annotations."""
    parameters = signature(operation.function, eval_str=True).parameters
    for name, default in operation.form.attributes.items():
        required = default is REQUIRED
        if name == "dtype":
            yield Attr(name, "dtype", required)
            continue
        kind = _attr_kind(parameters[name].annotation)
        default = None if required else default
        if isinstance(default, tuple):
            default = list(default)
        yield Attr(name, kind, required, None if kind == "any" else default)


def _attr_kind(annotation: Any) -> str:
    """The dictionary kind of an annotation; `any` for a union.

    >>> _attr_kind(tuple[float | None, ...]), _attr_kind(int | None)
    ('double?[]', 'int?')
    """
    if annotation in _KINDS:
        return _KINDS[annotation]
    parts = get_args(annotation)
    if get_origin(annotation) is tuple:
        kind = _attr_kind(parts[0])
        if parts[1:] == (Ellipsis,):
            return f"{kind}[]"
        return f"{kind}[{len(parts)}]" if len(set(parts)) == 1 else "any"
    if len(parts) == 2 and parts[1] is NoneType:
        return f"{_attr_kind(parts[0]).removesuffix('?')}?"
    return "any?" if annotation is Any or NoneType in parts else "any"
