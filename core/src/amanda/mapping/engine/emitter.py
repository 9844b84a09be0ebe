"""Compiles the side of an equation that is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from amanda.argument_checks import without_checks
from amanda.graph import Graph, Op, OutputPort, Parameter
from amanda.mapping.engine.compiled_rule import (
    AnswerQuestion,
    CompiledRule,
    EmitContext,
    Fetch,
    InactiveRule,
    Slots,
    compile_fetch,
    compile_guard,
    describe_value,
    plain_value,
)
from amanda.mapping.engine.matcher import MatcherCompiler, is_count, require_signature
from amanda.mapping.engine.neighbors import is_chain, required_neighbors
from amanda.mapping.lenses.lens import Lens, equivalent_values
from amanda.mapping.rules.terms import (
    ANYTHING,
    ConstantTerm,
    Equation,
    LensTerm,
    ListOf,
    OpTerm,
    TermPart,
    Var,
    questioned_variables,
    subterms,
    variables,
)
from amanda.mapping.side import REQUIRED, Decline, Side, Signature

__all__ = ["compile_row"]

_Emit: TypeAlias = (
    "Callable[[EmitContext, Graph, Slots, int, str | None], Sequence[OutputPort]]"
)
# Sources of an argument: a slot, a slot with many values, a constant, another op.
_SLOT, _SPREAD, _FIXED, _MADE = range(4)
_PORTS = (OutputPort, Parameter)


def compile_row(
    row: Equation,
    source: Side,
    target: Side,
    lenses: Mapping[str, Lens],
    *,
    forward: bool,
    hints: frozenset[str] = frozenset(),
) -> CompiledRule:
    """Compile an equation for one direction and two sides; InactiveRule if it does not
    apply."""
    here, there = row.sides(forward)
    matcher = MatcherCompiler(source, lenses, hints, _checked_variables(row, forward))
    match_op = matcher.compile(here)
    if row.guard is not None:
        matcher.steps.append(compile_guard(row.guard, matcher.slots))
    writer = _EmitterCompiler(target, lenses, matcher, here)
    make = writer.compile(there)
    needs = required_neighbors(here, source)
    return CompiledRule(
        row.id,
        row.text,
        here.size,
        matcher.width,
        match_op,
        tuple(matcher.steps),
        make,
        needs,
        is_chain(needs),
        row.loss,
        edges=here.edges,
        orders=matcher.orders,
    )


def _checked_variables(row: Equation, forward: bool) -> frozenset[str]:
    """Variables that a guard, a lens or an attribute has conditions for."""
    here, there = row.sides(forward)
    found = [*questioned_variables(here), *questioned_variables(there)]
    if row.guard is not None:
        found += variables(row.guard)
        found += questioned_variables(row.guard)
    for part in subterms(there):
        if isinstance(part, OpTerm):
            for value in part.attrs.values():
                found += variables(value)
        elif not isinstance(part, Var):
            found += variables(part)
    return frozenset(var.name for var in found)


class _EmitterCompiler:
    def __init__(
        self,
        side: Side,
        lenses: Mapping[str, Lens],
        matcher: MatcherCompiler,
        here: OpTerm,
    ) -> None:
        self.side = side
        self.lenses = lenses
        self.matcher = matcher
        self.ports = _in_inputs(here)  # variables that may be values of the graph

    def compile(
        self, term: OpTerm
    ) -> Callable[[EmitContext, Graph, Slots, Op, str | None], Sequence[OutputPort]]:
        make = self._op(term)
        signature = require_signature(self.side, term)
        fixed = signature.outputs

        def emit(
            run: EmitContext, graph: Graph, slots: Slots, op: Op, name: str | None
        ) -> Sequence[OutputPort]:
            count = len(op.outputs) if fixed is None else fixed
            return make(run, graph, slots, count, name)

        return emit

    def _op(self, term: OpTerm) -> _Emit:
        signature = require_signature(self.side, term)
        args = [self._arg(arg, i, signature, term) for i, arg in enumerate(term.args)]
        attrs: list[tuple[str, int, Any, Any]] = []
        at = {name: i for i, name in enumerate(signature.inputs)}
        for key, part in term.attrs.items():
            if isinstance(part, Var) and part.name == ANYTHING:
                continue
            if key in at:
                while len(args) <= at[key]:
                    args.append((_FIXED, None))
                args[at[key]] = self._arg(part, at[key], signature, term)
            else:
                attrs.append(self._attr(key, part, signature, term))
        self._require_all_attrs(term, signature)
        names = tuple(
            (key, kind, x, None if default is REQUIRED else default)
            for key, kind, x, default in attrs
        )
        make = _compile_op_emitter(term.type, tuple(args), names, signature.inputs)
        waits = [
            (self._op(w), require_signature(self.side, w).outputs or 1)
            for w in term.waits
        ]
        return _emit_after(make, waits) if waits else make

    def _require_all_attrs(self, term: OpTerm, signature: Signature) -> None:
        for key, default in signature.attrs.items():
            if default is REQUIRED and key not in term.attrs:
                if is_count(signature, key):
                    continue
                raise InactiveRule(f"{term.type} needs the attribute {key}")

    # -- arguments -------------------------------------------------------------

    def _arg(
        self, part: TermPart, i: int, signature: Signature, term: OpTerm
    ) -> tuple[int, Any]:
        if i >= len(signature.inputs) and signature.variadic is None:
            return self._allow_missing_input(part, i, term)
        match part:
            case Var(rest=True):
                return _SPREAD, self.matcher.slots[part.name]
            case Var(name=name):
                if name == ANYTHING:
                    return _FIXED, None
                if name in self.matcher.absent and not _may_be_absent(
                    part, i, signature
                ):
                    self._require_input(name, i, signature, term)
                return _SLOT, self.matcher.slots[name]
            case ConstantTerm(value=value):
                return _FIXED, value
            case OpTerm():
                output = part.output
                signature = require_signature(self.side, part)
                count = signature.outputs or output + 1
                return _MADE, (self._op(part), count, output)
        return _SLOT, self._add_computation(part)

    def _allow_missing_input(
        self, part: TermPart, i: int, term: OpTerm
    ) -> tuple[int, Any]:
        """An input that this version lacks: allowed while it is absent."""
        if not isinstance(part, Var) or part.rest:
            raise InactiveRule(f"{term.type} has {i} inputs in {self.side.name}")
        if part.name != ANYTHING:
            self._decline_if_present(part.name, f"input {i}", term)
        return _FIXED, None

    def _require_input(
        self, name: str, i: int, signature: Signature, term: OpTerm
    ) -> None:
        at, names = self.matcher.slots[name], signature.inputs[i : i + 1]
        why = f"{term.type} needs the input {names[0] if names else i}"

        def step(slots: Slots, _ask: AnswerQuestion) -> None:
            if slots[at] is None:
                raise Decline(f"{why}, and {name} is absent")

        self.matcher.steps.append(step)

    def _decline_if_present(self, name: str, what: str, term: OpTerm) -> None:
        at, where = self.matcher.slots[name], self.side.name

        def step(slots: Slots, _ask: AnswerQuestion) -> None:
            if slots[at] is not None:
                raise Decline(
                    f"{term.type} has no {what} in {where}, for {name} = "
                    f"{describe_value(slots[at])}"
                )

        self.matcher.steps.append(step)

    # -- attributes ------------------------------------------------------------

    def _attr(
        self, key: str, part: TermPart, signature: Signature, term: OpTerm
    ) -> tuple[str, int, Any, Any]:
        """Key, source and default of an attribute."""
        default = signature.attrs.get(key)
        if isinstance(part, ConstantTerm):
            if key not in signature.attrs:
                raise InactiveRule(f"{term.type} has no attribute {key}")
            return key, _FIXED, part.value, default
        if isinstance(part, OpTerm):
            raise InactiveRule(f"the attribute {key} of {term.type} is no op")
        if isinstance(part, Var) and part.name not in self.ports:
            at = self.matcher.slots[part.name]
        else:
            at = self._add_computation(part)
        if key not in signature.attrs:
            self._allow_missing_attribute(at, key, part, term)
        if default is REQUIRED:
            self._require_value(at, key, term)
        return key, _SLOT, at, default

    def _allow_missing_attribute(
        self, at: int, key: str, part: TermPart, term: OpTerm
    ) -> None:
        """An attribute that this version lacks may still name a body, or have the value
        that absence means: that of an op with all defaults on the other side."""
        where = self.side.name
        names = [var.name for var in variables(part)]
        origins = [self.matcher.origins.get(name, (at, None)) for name in names]

        def step(slots: Slots, _ask: AnswerQuestion) -> None:
            value = slots[at]
            if value is None or isinstance(value, Graph):
                return
            is_default = [
                equivalent_values(slots[raw], default) for raw, default in origins
            ]
            if is_default and all(is_default):
                slots[at] = None
                return
            raise Decline(
                f"{term.type} has no attribute {key} in {where}, "
                f"to be {describe_value(value)}"
            )

        self.matcher.steps.append(step)

    def _require_value(self, at: int, key: str, term: OpTerm) -> None:
        def step(slots: Slots, _ask: AnswerQuestion) -> None:
            if slots[at] is None:
                raise Decline(f"{term.type} needs the attribute {key}")

        self.matcher.steps.append(step)

    def _add_computation(self, part: TermPart) -> int:
        """Add a step that computes a value; returns its slot."""
        fetch = self._compile_part(part)
        at = self.matcher.fresh()

        def step(slots: Slots, ask: AnswerQuestion) -> None:
            slots[at] = fetch(slots, ask)

        self.matcher.steps.append(step)
        return at

    def _compile_part(self, part: TermPart) -> Fetch:
        match part:
            case LensTerm():
                forth = without_checks(self.lenses[part.lens].forth)
                inner = self._compile_part(part.inner)
                context = [compile_fetch(c, self.matcher.slots) for c in part.context]
                if not context:
                    return lambda slots, ask: forth(inner(slots, ask))
                return lambda slots, ask: forth(
                    inner(slots, ask), [c(slots, ask) for c in context]
                )
            case ListOf(items=items):
                return _compile_list_fetch(
                    [(_is_rest_part(i), self._compile_part(i)) for i in items]
                )
            case ConstantTerm() | Var(rest=False):
                return compile_fetch(part, self.matcher.slots)
            case Var(name=name):
                at = self.matcher.slots[name]
                return lambda slots, ask: _item_values(slots[at], ask)
            case OpTerm():
                raise InactiveRule(f"{part} is not a value that is known beforehand")


def _in_inputs(term: OpTerm) -> set[str]:
    """Variables that are inputs of some op."""
    names = {arg.name for arg in term.args if isinstance(arg, Var)}
    names |= {p.name for p in term.attrs.values() if isinstance(p, Var)}
    for arg in term.args:
        if isinstance(arg, OpTerm):
            names |= _in_inputs(arg)
    return names


def _is_rest_part(part: TermPart) -> bool:
    return isinstance(part, Var) and part.rest


def _item_values(value: Any, ask: AnswerQuestion) -> Any:
    value = plain_value(value, ask)
    return [plain_value(item, ask) for item in value]


def _compile_list_fetch(items: list[tuple[bool, Fetch]]) -> Fetch:
    def fetch(slots: Slots, ask: AnswerQuestion) -> list[Any]:
        made: list[Any] = []
        for rest, item in items:
            value = item(slots, ask)
            if not rest:
                made.append(value)
            elif isinstance(value, list | tuple):
                made += value
            else:
                raise Decline(f"{describe_value(value)} is not a list")
        return made

    return fetch


def _may_be_absent(part: Var, i: int, signature: Signature) -> bool:
    """Whether this input of a built op may be absent."""
    if part.optional or i >= len(signature.inputs):
        return part.optional
    return signature.inputs[i] in signature.optional


def _emit_after(make: _Emit, waits: list[tuple[_Emit, int]]) -> _Emit:
    """Builds an op with control inputs, after the ops that it waits for."""

    def emit(
        run: EmitContext, graph: Graph, slots: Slots, outputs: int, name: str | None
    ) -> Sequence[OutputPort]:
        firsts = [
            _producer_in(other(run, graph, slots, count, None), graph)
            for other, count in waits
        ]
        values = make(run, graph, slots, outputs, name)
        for first in firsts:
            graph.control(first, _producer_in(values, graph))
        return values

    return emit


def _producer_in(values: Sequence[OutputPort], graph: Graph) -> Op:
    """The op that was built last."""
    return values[0].op if values else graph.ops[-1]


def _compile_op_emitter(
    type: str,
    args: tuple[tuple[int, Any], ...],
    attrs: tuple[tuple[str, int, Any, Any], ...],
    names: tuple[str, ...],
) -> _Emit:
    """Builds one op, without attributes that have their default."""

    def make(
        run: EmitContext, graph: Graph, slots: Slots, outputs: int, name: str | None
    ) -> Sequence[OutputPort]:
        made = run.made
        values: list[Any] = []
        bodies: dict[str, Graph] | None = None
        for kind, x in args:
            if kind == _SLOT:
                value = slots[x]
                if value.__class__ in _PORTS:
                    value = made.get(value) or run.value(value)
                elif isinstance(value, Graph):
                    bodies = bodies or {}
                    bodies[names[len(values)]] = run.value(value)
                    value = None
                values.append(value)
            elif kind == _FIXED:
                values.append(x)
            elif kind == _SPREAD:
                values += [run.value(value) for value in slots[x]]
            else:
                inner, count, output = x
                values.append(inner(run, graph, slots, count, None)[output])
        given: dict[str, Any] = {}
        for key, kind, x, default in attrs:
            value = slots[x] if kind == _SLOT else x
            if value is None or value is default:
                continue
            if default is not None and equivalent_values(value, default):
                continue
            if isinstance(value, Graph):
                bodies = bodies or {}
                bodies[key] = run.value(value)
            else:
                given[key] = value
        return run.build(
            graph, type, values, given, outputs=outputs, name=name, bodies=bodies
        )

    return make
