"""Proof that padding inputs along some axes does not change the results.

A value is *padded* along an axis if its first elements are the value itself, and those
after them do not matter. Padding is propagated op by op: most ops pass it on, since
each element of their results depends on elements at its own position only. Where an op
would mix it into valid elements, as a sum over a padded axis does, or would compute
with a padded size, padding is refused with the name of the op."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from amanda.errors import AmandaError, Undecided
from amanda.graph import Graph, Op, OutputPort
from amanda.types import Dim, Sym, TensorType, dims_equal
from amanda_std.backends import (
    SHAPE_ARG,
    Trait,
    inputs_and_captures,
    is_std,
    op_arguments,
    operation_of,
)

__all__ = [
    "UNPADDED",
    "PaddedOp",
    "Axes",
    "PaddingError",
    "PaddedState",
    "Padding",
    "PaddingRule",
    "PaddingRules",
    "with_axes",
    "expect_unpadded",
    "expect_unpadded_axes",
    "join_names",
]

MAX_TRIED_SIZES: Final = 4096
"""Sizes that are tried one by one where symbols cannot decide that dims are equal."""


class PaddedState(NamedTuple):
    """How padding affects a value."""

    axes: Mapping[int, str]
    """The axes that are padded, with the name of the dim that was padded."""
    sizes: frozenset[str] = frozenset()
    """Padded sizes that its elements depend on."""

    def __bool__(self) -> bool:
        return bool(self.axes or self.sizes)


UNPADDED: Final = PaddedState({})
"""The same as without padding."""


class PaddingError(AmandaError):
    """An op would mix padding into valid elements; the message says how."""


class Padding:
    """The states of the values of a graph, and the problems that were found."""

    def __init__(self, largest: Mapping[str, int | None], rules: PaddingRules) -> None:
        self.largest = largest
        """The largest size that each dim is padded to, where there is one."""
        self.rules = rules
        self.states: dict[OutputPort, PaddedState | None] = {}
        """None: a result of an op with a problem, or of an op after one."""
        self.problems: list[str] = []

    def add_input(self, port: OutputPort) -> None:
        """Record an input: padded wherever its size depends on a padded one."""
        own = port.type
        axes: dict[int, str] = {}
        if isinstance(own, TensorType) and own.shape.has_rank:
            for axis, dim in enumerate(own.shape):
                axes.update((axis, name) for name in self.padded_names(dim))
        self.states[port] = PaddedState(axes)
        try:
            self.expect_consistent(port, PaddedState(axes))
        except PaddingError as error:
            self.problems.append(f"input {port.index} {error.message}")

    def padded_names(self, dim: Dim) -> set[str]:
        """The padded sizes that a dim depends on."""
        free = dim.free if isinstance(dim, Sym) else ()
        return {s.name for s in free if s.name is not None and s.name in self.largest}

    def state(self, value: Any) -> PaddedState:
        return self.states.get(value) or UNPADDED

    def is_monotonic(self, dim: Dim, name: str) -> bool:
        """Whether a dim never decreases for a larger size, which padding requires."""
        if isinstance(dim, Sym) and dim.name == name:
            return True
        largest = self.largest[name]
        try:
            return bool(_substitute(dim, name, Sym.named(name) + 1) >= dim)
        except Undecided:
            if largest is None or largest > MAX_TRIED_SIZES:
                return False
        try:
            sizes = [_substitute(dim, name, n) for n in range(largest + 1)]
            return all(a <= b for a, b in pairwise(sizes))
        except Undecided:
            return False

    def are_equal(self, a: Dim, b: Dim) -> bool:
        """Whether two dims are equal for every size that is padded, or padded to."""
        if dims_equal(a, b):
            return True
        names = self.padded_names(a) | self.padded_names(b)
        largest = self.largest[next(iter(names))] if len(names) == 1 else None
        if largest is None or largest > MAX_TRIED_SIZES:
            return False
        [name] = names
        return all(
            dims_equal(_substitute(a, name, n), _substitute(b, name, n))
            for n in range(1, largest + 1)
        )

    def propagate(self, graph: Graph) -> None:
        for op in graph:
            inputs = [self.states.get(v, UNPADDED) for v in inputs_and_captures(op)]
            results: Sequence[PaddedState | None]
            if op.is_constant or not any(s is None or s for s in inputs):
                continue
            if any(s is None for s in inputs):
                results = [None] * len(op.outputs)
            else:
                results = self._propagate_op(op)
            self.states.update(zip(op.outputs, results, strict=True))

    def _propagate_op(self, op: Op) -> Sequence[PaddedState | None]:
        try:
            if not is_std(op):
                raise PaddingError("its treatment of padding is not known")
            results = self._apply_rule(op)
            for port, state in zip(op.outputs, results, strict=True):
                self.expect_consistent(port, state)
            if PaddedOp(op, self).padded_sizes(lambda role: role == SHAPE_ARG):
                self._expect_known_sizes(op)
            return results
        except (PaddingError, Undecided) as error:
            self.problems.append(f"{_describe_op(op)} {error.message}")
            return [None] * len(op.outputs)

    def _apply_rule(self, op: Op) -> Sequence[PaddedState]:
        node = PaddedOp(op, self)
        traits = operation_of(op).traits
        has_axes = any(self.state(v).axes for v in inputs_and_captures(op))
        if Trait.SHAPE_QUERY in traits or not has_axes:
            states = [self._content_state(port, op) for port in op.outputs]
            if all(state is not None for state in states):
                return [state for state in states if state is not None]
        is_sized = Trait.SIZED_BY_ARGUMENT in traits
        sizes = node.padded_sizes(lambda role: role != SHAPE_ARG or not is_sized)
        if sizes:
            raise PaddingError(f"computes with the size of {join_names(sizes)}")
        rule = self.rules.get(op.type or "")
        if rule is None and Trait.POINTWISE in traits:
            rule = self.rules.get("pointwise")
        if rule is None:
            raise PaddingError("is not known to keep padding apart")
        return rule(node)

    def _content_state(self, port: OutputPort, op: Op) -> PaddedState | None:
        """The state of a result whose content is known by its type; None if it is not.

        A symbol that is first seen here may be any size, a padded one too."""
        own = port.type
        if not isinstance(own, TensorType) or own.elements is None:
            return None
        if not _free_symbols(own.elements) <= _known_symbols(op):
            return None
        names = {n for dim in own.elements for n in self.padded_names(dim)}
        return PaddedState({}, frozenset(names))

    def expect_consistent(self, port: OutputPort, state: PaddedState) -> None:
        """Check that sizes and padding agree: an axis is padded where its size is, and
        only there.

        Both follow from the rules independently, so that a mistake in one of them is
        found."""
        own = port.type
        if not isinstance(own, TensorType) or not own.shape.has_rank:
            if state.axes:
                raise PaddingError("returns a value of unknown shape")
            return
        for axis, dim in enumerate(own.shape):
            named = {state.axes[axis]} if axis in state.axes else set()
            if self.padded_names(dim) != named:
                names = join_names(named | self.padded_names(dim))
                raise PaddingError(
                    f"has sizes that depend on {names} and are not tracked"
                )
            for name in named:
                if not self.is_monotonic(dim, name):
                    raise PaddingError(
                        f"has a size that is not padded: {dim} may be less for a "
                        f"larger {name!r}"
                    )

    def _expect_known_sizes(self, op: Op) -> None:
        """Check that padded sizes decide no size that types do not express."""
        for port in op.outputs:
            own = port.type
            ranked = isinstance(own, TensorType) and own.shape.has_rank
            dims = own.shape.dims if isinstance(own, TensorType) and ranked else ()
            if not ranked or not _free_symbols(dims) <= _known_symbols(op):
                raise PaddingError("has a size that is known only at run time")


class PaddedOp:
    """One op, with the padding of its arguments."""

    def __init__(self, op: Op, padding: Padding) -> None:
        self.op = op
        self.padding = padding
        self.args, self.attrs = op_arguments(op, lambda port: port)
        self.params = operation_of(op).form.params_of(len(self.args))

    def padded_sizes(self, counts: Callable[[str], bool]) -> set[str]:
        """The padded sizes that arguments of some roles depend on."""
        rows = zip(self.params, self.args, strict=True)
        inputs = [arg for param, arg in rows if counts(param.role)]
        return {name for arg in inputs for name in self.padding.state(arg).sizes}

    def padded_axes(self, arg: Any) -> Mapping[int, str]:
        return self.padding.state(arg).axes

    def dims(self, arg: Any) -> Sequence[Dim]:
        own = getattr(arg, "type", None)
        if isinstance(own, TensorType) and own.shape.has_rank:
            return own.shape.dims
        own = getattr(arg, "shape", None)
        if own is None and not isinstance(arg, OutputPort):
            return ()
        if own is None:
            raise PaddingError("reads a value of unknown shape")
        return tuple(own)

    def static_integers(self, arg: Any) -> Any:
        """A shape argument as integers; PaddingError where it is not static."""
        if not isinstance(arg, OutputPort):
            return arg
        own = arg.type
        value = own.value if isinstance(own, TensorType) else None
        contents = own.elements if isinstance(own, TensorType) else None
        if contents is None or any(isinstance(dim, Sym) for dim in contents):
            raise PaddingError("has axes that are known only at run time")
        return value

    def axis_numbers(self, axes: Any, rank: int) -> list[int]:
        """Axes counted from the front; all of them for None."""
        inputs = self.static_integers(axes)
        if inputs is None:
            return list(range(rank))
        many = inputs if isinstance(inputs, tuple | list) else (inputs,)
        return [int(axis) % rank if rank else 0 for axis in many]


def _free_symbols(dims: Iterable[Dim]) -> set[Sym]:
    return {symbol for dim in dims if isinstance(dim, Sym) for symbol in dim.free}


def _known_symbols(op: Op) -> set[Sym]:
    """The symbols in the types of what an op reads."""
    symbols: set[Sym] = set()
    for value in inputs_and_captures(op):
        own = value.type
        if isinstance(own, TensorType):
            symbols |= _free_symbols(own.shape.dims if own.shape.has_rank else ())
            symbols |= _free_symbols(own.elements or ())
    return symbols


def _substitute(dim: Dim, name: str, size: Dim) -> Dim:
    return dim.substitute({name: size}) if isinstance(dim, Sym) else dim


def join_names(names: Iterable[str]) -> str:
    return " and ".join(repr(name) for name in sorted(names))


def _describe_op(op: Op) -> str:
    """An op by its name, with the ops of the model that it comes from."""
    known = op.provenance.sources if op.provenance else ()
    sources = [name for name in known if name not in (op.name, op.type)]
    return f"{op.label} (of {', '.join(sources)})" if sources else op.label


Axes = dict[int, str]
PaddingRule = Callable[[PaddedOp], Sequence[PaddedState]]
PaddingRules = Mapping[str, PaddingRule]
"""By type of op; `pointwise` is for all pointwise ops without a rule of their own."""


# -- what rules share ------------------------------------------------------------------


def with_axes(node: PaddedOp, axes: Mapping[int, str]) -> list[PaddedState]:
    """Every result is padded along these axes."""
    return [PaddedState(dict(axes)) for _ in node.op.outputs]


def expect_unpadded_axes(
    node: PaddedOp, arg: Any, axis_numbers: Sequence[int], does: str
) -> None:
    """Check that none of these axes is padded."""
    for axis in axis_numbers:
        if axis in node.padded_axes(arg):
            raise PaddingError(f"{does} the axis of {node.padded_axes(arg)[axis]!r}")


def expect_unpadded(node: PaddedOp, *args: Any) -> None:
    for arg in args:
        if node.padded_axes(arg):
            names = ", ".join(map(repr, node.padded_axes(arg).values()))
            raise PaddingError(
                f"reads all elements of a value that is padded along {names}"
            )
