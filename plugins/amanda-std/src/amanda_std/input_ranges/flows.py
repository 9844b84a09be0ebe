"""Where elements of inputs go: through ops that move, cast, shift or scale them.

A value is followed while each of its elements is `scale * x + offset` for an element x
of an input. Comparisons are followed too, as 0 and 1 for an x that is 0 or 1, which is
how masks are recognized.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Final, NamedTuple

from amanda.graph import Graph, Op, OutputPort
from amanda.types import DType, TensorType
from amanda_std.engine.traits import Trait
from amanda_std.engine.values import constant_of
from amanda_std.hub.op_access import has_trait, is_std
from amanda_std.input_ranges.readers import Interval

__all__ = ["Flows", "Origin"]

_MAX_READ: Final = 1 << 12
"""Elements of a constant whose extremes are looked up."""


class Origin(NamedTuple):
    """How an element of a value depends on one of an input: `scale * x + offset`."""

    input: OutputPort
    scale: float = 1.0
    low: float = 0.0
    """The offset, at least and at most."""
    high: float = 0.0
    is_binary: bool = False
    """Whether this holds only for an x that is 0 or 1."""
    is_difference: bool = False
    """Whether an earlier element of the same input is subtracted."""

    def plus(self, by: Interval) -> Origin:
        if by.low is None or by.high is None:
            return self  # as if the other summand were 0
        return self._replace(low=self.low + by.low, high=self.high + by.high)

    def times(self, by: float) -> Origin | None:
        if not by or not isfinite(by):
            return None
        low, high = sorted((self.low * by, self.high * by))
        return Origin(self.input, self.scale * by, low, high, self.is_binary)

    def solve(self, accepted: Interval) -> Interval:
        """The x for which the value is in an interval, whatever the offset is."""
        low = None if accepted.low is None else (accepted.low - self.low) / self.scale
        high = (
            None if accepted.high is None else (accepted.high - self.high) / self.scale
        )
        return Interval(low, high) if self.scale > 0 else Interval(high, low)

    def of_test(self, test: Callable[[float], bool]) -> Origin | None:
        """The result of a test of the value, where it tells an x of 0 from one of 1."""
        zero, one = test(self.low), test(self.scale + self.high)
        if zero == one:
            return None
        return Origin(self.input, one - zero, zero, zero, is_binary=True)


Origins = tuple[Origin, ...]
_UNKNOWN: Final = Interval(None, None)
_COMPARISONS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "equal": eq, "not_equal": ne, "greater": gt, "greater_equal": ge,
    "less": lt, "less_equal": le,
}  # fmt: skip
_SWAPPED: Final = {
    "greater": "less", "less": "greater",
    "greater_equal": "less_equal", "less_equal": "greater_equal",
}  # fmt: skip
_JOINED: Final = frozenset({"concat", "stack", "logical_and", "logical_or",
                            "minimum", "maximum"})  # fmt: skip
_FIRST: Final = frozenset({"split", "pad", "clip", "tril", "triu"})
"""Ops whose results have elements of the first argument, and constants."""


class Flows:
    """The origins of all values of a graph and its bodies, in one walk."""

    def __init__(self, graph: Graph) -> None:
        self._origins: dict[OutputPort, Origins] = {
            port: (Origin(port, is_binary=_is_bool(port)),) for port in graph.parameters
        }
        self._intervals: dict[OutputPort, Interval] = {}
        self.ops: list[Op] = []
        """All ops, those of bodies after the op that has them."""
        waiting = [graph]
        while waiting:
            for op in waiting.pop():
                self.ops.append(op)
                for body in _bodies(op):
                    self._enter(op, body)
                    waiting.append(body)
                if is_std(op):
                    self._follow(op)

    def origins(self, port: OutputPort | None) -> Origins:
        return () if port is None else self._origins.get(port, ())

    def interval(self, port: OutputPort | None) -> Interval:
        """Between which numbers the elements of a value are, if that is known."""
        if port is None:
            return _UNKNOWN
        if port not in self._intervals:
            self._intervals[port] = _interval_of(port)
        return self._intervals[port]

    def _enter(self, op: Op, body: Graph) -> None:
        """The parameters of a body are the last inputs of its op, as far as known."""
        pairs = zip(reversed(op.inputs), reversed(body.parameters), strict=False)
        for source, parameter in pairs:
            if found := self.origins(source):
                self._origins[parameter] = found

    def _follow(self, op: Op) -> None:
        found = [origin for origin in self._result(op) if origin is not None]
        if found:
            origins = tuple(_nearest(found))
            self._origins.update(dict.fromkeys(op.outputs, origins))

    def _result(self, op: Op) -> Sequence[Origin | None]:
        kind, inputs = op.type or "", op.inputs
        if kind == "astype":
            return self._cast(op)
        if has_trait(op, Trait.MOVES_ELEMENTS) or kind in _FIRST:
            return self.origins(inputs[0])
        if kind in _JOINED:
            return [origin for port in inputs for origin in self.origins(port)]
        if kind == "where":
            return [*self.origins(inputs[1]), *self.origins(inputs[2])]
        if kind == "logical_not":
            return [each.of_test(lambda v: not v) for each in self.origins(inputs[0])]
        if kind == "negative":
            return [each.times(-1) for each in self.origins(inputs[0])]
        if len(inputs) == 2:
            return self._of_two(kind, inputs[0], inputs[1])
        return ()

    def _cast(self, op: Op) -> Sequence[Origin | None]:
        found = self.origins(op.inputs[0])
        if DType.of(op.attrs["dtype"]).kind == "bool":
            return [each.of_test(bool) for each in found]
        return found

    def _of_two(
        self, kind: str, a: OutputPort | None, b: OutputPort | None
    ) -> Sequence[Origin | None]:
        """The result of arithmetic, where one of the arguments is followed."""
        left, right = self.origins(a), self.origins(b)
        by_left, by_right = self.interval(a), self.interval(b)
        if kind == "add":
            return [*(each.plus(by_right) for each in left),
                    *(each.plus(by_left) for each in right)]  # fmt: skip
        if kind == "subtract":
            if shared := {each.input for each in left} & {e.input for e in right}:
                return [Origin(port, is_difference=True) for port in shared]
            minus = Interval(_negative(by_right.high), _negative(by_right.low))
            turned = [each.times(-1) for each in right]
            return [*(each.plus(minus) for each in left),
                    *(each.plus(by_left) for each in turned if each)]  # fmt: skip
        if kind == "multiply":
            return [
                *_multiply_origins(left, by_right),
                *_multiply_origins(right, by_left),
            ]
        if kind in ("divide", "floor_divide"):
            by = _single(by_right)
            return [each.times(1 / by) for each in left] if by else ()
        return self._comparison(kind, left, right, by_left, by_right)

    def _comparison(
        self, kind: str, left: Origins, right: Origins, a: Interval, b: Interval
    ) -> Sequence[Origin | None]:
        if kind not in _COMPARISONS:
            return ()
        swapped = _COMPARISONS[_SWAPPED.get(kind, kind)]
        return [
            *_test_origins(left, _COMPARISONS[kind], b),
            *_test_origins(right, swapped, a),
        ]


def _bodies(op: Op) -> list[Graph]:
    if isinstance(op, Graph):
        return [op]
    return list(op.bodies.values()) if op.bodies else []


def _negative(number: float | None) -> float | None:
    return None if number is None else -number


def _single(found: Interval) -> float | None:
    return found.low if found.low == found.high else None


def _multiply_origins(origins: Origins, by: Interval) -> list[Origin | None]:
    """Products with a number; a mask times other values is still a mask."""
    factor = _single(by)
    if factor is None:
        return [each for each in origins if each.is_binary]
    return [each.times(factor) for each in origins]


def _test_origins(
    origins: Origins, test: Callable[[float, float], bool], by: Interval
) -> list[Origin | None]:
    number = _single(by)
    if number is None:
        return []
    return [each.of_test(lambda v: test(v, number)) for each in origins]


def _nearest(origins: Sequence[Origin]) -> list[Origin]:
    """One origin for each input: the one that changes elements least.

    `where(x < 0, x + n, x)` is x for all indices that do not count from the end."""
    best: dict[OutputPort, Origin] = {}
    for each in origins:
        known = best.get(each.input)
        if known is None or _change(each) < _change(known):
            best[each.input] = each
    return list(best.values())


def _change(origin: Origin) -> float:
    return abs(origin.scale - 1) + abs(origin.low) + abs(origin.high)


def _interval_of(port: OutputPort) -> Interval:
    """The extremes of a constant, and of values whose op has a known range."""
    tensor = constant_of(port)
    if tensor is not None:
        return _extremes(tensor)
    return Interval(0, 1) if _is_bool(port) else _UNKNOWN


def _is_bool(port: OutputPort) -> bool:
    return isinstance(port.type, TensorType) and port.type.dtype.kind == "bool"


def _extremes(tensor: Any) -> Interval:
    if not 0 < tensor.size <= _MAX_READ or tensor.dtype.kind not in (
        "int", "uint", "float", "bool",
    ):  # fmt: skip
        return _UNKNOWN
    array = tensor.numpy()
    low, high = float(array.min()), float(array.max())
    return _UNKNOWN if low != low else Interval(low, high)
