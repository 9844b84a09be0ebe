"""Cache of traced calls: the same op on values of the same types is added quickly.

The stored attributes and result types are known from the first such call. Types
compare by identity, which is stable since a cached call holds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from amanda.errors import AmandaError
from amanda.graph import CONSTANT, Op, OutputPort, Parameter
from amanda.types import DType, TensorType, Type
from amanda_std.engine.values import Tracing, Value, value_type
from amanda_std.inference.type_inference import introduces_symbols

if TYPE_CHECKING:
    from amanda_std.engine.operation import Operation

__all__ = ["CallCache", "call_key"]

_MAX_CALLS = 1024
_PORTS = (OutputPort, Parameter)
_HASHABLE = frozenset((str, bool, int, DType, type(None)))
_COUNTED = frozenset(("int", "uint", "bool"))
Ports: TypeAlias = "list[OutputPort | None]"


class _Call(NamedTuple):
    """The parts of an op that do not depend on its values."""

    inputs: int
    """How many arguments are inputs, None included."""
    attrs: dict[str, Any] | None
    types: tuple[Type, ...]
    held: tuple[Any, ...]
    """The types of the arguments, whose identities are in the key."""


class CallCache:
    """Traced calls of one operation, by their key."""

    __slots__ = ("_calls", "_operation")

    def __init__(self, operation: Operation) -> None:
        self._operation = operation
        self._calls: dict[Any, _Call] = {}

    def add(
        self, key: Any, ports: Ports, into: Tracing, name: str | None
    ) -> tuple[OutputPort, ...]:
        """Add the op of a cached call; returns its outputs.

        Nothing if the call is not cached or the op cannot be added: the graph is then
        unchanged, and an uncached call raises the error."""
        call = self._calls.get(key)
        if call is None:
            return ()
        count, attrs, types, _ = call
        inputs = ports if len(ports) == count else ports[:count]
        try:
            op = into.graph.add(
                self._operation.name, inputs, attrs, name=name, outputs=len(types)
            )
        except AmandaError:
            return ()
        outputs = into.note(op).outputs
        for port, found in zip(outputs, types, strict=True):
            port.type = found
        return outputs

    def learn(self, key: Any, ports: Ports, made: Sequence[Op]) -> None:
        """Cache a call by the op that it added, if it added exactly one."""
        operation = self._operation
        if operation.effect is not None or operation.body_rule is not None:
            return
        if len(made) != 1 or made[0].type != operation.name:
            return
        [op] = made
        count = len(op.inputs)
        types = tuple([port.type for port in op.outputs])
        if tuple(ports[:count]) != op.inputs or any(ports[count:]):
            return
        if not types or any(found.__class__ is not TensorType for found in types):
            return
        read = [port for port in ports if port is not None]
        if introduces_symbols(types, [value_type(port) for port in read]):  # type: ignore[arg-type]
            return
        if len(self._calls) >= _MAX_CALLS:
            self._calls.clear()
        attrs = dict(op.attrs) if op.has_attrs else None
        held = tuple([port.type for port in read])
        self._calls[key] = _Call(count, attrs, types, held)  # type: ignore[arg-type]


def call_key(
    args: Sequence[Any], attrs: Mapping[str, Any], ports: Ports, way: Any = None
) -> Any:
    """The cache key of a call; appends its values to `ports`.

    None if types do not determine the op: arrays or numbers beside tensors, values
    that are no tensors. `way` separates callers that interpret arguments
    differently."""
    parts: list[Any] = [way]
    for a in args:
        kind = a.__class__
        port = a.port if kind is Value else a if kind in _PORTS else None
        if port is not None:
            found = port.type
            if found.__class__ is not TensorType:
                return None
            if port.op.type == CONSTANT and found.dtype.kind in _COUNTED:
                parts.append(value_type(port))  # with the content
            elif found.value is not None or found.axes is not None:
                parts.append(found)
            else:
                parts.append(id(found))
        elif a is None:
            parts.append(None)
        elif (part := _exact_key(a)) is not None:
            parts.append(part)
        else:
            return None
        ports.append(port)
    for name, value in attrs.items():
        kind = value.__class__
        part = (kind, value) if kind in _HASHABLE else _exact_key(value)
        if part is None:
            return None
        parts += (name, part)
    return tuple(parts) if any(ports) else None


def _exact_key(value: Any) -> Any:
    """A hashable form of an attribute in which 1, 1.0 and True differ.

    None for other objects, and for floats that are zero or NaN."""
    kind = value.__class__
    if kind in _HASHABLE:
        return kind, value
    if kind is tuple or kind is list:
        for item in value:
            if item.__class__ is not int:
                return _exact_list_key(value)
        return tuple(value)
    if kind is float and value and value == value:
        return kind, value
    return None


def _exact_list_key(value: Sequence[Any]) -> Any:
    parts = [_exact_key(item) for item in value]
    return None if None in parts else (tuple, *parts)
