"""Whether inputs may be padded along some axes: what becomes of the padding.

A value is *padded* along an axis where its first elements are the value itself, and
what follows is of no account. Op by op it is followed what padding becomes: most ops
hand it on, since each place of their results depends on its own places only. Where an
op would let it into what counts, as a sum over a padded axis does, or would compute
with a size that is too large, padding is refused with the name of the op.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from amanda.errors import AmandaError, Undecided
from amanda.graph import Graph, Op, OutputPort
from amanda.types import Dim, Sym, TensorType, same
from amanda_std.backends import (
    SHAPE_ARG,
    inputs_and_captures,
    is_std,
    op_arguments,
    operation_of,
    shapes,
)

__all__ = [
    "UNPADDED",
    "At",
    "Axes",
    "MixesError",
    "Padded",
    "Padding",
    "Rule",
    "Rules",
    "alike",
    "expect_clean",
    "expect_whole",
    "join_names",
]

COUNTED: Final = 4096
"""Sizes that are tried one by one where symbols do not tell that dims are equal."""


SIZES: Final = ("shape_of", "dim", "size")
"""Ops that tell sizes, and nothing of what is padded."""

SIZING: Final = ("reshape", "broadcast_to", "full", "arange", "eye", "slice")
"""Ops whose host arguments may be padded sizes."""


class Padded(NamedTuple):
    """What padding makes of a value."""

    axes: Mapping[int, str]
    """The axes that it lies along, each with the name of the size that was padded."""
    sizes: frozenset[str] = frozenset()
    """Padded sizes that its numbers tell."""

    def __bool__(self) -> bool:
        return bool(self.axes or self.sizes)


UNPADDED: Final = Padded({})
"""The same as without padding."""


class MixesError(AmandaError):
    """An op that would let padding into what counts; the message says how."""


class Padding:
    """The states of the values of a graph, and what stands against padding."""

    def __init__(self, most: Mapping[str, int | None], rules: Rules) -> None:
        self.most = most
        """The largest size that each is padded to, where there is one."""
        self.rules = rules
        self.states: dict[OutputPort, Padded | None] = {}
        """None: what an op made that is among the problems, or of what one made."""
        self.problems: list[str] = []

    def feed(self, port: OutputPort) -> None:
        """An input: padded wherever its size is made of a padded one."""
        found = port.type
        axes: dict[int, str] = {}
        if isinstance(found, TensorType) and found.shape.has_rank:
            for axis, dim in enumerate(found.shape):
                axes.update((axis, name) for name in self.padded_in(dim))
        self.states[port] = Padded(axes)
        try:
            self.expect_told(port, Padded(axes))
        except MixesError as error:
            self.problems.append(f"input {port.index} {error.message}")

    def padded_in(self, dim: Dim) -> set[str]:
        """The padded sizes that a dim is made of."""
        free = dim.free if isinstance(dim, Sym) else ()
        return {s.name for s in free if s.name is not None and s.name in self.most}

    def state(self, value: Any) -> Padded:
        return self.states.get(value) or UNPADDED

    def grows(self, dim: Dim, name: str) -> bool:
        """Whether a dim is never less for a larger size, as what is padded must be."""
        if isinstance(dim, Sym) and dim.name == name:
            return True
        most = self.most[name]
        try:
            return bool(_with(dim, name, Sym.named(name) + 1) >= dim)
        except Undecided:
            if most is None or most > COUNTED:
                return False
        try:
            sizes = [_with(dim, name, n) for n in range(most + 1)]
            return all(a <= b for a, b in pairwise(sizes))
        except Undecided:
            return False

    def are_same(self, a: Dim, b: Dim) -> bool:
        """Whether two dims are equal for every size that is padded, or padded to."""
        if same(a, b):
            return True
        names = self.padded_in(a) | self.padded_in(b)
        most = self.most[next(iter(names))] if len(names) == 1 else None
        if most is None or most > COUNTED:
            return False
        [name] = names
        return all(
            same(_with(a, name, n), _with(b, name, n)) for n in range(1, most + 1)
        )

    def follow(self, graph: Graph) -> None:
        for op in graph:
            given = [self.states.get(v, UNPADDED) for v in inputs_and_captures(op)]
            made: Sequence[Padded | None]
            if op.is_constant or not any(s is None or s for s in given):
                continue
            if any(s is None for s in given):
                made = [None] * len(op.outputs)
            else:
                made = self._made(op)
            self.states.update(zip(op.outputs, made, strict=True))

    def _made(self, op: Op) -> Sequence[Padded | None]:
        try:
            if not is_std(op):
                raise MixesError("nobody has told what it makes of padding")
            made = self._ruled(op)
            for port, state in zip(op.outputs, made, strict=True):
                self.expect_told(port, state)
            if At(op, self).sizes(lambda role: role == SHAPE_ARG):
                self._expect_no_new(op)
            return made
        except (MixesError, Undecided) as error:
            self.problems.append(f"{_labelled(op)} {error.message}")
            return [None] * len(op.outputs)

    def _ruled(self, op: Op) -> Sequence[Padded]:
        at = At(op, self)
        name = op.type or ""
        has_axes = any(self.state(v).axes for v in inputs_and_captures(op))
        if name in SIZES or not has_axes:
            told = [self._content(port, op) for port in op.outputs]
            if all(state is not None for state in told):
                return [state for state in told if state is not None]
        tells = at.sizes(lambda role: role != SHAPE_ARG or name not in SIZING)
        if tells:
            raise MixesError(f"computes with the size of {join_names(tells)}")
        rule = self.rules.get(name) or self.rules.get(at.kind)
        if rule is None:
            raise MixesError("is not known to keep padding apart")
        return rule(at)

    def _content(self, port: OutputPort, op: Op) -> Padded | None:
        """What numbers are that the types tell, sizes among them; None: they do not.

        A number that is first met here may be anything, a padded size too."""
        found = port.type
        if not isinstance(found, TensorType) or found.elements is None:
            return None
        if not _free(found.elements) <= _met(op):
            return None
        names = {n for dim in found.elements for n in self.padded_in(dim)}
        return Padded({}, frozenset(names))

    def expect_told(self, port: OutputPort, state: Padded) -> None:
        """Sizes and padding agree: an axis is padded where its size is, and only there.

        That a rule says so of both is what makes a mistake in one of them seen."""
        found = port.type
        if not isinstance(found, TensorType) or not found.shape.has_rank:
            if state.axes:
                raise MixesError("gives a value of which no shape is known")
            return
        for axis, dim in enumerate(found.shape):
            named = {state.axes[axis]} if axis in state.axes else set()
            if self.padded_in(dim) != named:
                told = join_names(named | self.padded_in(dim))
                raise MixesError(f"has sizes made of {told} that are not followed")
            for name in named:
                if not self.grows(dim, name):
                    told = f"{dim} may be less for a larger {name!r}"
                    raise MixesError(f"has a size that is not padded: {told}")

    def _expect_no_new(self, op: Op) -> None:
        """Sizes that were padded decide no size of which the types tell nothing."""
        for port in op.outputs:
            found = port.type
            ranked = isinstance(found, TensorType) and found.shape.has_rank
            dims = found.shape.dims if isinstance(found, TensorType) and ranked else ()
            if not ranked or not _free(dims) <= _met(op):
                raise MixesError("has a size of which only a run tells what it is")


class At:
    """One op, and what is known of its arguments."""

    def __init__(self, op: Op, padding: Padding) -> None:
        self.op = op
        self.padding = padding
        self.args, self.attrs = op_arguments(op, lambda port: port)
        self.params = operation_of(op).form.each(len(self.args))

    @property
    def kind(self) -> str:
        """`elementwise`, where the shapes are told by what broadcasts or by one."""
        rule = getattr(operation_of(self.op).shape_rule, "function", None)
        return "elementwise" if rule in (shapes.elementwise, shapes.pointwise) else ""

    def sizes(self, counts: Callable[[str], bool]) -> set[str]:
        """The padded sizes that arguments of some roles tell."""
        rows = zip(self.params, self.args, strict=True)
        given = [arg for param, arg in rows if counts(param.role)]
        return {name for arg in given for name in self.padding.state(arg).sizes}

    def axes(self, arg: Any) -> Mapping[int, str]:
        return self.padding.state(arg).axes

    def dims(self, arg: Any) -> Sequence[Dim]:
        found = getattr(arg, "type", None)
        if isinstance(found, TensorType) and found.shape.has_rank:
            return found.shape.dims
        own = getattr(arg, "shape", None)
        if own is None and not isinstance(arg, OutputPort):
            return ()
        if own is None:
            raise MixesError("reads a value of which no shape is known")
        return tuple(own)

    def numbers(self, arg: Any) -> Any:
        """A host argument as integers: MixesError where a run, or a size, tells it."""
        if not isinstance(arg, OutputPort):
            return arg
        found = arg.type
        value = found.value if isinstance(found, TensorType) else None
        told = found.elements if isinstance(found, TensorType) else None
        if told is None or any(isinstance(dim, Sym) for dim in told):
            raise MixesError("goes along axes that only a run tells")
        return value

    def places(self, told: Any, rank: int) -> list[int]:
        """Axes as they are told, counted from the front; all of them for None."""
        found = self.numbers(told)
        if found is None:
            return list(range(rank))
        many = found if isinstance(found, tuple | list) else (found,)
        return [int(axis) % rank if rank else 0 for axis in many]


def _free(dims: Iterable[Dim]) -> set[Sym]:
    return {symbol for dim in dims if isinstance(dim, Sym) for symbol in dim.free}


def _met(op: Op) -> set[Sym]:
    """The symbols in what is known of what an op reads."""
    found: set[Sym] = set()
    for value in inputs_and_captures(op):
        own = value.type
        if isinstance(own, TensorType):
            found |= _free(own.shape.dims if own.shape.has_rank else ())
            found |= _free(own.elements or ())
    return found


def _with(dim: Dim, name: str, size: Dim) -> Dim:
    return dim.substitute({name: size}) if isinstance(dim, Sym) else dim


def join_names(names: Iterable[str]) -> str:
    return " and ".join(repr(name) for name in sorted(names))


def _labelled(op: Op) -> str:
    """An op by its name, and what it was made of where it was in the model."""
    known = op.provenance.sources if op.provenance else ()
    told = [name for name in known if name not in (op.name, op.type)]
    return f"{op.label} (of {', '.join(told)})" if told else op.label


Axes = dict[int, str]
Rule = Callable[[At], Sequence[Padded]]
Rules = Mapping[str, Rule]
"""By type of op; `elementwise` is for all that is, and has none of its own."""


# -- what rules share ------------------------------------------------------------------


def alike(at: At, axes: Mapping[int, str]) -> list[Padded]:
    """Every result is padded along these axes."""
    return [Padded(dict(axes)) for _ in at.op.outputs]


def expect_whole(at: At, arg: Any, places: Sequence[int], does: str) -> None:
    """None of these axes is padded."""
    for axis in places:
        if axis in at.axes(arg):
            raise MixesError(f"{does} the axis of {at.axes(arg)[axis]!r}")


def expect_clean(at: At, *args: Any) -> None:
    for arg in args:
        if at.axes(arg):
            names = ", ".join(map(repr, at.axes(arg).values()))
            raise MixesError(f"takes what is padded along {names} as a whole")
