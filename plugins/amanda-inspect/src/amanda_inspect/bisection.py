"""The first op at which two runs differ.

Errors are separated: the error that an op makes is that of its results when it reads
the values of the reference; what it inherits is the rest.

>>> import amanda, numpy as np
>>> from amanda_std import ops
>>> def network(epsilon):
...     graph = amanda.Graph("amanda/std/1")
...     x = graph.parameter("float32[4, 8]", "x")
...     y = ops.layer_norm(ops.tanh(x), epsilon=epsilon)
...     graph.result(ops.exp(y), "y")
...     return graph
>>> x = np.random.default_rng(0).normal(size=(4, 8)).astype("float32")
>>> found = bisect(network(1e-5), network(0.1), {"x": x}, backend="numpy")
>>> found.first.op.type
'layer_norm'
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from amanda.comparison import Difference, compare_values
from amanda.errors import UsageError
from amanda.graph import VALUE_NOTE, Graph, Op, OutputPort
from amanda_inspect.bodies import body_calls
from amanda_inspect.common import Unoptimized, common_namespace
from amanda_inspect.lockstep import Lockstep, OpValues, ReferenceRegion
from amanda_inspect.matching import Matching, match_graphs
from amanda_inspect.regions import find_first_error, find_removed_op
from amanda_inspect.reordering import find_transposition
from amanda_inspect.rounding import error_size, rounding_bound
from amanda_inspect.windows import Backend, Values, reads_of

__all__ = ["Bisection", "OpError", "bisect"]

MAX_MEMORY: Final = 2 << 30


@dataclass(frozen=True)
class OpError:
    """The error of an op, with those before it that have no counterparts."""

    op: Op
    counterpart: Op | None
    """The op of the reference; None where the ops around it correspond alone."""
    made: Difference
    """The difference when it reads the values of the reference; of an op that makes
    no error, `max_abs` is its only measure."""
    total: Difference
    """The difference when it reads the values of its own run."""
    size: float
    """The error made, relative to the largest element of the reference."""
    threshold: float
    unmatched: tuple[Op, ...] = ()
    """Ops without a counterpart between this op and the values that correspond."""
    missing: tuple[Op, ...] = ()
    """Ops of the reference without a counterpart that compute what this op does."""
    values: OpValues | None = None
    """What it read and gave, of the first op that makes an error."""
    reference: ReferenceRegion | None = None
    """The ops of the reference that compute what it does, of the first op that makes
    an error."""
    inside: tuple[str, ...] = ()
    """The ops, outermost first, in whose bodies it is."""
    port: OutputPort | None = None
    """The output that is most off, of an op that makes an error."""

    @property
    def is_made(self) -> bool:
        """Whether the error is more than rounding."""
        return self.size > self.threshold

    @property
    def sources(self) -> tuple[str, ...]:
        """The ops of the model that it was converted from."""
        provenance = self.op.provenance
        return () if provenance is None else tuple(provenance.sources)

    @property
    def rule(self) -> str | None:
        """The rule that made it."""
        return None if self.op.provenance is None else self.op.provenance.by

    def __str__(self) -> str:
        where = "".join(f" in {name}" for name in reversed(self.inside))
        text = f"{self.op.label}{where}: {self.made}"
        if self.sources:
            text += f"; made by {self.rule} from {', '.join(self.sources)}"
        return text


@dataclass
class Bisection:
    """What a bisection found, with `first`, the first op that makes an error."""

    errors: list[OpError] = field(default_factory=list)
    """Errors of all ops that correspond, in order."""
    results: dict[str | int, Difference] = field(default_factory=dict)
    """The differences of the results, by key of the reference."""
    unmatched: list[Op] = field(default_factory=list)
    """Ops that correspond to none of the reference."""
    unmatched_of_reference: list[Op] = field(default_factory=list)

    @property
    def first(self) -> OpError | None:
        """The first op that makes an error; None where there is none but rounding."""
        return next((each for each in self.errors if each.is_made), None)

    @property
    def equal(self) -> bool:
        """Whether all results are equal within the tolerance of their types."""
        return all(each.equal for each in self.results.values())


def bisect(
    a: Graph,
    b: Graph,
    feeds: Mapping[Any, Any] | Sequence[Any],
    *,
    backend: str | None = None,
    other_backend: str | None = None,
    options: Mapping[str, Any] | None = None,
    other_options: Mapping[str, Any] | None = None,
    max_memory: int = MAX_MEMORY,
) -> Bisection:
    """Find the first op of `b` that makes an error against the reference `a`.

    `a` runs on `backend`, `b` on `other_backend`, the same by default. Graphs of
    different namespaces, or with bodies or state, are converted to the hub, whose ops
    name their sources. `feeds` are those of `a`. Values are kept in
    windows of at most `max_memory` bytes in all.
    """
    sides = (
        Backend(backend, options or {}),
        Backend(
            other_backend or backend,
            (other_options if other_backend else other_options or options) or {},
        ),
    )
    both = common_namespace(a, b)
    by_port = _feeds_by_port(both.a, feeds)
    search = _Search(sides, max_memory, both.unoptimized)
    return search.bisect(match_graphs(both.a, both.b), by_port)


def _feeds_by_port(
    graph: Graph, feeds: Mapping[Any, Any] | Sequence[Any]
) -> dict[OutputPort, Any]:
    ports = {
        port.index if port.name is None else port.name: port
        for port in graph.parameters
    }
    if not isinstance(feeds, Mapping):
        feeds = (
            dict(zip(ports, feeds, strict=False)) if len(feeds) == len(ports) else {}
        )
    defaults = {
        key: port.attrs[VALUE_NOTE].numpy()
        for key, port in ports.items()
        if port.has_attrs and VALUE_NOTE in port.attrs
    }
    feeds = {**defaults, **feeds}
    if feeds.keys() != ports.keys():
        raise UsageError(
            "the feeds are not those of the inputs of the reference",
            expected=", ".join(map(str, ports)) or "none",
            got=", ".join(map(str, feeds)) or "none, or another number",
        )
    return {port: feeds[key] for key, port in ports.items()}


class _Search(NamedTuple):
    """How errors are searched for, in a graph or in a body."""

    sides: tuple[Backend, Backend]
    max_memory: int
    unoptimized: tuple[Unoptimized, Unoptimized] | None = None
    in_body: bool = False

    def bisect(
        self,
        matching: Matching,
        feeds: Mapping[OutputPort, Any],
        own: Values | None = None,
    ) -> Bisection:
        """The errors of all ops that correspond."""
        run = Lockstep(
            matching, feeds, self.sides, self.max_memory, own, in_body=self.in_body
        )
        found = Bisection(
            unmatched=matching.unmatched_ops(),
            unmatched_of_reference=matching.unmatched_reference_ops(),
        )
        for values in run:
            error = _op_error(values, matching)
            if error.is_made and run.rejoins(values.op, error.size):
                continue
            if error.is_made:
                if found.first is None:
                    region = run.reference_region(error.op)
                    error = replace(error, reference=region)
                located = self._locate(error, run)
                if located.made is error.made:  # no error in a body stands for it
                    located = _add_measures(located, values)
                error = located
                if found.first is not None:
                    error = replace(error, values=None, reference=None)
            found.errors.append(error)
            if error.is_made and self.in_body:  # the first of them is named
                break
        if not self.in_body:
            found.results = run.result_differences()
        return found

    def _locate(self, error: OpError, run: Lockstep) -> OpError:
        """An error at its op: in a body, or among ops that have no counterparts."""
        op, limit = error.op, self.max_memory // 4
        others = run.reference_segment(op)
        missing = tuple(each for each in others if run.matching.is_free(each))
        if op.bodies:
            inner = self._find_in_bodies(error, run)
            if inner is not None:
                return replace(inner, missing=(*missing, *inner.missing))
        found = None
        if self.unoptimized is not None:
            found = find_transposition(run, op, self.unoptimized, limit)
        if found is None and error.unmatched:
            found = find_first_error(run, op, limit)
        if found is None and self.unoptimized is not None:
            found = find_removed_op(run, op, self.unoptimized, limit)
        return replace(error, op=found or op, missing=missing)

    def _find_in_bodies(self, error: OpError, run: Lockstep) -> OpError | None:
        """The first error in a body, of the calls that both ops make.

        Iterations may add up what is less than rounding in each: then it is the
        largest error of all calls.
        """
        op, other = error.op, run.counterpart(error.op)
        if other is None or not other.bodies:
            return None
        mine, theirs = (
            {port: read(port) for port in reads_of(each) if not port.op.is_constant}
            for each, read in ((op, run.forced_value), (other, run.reference.value))
        )
        search, largest = self._replace(unoptimized=None, in_body=True), None
        for call in body_calls(op, other, mine, theirs, self.max_memory // 4):
            errors = search.bisect(call.matching, call.feeds, call.own)
            if errors.first is not None:
                return replace(errors.first, inside=(op.label, *errors.first.inside))
            for each in errors.errors:
                if each.size > (0.0 if largest is None else largest.size):
                    largest = each
        if largest is None:
            return None
        inside = (op.label, *largest.inside)
        return replace(
            error, op=largest.op, counterpart=largest.counterpart, inside=inside
        )


def _op_error(values: OpValues, matching: Matching) -> OpError:
    """The error of an op, without measures."""
    wanted = values.wanted
    differences = {
        port: _difference(made, wanted[port]) for port, made in values.made.items()
    }
    sizes = {
        port: error_size(values.made[port], wanted[port], difference)
        for port, difference in differences.items()
    }
    port = max(sizes, key=sizes.__getitem__)
    size, bound = sizes[port], rounding_bound(wanted[port])
    made = total = differences[port]
    if values.total[port] is not values.made[port]:
        total = _difference(values.total[port], wanted[port])
    op, counterpart = values.op, matching.ops.get(values.op)
    error = OpError(op, counterpart, made, total, size, bound, values.unmatched)
    return replace(error, values=values, port=port) if size > bound else error


def _add_measures(error: OpError, values: OpValues) -> OpError:
    """An error with the measures of the output that is most off."""
    port = error.port
    assert port is not None
    wanted = values.wanted[port]
    made = total = compare_values(values.made[port], wanted)
    if values.total[port] is not values.made[port]:
        total = compare_values(values.total[port], wanted)
    return replace(error, made=made, total=total)


def _difference(got: Any, wanted: Any) -> Difference:
    """The difference of two values; a value that is not computed twice has none."""
    if got is wanted and hasattr(wanted, "dtype"):
        return Difference(True, size=wanted.size, max_abs=0.0)
    return compare_values(got, wanted, measures=False)
