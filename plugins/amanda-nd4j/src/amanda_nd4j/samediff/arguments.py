"""The positional arguments of nodes as attributes, by the op descriptors.

A node has lists of integers, numbers, bools, element types and texts. The descriptor of
its op has a name for each position; the last name of a list stands for all that follow,
as several integers. A position without a name is `int64.10`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from amanda.errors import FormatError
from amanda.types import DType
from amanda_nd4j.namespace import VARIABLE, Descriptor, installed_descriptors
from amanda_nd4j.samediff.arrays import ELEMENT_TYPES
from amanda_nd4j.samediff.tables import FlatTable
from amanda_nd4j.undeclared import UNDECLARED

__all__ = ["ARGUMENTS", "Arguments"]

FIELDS: Final = {
    "INT64": "extraInteger", "DOUBLE": "extraParams", "BOOL": "extraBools",
    "DATA_TYPE": "extraTypes", "STRING": "extraStrings",
}  # fmt: skip
_LISTS: Final = {"INT64", "DOUBLE"}


@lru_cache(maxsize=2)
def _ops_in(files: str) -> Mapping[str, Descriptor]:
    """The descriptors by name; `files` is what names them."""
    del files
    return {op.name: op for op in installed_descriptors()}


class Arguments:
    """The names of the arguments of each op, of the descriptors that are installed."""

    @property
    def ops(self) -> Mapping[str, Descriptor]:
        return _ops_in(os.environ.get(VARIABLE, ""))

    def names(self, op: str, kind: str) -> dict[int, str]:
        """The names of the arguments of a kind, by position."""
        described = self.ops.get(op)
        found = {} if described is None else {
            each.place: each.called for each in described.of(kind)
        }  # fmt: skip
        for name, (other, place) in UNDECLARED.get(op, {}).items():
            if other == kind:
                found[place] = name
        return found

    def read(self, op: str, node: FlatTable) -> dict[str, Any]:
        """The attributes of a node."""
        attrs: dict[str, Any] = {}
        for kind, field in FIELDS.items():
            values = _values(kind, node.get(field, ()))
            names = self.names(op, kind)
            last = max(names, default=-1)
            if (
                kind in _LISTS
                and len(values) > last + 1
                and 0 <= last == len(names) - 1
            ):
                attrs[names[last]] = list(values[last:])
                values = values[:last]
            for place, value in enumerate(values):
                attrs[names.get(place, f"{kind.lower()}.{place}")] = value
        return attrs

    def write(self, op: str, attrs: Mapping[str, Any], label: str) -> FlatTable:
        """The lists of a node for its attributes."""
        left = dict(attrs)
        found = {
            field: self._list(op, kind, left, label) for kind, field in FIELDS.items()
        }
        if left:
            raise FormatError(
                "an op has attributes that nd4j does not know", who=label,
                got=", ".join(left), hint="amanda ops nd4j lists the arguments of ops",
            )  # fmt: skip
        return {field: values for field, values in found.items() if values}

    def _list(self, op: str, kind: str, left: dict[str, Any], label: str) -> Any:
        names = {name: place for place, name in self.names(op, kind).items()}
        prefix = f"{kind.lower()}."
        for name in left:
            if name.startswith(prefix) and name[len(prefix) :].isdigit():
                names.setdefault(name, int(name[len(prefix) :]))
        given = {names[name]: left.pop(name) for name in list(left) if name in names}
        values: list[Any] = []
        for place in range(max(given, default=-1) + 1):
            if place not in given:
                raise FormatError(
                    f"an argument of kind {kind} is missing before others", who=label,
                    expected=f"a value for {self.names(op, kind).get(place, place)}",
                )  # fmt: skip
            value = given[place]
            if isinstance(value, list | tuple):
                if place != max(given):
                    raise FormatError(
                        "a list of arguments is followed by others", who=label,
                        got=value,
                    )  # fmt: skip
                values += value
            else:
                values.append(value)
        return _encode(kind, values, label)


def _values(kind: str, values: Any) -> Sequence[Any]:
    if kind == "DATA_TYPE":
        return [ELEMENT_TYPES.dtype(code, 0) for code in bytes(values)]
    return list(values)


def _encode(kind: str, values: Sequence[Any], label: str) -> Any:
    try:
        if kind == "DATA_TYPE":
            return bytes(ELEMENT_TYPES.code(DType(str(value))) for value in values)
        convert = {"INT64": int, "DOUBLE": float, "BOOL": bool, "STRING": str}[kind]
        return [convert(value) for value in values]
    except (TypeError, ValueError) as error:
        raise FormatError(
            f"an argument is not of the kind {kind}", who=label, got=list(values)
        ) from error


ARGUMENTS: Final = Arguments()
