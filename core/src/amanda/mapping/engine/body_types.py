"""The types of the parameters of bodies, which the ops that hold them decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from amanda.graph import Graph, Op, OutputPort
from amanda.types import TensorType, Type

__all__ = ["BodyTypes"]


class BodyTypes:
    """Parameter types, as a side defines them.

    A loop's variable has the type of its initial value at first. Where the results of
    the mapped body do not fit, the body is mapped again with wider types.
    """

    def __init__(self, side: Any, made: Mapping[OutputPort, OutputPort]) -> None:
        self._types_of = getattr(side, "parameter_types", None)
        self._wider_types_of = getattr(side, "wider_parameter_types", None)
        self._made = made
        self._wider: dict[Op, Sequence[Type | None]] = {}

    def add(self, source: Graph, target: Graph) -> None:
        """Add types to parameters of a body without them."""
        op = source.holder
        if self._types_of is None or op is None:
            return
        types = self._wider.get(op) or self._types_of(op, self._input_types(op))
        for parameter, type in zip(target.parameters, types, strict=False):
            known = parameter.type
            if known is None or (
                isinstance(known, TensorType) and known.dtype.kind == "unknown"
            ):
                parameter.type = type

    def find_wider(self, op: Op, mapped: Mapping[Graph, Graph]) -> bool:
        """Whether an op's bodies need wider types than they were mapped with."""
        bodies = op.bodies if self._wider_types_of is not None else {}
        if not bodies or not all(body in mapped for body in bodies.values()):
            return False
        found = {name: mapped[body] for name, body in bodies.items()}
        assert self._wider_types_of is not None
        types = self._wider_types_of(op, self._input_types(op), found)
        if types is not None:
            self._wider[op] = types
        return types is not None

    def _input_types(self, op: Op) -> list[Type | None]:
        return [v if v is None else self._made.get(v, v).type for v in op.inputs]
