"""Samples of rules: graphs that a rule matches, generated from the rule alone.

Variables in lenses get values that the lenses draw in tests; others the default in the
dictionary, or a small value. Inputs are float tensors of several ranks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any, NamedTuple

from amanda.errors import AmandaError, Undecided
from amanda.graph import Graph, OutputPort
from amanda.mapping.engine.compiled_rule import InactiveRule
from amanda.mapping.engine.matcher import require_signature
from amanda.mapping.engine.program import RuleProgram
from amanda.mapping.lenses.lens import Lens
from amanda.mapping.rule_mapping import RuleMapping
from amanda.mapping.rules.terms import (
    ANYTHING,
    ConstantTerm,
    Equation,
    LensTerm,
    ListOf,
    OpTerm,
    TermPart,
    Var,
    subterms,
    variables,
)
from amanda.mapping.side import REQUIRED, Decline, Side
from amanda.types import TensorType

__all__ = ["RuleSample", "generate_sample"]

_TYPES = tuple(
    (dtype, rank) for rank in (2, 4, 3, 1, 0, 5) for dtype in ("float32", "int64")
)


class RuleSample(NamedTuple):
    """A graph for a rule, its conversion and the way back; or why there is none."""

    graph: Graph | None = None
    made: Graph | None = None
    back: Graph | None = None
    why: str = ""


def generate_sample(
    mapping: RuleMapping, row: Equation, source: str, target: str, *, forward: bool
) -> RuleSample:
    """A graph that a rule maps, from `source` to `target`.

    One that comes back, if there is one: others may have types that the ops refuse.
    """
    program = mapping.program(source, target)
    here, there = row.sides(forward)
    try:
        require_signature(program.source, here)
        require_signature(program.target, there)
    except InactiveRule as inactive:
        return RuleSample(why=str(inactive))
    why = "no sample was found that it supports"
    lost: RuleSample | None = None
    for graph in _candidate_graphs(program, row, source, forward=forward):
        try:
            done = mapping.conversion(graph, target)
        except Exception as error:  # noqa: BLE001 - values that make no sense to the op
            why = f"{type(error).__name__}: {error}"
            continue
        if row.id not in done.report.rules:
            gaps = [given for gap in done.report.gaps for given in gap.why]
            why = next((given for given in gaps if given.startswith(row.id)), why)
            continue
        back = None
        if row.arrow == "<=>":
            again = mapping.conversion(done.graph, source)
            if again.report.gaps:
                gap = str(again.report.gaps[0])
                lost = lost or RuleSample(graph, done.graph, None, gap)
                continue
            back = again.graph
        return RuleSample(graph, done.graph, back)
    return lost or RuleSample(why=why)


def _candidate_graphs(
    program: RuleProgram, row: Equation, source: str, *, forward: bool
) -> Iterator[Graph]:
    lenses = program.rules.lenses
    for seed, (dtype, rank) in enumerate(_TYPES):
        values = _draw_through_lens(row, lenses, Random(seed), rank)
        graph = Graph(source, name="sample")
        type = TensorType(dtype, tuple(range(2, 2 + rank)))
        maker = _SampleBuilder(graph, program.source, lenses, values, type)
        try:
            outputs = maker.op(row.sides(forward)[0])
        except AmandaError:  # no op has these values; others may do
            continue
        for port in outputs:
            graph.result(port)
        yield graph


def _draw_through_lens(
    row: Equation, lenses: Mapping[str, Lens], random: Random, rank: int
) -> dict[str, Any]:
    """Values of variables in lenses."""
    values: dict[str, Any] = {}
    for term in (row.left, row.right):
        for part in subterms(term):
            if isinstance(part, LensTerm) and isinstance(part.inner, Var):
                listed = _listed_values(part, lenses[part.lens])
                if listed:
                    values.setdefault(part.inner.name, random.choice(listed))
                    continue
                drawn = lenses[part.lens].draw(random)
                context = drawn[1:]
                if context and isinstance(context[0], int) and context[0] != rank:
                    drawn = next(
                        (
                            tried
                            for tried in (
                                lenses[part.lens].draw(random) for _ in range(40)
                            )
                            if tried[1:2] == (rank,)
                        ),
                        drawn,
                    )
                value = drawn[0]
                if type(value) is int and not -rank <= value < rank:
                    value %= max(rank, 1)  # most often it is an axis
                values.setdefault(part.inner.name, value)
    return values


def _listed_values(term: LensTerm, lens: Lens) -> list[Any]:
    """Values from a list that a rule gives to a lens, such as that of `index_in`."""
    first = term.context[0] if term.context else None
    items = first.value if isinstance(first, ConstantTerm) else None
    if not isinstance(items, list | tuple):
        return []
    listed = [i[0] if isinstance(i, list | tuple) and i else i for i in items]
    return [value for value in listed if _accepts(lens, value, items)]


def _accepts(lens: Lens, value: Any, context: Any) -> bool:
    try:
        lens.forth(value, [context])
    except AmandaError:
        return False
    return True


class _SampleBuilder:
    """Builds the ops of a term."""

    def __init__(
        self,
        graph: Graph,
        side: Side,
        lenses: Mapping[str, Lens],
        values: dict[str, Any],
        type: TensorType,
    ) -> None:
        self.graph = graph
        self.side = side
        self.lenses = lenses
        self.values = values
        self.type = type
        self.ports: dict[str, OutputPort] = {}

    def op(self, term: OpTerm) -> tuple[OutputPort, ...]:
        signature = require_signature(self.side, term)
        args: list[Any] = []
        for arg in term.args:
            if isinstance(arg, Var) and arg.rest:
                args += [self.port(f"{arg.name}{i}") for i in range(2)]
            else:
                args.append(self.input(arg))
        attrs: dict[str, Any] = {}
        bodies: dict[str, Graph] = {}
        for key, part in term.attrs.items():
            if key in signature.inputs:
                at = signature.inputs.index(key)
                args += [None] * (at + 1 - len(args))
                args[at] = self.input(part)
                continue
            value = self.attr(part, signature.attrs.get(key))
            if value is not None and value is not REQUIRED:
                attrs[key] = value
        outputs = 1 if signature.outputs is None else signature.outputs
        made = self.side.build(
            self.graph, term.type, args, attrs, outputs=outputs, bodies=bodies or None
        )
        for other in term.waits:
            self.op(other)
        return tuple(made)

    def input(self, part: TermPart) -> Any:
        match part:
            case OpTerm():
                return self.op(part)[part.output]
            case Var(name=name):
                return None if name == ANYTHING else self.port(name)
            case ConstantTerm(value=value):
                return value
        raise Undecided(f"{part} is no value of a graph")

    def port(self, name: str) -> Any:
        if name in self.values:
            return self.values[name]
        if name not in self.ports:
            self.ports[name] = self.graph.parameter(self.type, name=name)
        return self.ports[name]

    def attr(self, part: TermPart, default: Any) -> Any:
        match part:
            case ConstantTerm(value=value):
                return value
            case Var(name=name):
                if name in self.values:
                    return self.values[name]
                if default is REQUIRED:
                    return 1  # fits most: a size, an axis, a flag
                return None if name == ANYTHING else default
            case LensTerm(lens=lens, inner=inner, context=context):
                if list(variables(inner)) and not context:
                    return self.lenses[lens].forth(self.attr(inner, None))
                if isinstance(inner, Var) and inner.name in self.values:
                    given = [self.type.shape.rank for _ in context[:1]]
                    return self.lenses[lens].forth(self.values[inner.name], given)
            case ListOf(items=items):
                return [self.attr(item, 1) for item in items]
        raise Decline(f"{part} is not drawn")
