"""Ops of PyTorch in graphs of the hub, which the backend calls as they are.

A gradient of a layer is one op of PyTorch, and a formula of many ops in the hub. Where
PyTorch is the backend as well, such ops are kept: they have this namespace, which no
mapping has rules for."""

from __future__ import annotations

from typing import Any, Final

import torch

import amanda
from amanda.dictionary import CallLayout
from amanda.graph import Op, OutputPort
from amanda.types import DType
from amanda_torch.backend.arrays import torch_dtype

__all__ = [
    "EagerCall",
    "draws_random_numbers",
    "is_eager",
    "is_gradient_op",
    "is_kept",
    "keep_eager",
]

_PREFIX: Final = "amanda/torch-eager/"
_TORCH: Final = "amanda/torch/"
_OVERLOAD: Final = type(torch.ops.aten.add.Tensor)


def is_eager(op: Op) -> bool:
    """Whether PyTorch is called for an op of a graph of the hub."""
    return (op.own_namespace or "").startswith(_PREFIX)


def keep_eager(op: Op) -> None:
    """Make an op in a graph of PyTorch one that conversions keep."""
    op.namespace = _PREFIX + (op.namespace or "").removeprefix(_TORCH)


def draws_random_numbers(target: Any, dropout: Any = None) -> bool:
    """Whether an op with this `dropout_p` draws from a generator of PyTorch."""
    return dropout != 0 and torch.Tag.nondeterministic_seeded in getattr(
        target, "tags", ()
    )


def is_kept(op: Op) -> bool:
    """Whether an op in a graph of PyTorch is a gradient op that draws no numbers.

    Passes make equal ops one, which must not draw."""
    if not (op.type or "").startswith("aten."):
        return False
    overload = find_overload(op.type or "")
    dropout = op.attrs.get("dropout_p", 0) if _has_dropout(overload) else None
    return is_gradient_op(overload) and not draws_random_numbers(overload, dropout)


def _has_dropout(overload: Any) -> bool:
    return any(each.name == "dropout_p" for each in overload._schema.arguments)


def is_gradient_op(target: Any) -> bool:
    """Whether an op is the gradient of a layer, or returns more for its gradient."""
    if not isinstance(target, _OVERLOAD) or target.namespace != "aten":
        return False
    schema = target._schema
    name = schema.name.partition("::")[2]
    saves = len(schema.returns) > 1 and hasattr(torch.ops.aten, f"{name}_backward")
    is_plain = all(str(each.type) == "Tensor" for each in schema.returns)
    return is_plain and (saves or "_backward" in name)


class EagerCall:
    """An op of PyTorch as a function of the values that it reads."""

    def __init__(self, op: Op) -> None:
        self.overload = find_overload(op.type or "")
        self.values: list[OutputPort] = []
        """The values that it is called with, in order."""
        self.numbers: list[bool] = []
        """Whether each of these is a number, and no tensor."""
        self._named: dict[str, int] = {}
        """Arguments that are values, by their places."""
        self._built: dict[str, Any] = {}
        """Arguments that are lists with values."""
        self._fixed: dict[str, Any] = {}
        given = _layout_of(op).arguments(op)
        for argument in self.overload._schema.arguments:
            if argument.name in given:
                self._add(argument, given[argument.name])
            elif not argument.has_default_value():
                self._fixed[argument.name] = None

    def _add(self, argument: Any, value: Any) -> None:
        count = len(self.values)
        template = self._template(value, "Tensor" not in str(argument.type))
        if isinstance(value, OutputPort):
            self._named[argument.name] = count
        elif len(self.values) > count:
            self._built[argument.name] = template
        else:
            self._fixed[argument.name] = template

    def _template(self, value: Any, is_number: bool) -> Any:
        if isinstance(value, OutputPort):
            self.values.append(value)
            self.numbers.append(is_number)
            return _Place(len(self.values) - 1)
        if isinstance(value, list | tuple):
            return [self._template(each, is_number) for each in value]
        return torch_dtype(value) if isinstance(value, DType) else value

    def __call__(self, *values: Any) -> Any:
        named = {name: values[i] for name, i in self._named.items()}
        for name, template in self._built.items():
            named[name] = _fill(template, values)
        return self.overload(**self._fixed, **named)


class _Place(int):
    """The place of a value in the arguments of a call."""


def _fill(template: Any, values: Any) -> Any:
    if isinstance(template, list):
        return [_fill(each, values) for each in template]
    return values[template] if isinstance(template, _Place) else template


def find_overload(type: str) -> Any:
    """The overload of an op type: that of `aten.add.Tensor`."""
    found: Any = torch.ops
    for name in type.split("."):
        found = getattr(found, name)
    return found


def _layout_of(op: Op) -> CallLayout:
    version = (op.own_namespace or "").removeprefix(_PREFIX)
    dictionary: Any = amanda.namespace(_TORCH + version, assume=True)
    return CallLayout(dictionary.get(op.type))
