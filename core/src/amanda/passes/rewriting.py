"""Rewriting of a graph by rules, in place, until none matches.

The rules are those of mappings, from a namespace to itself:

    transpose(transpose(x, perm=p), perm=q)  =>  transpose(x, perm=permuted(p, q))

A matched op is replaced at its position; the ops that its pattern reads stay, for other
users or for `drop`. Only users of new values are visited again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from amanda.errors import FormatError, Undecided, UsageError
from amanda.graph import CORE, KEEP, Graph, Op, OutputPort, Provenance
from amanda.mapping import RuleSet
from amanda.mapping.engine.compiled_rule import CompiledRule
from amanda.mapping.engine.program import RuleProgram
from amanda.mapping.rules.checks import is_recursive
from amanda.mapping.side import (
    Decline,
    Side,
    Signature,
    TracingSide,
    answer_question,
    rule_op_type,
)
from amanda.types import TensorType, dims_equal

MOST = 8
"""Replacements per original op after which the rules must be cyclic."""


class Rewriting:
    """A pass made of rules from a namespace to itself.

    `identity` is the type of the identity op, which is elided when a rule builds it.
    `worth` is a cheap filter of ops; rules must decline the ops that it rejects. With
    `recompute`, a rule of several ops is applied also where other ops use what it
    matched, so that both are computed. No pattern reaches across a value with the
    mark `barrier`.
    """

    def __init__(
        self,
        rules: RuleSet,
        side: Side,
        identity: str | None = None,
        worth: Callable[[Op], bool] | None = None,
        *,
        recompute: bool = False,
        barrier: str | None = None,
    ) -> None:
        self.name = rules.name
        self._recompute = recompute
        self._barrier = barrier
        for row in rules.rows:
            if row.runs(True) and is_recursive(row):
                raise FormatError(
                    "a rule that matches its own result never ends",
                    where=row.spot,
                    got=row.text,
                )
        self.program = RuleProgram(rules, side, side, forward=True)
        self._here = _RewriteContext(side, identity)
        self._tracing = side if isinstance(side, TracingSide) else None
        self._types = frozenset(rules.types(forward=True))
        self._worth = worth

    def __call__(self, graph: Graph) -> int:
        """Rewrite a graph and those inside it; returns the number of replaced ops."""
        return sum(self.rewrite(part) for part in graph.graphs())

    def rewrite(self, graph: Graph, ops: Iterable[Op] | None = None) -> int:
        """Rewrite one graph; with `ops`, only these and what follows from them."""
        with self._open(graph):
            return self._until_none(graph, graph if ops is None else ops)

    def rewrite_op(self, graph: Graph, op: Op) -> int:
        """Try the rules on one op; returns the number of replaced ops.

        Users of the new values are not visited."""
        fits = op.type in self._types and self._candidates((op,))
        return int(bool(fits) and self._replace(graph, op) is not None)

    def _open(self, graph: Graph) -> AbstractContextManager[Any]:
        """A context in which rules may call ops, opened once for all of them."""
        return nullcontext() if self._tracing is None else self._tracing.tracing(graph)

    def _until_none(self, graph: Graph, ops: Iterable[Op]) -> int:
        waiting = deque(self._candidates(ops))
        queued = set(waiting)
        most = MOST * (len(graph) + 8)
        used: dict[str, int] = {}
        count = 0
        while waiting:
            op = waiting.popleft()
            queued.discard(op)
            if op.graph is not graph:
                continue
            found = self._replace(graph, op)
            if found is None:
                continue
            rule, touched = found
            used[rule.id] = used.get(rule.id, 0) + 1
            count += 1
            if count > most:
                self._goes_round(used)
            for next_op in self._candidates(touched):
                if next_op not in queued:
                    queued.add(next_op)
                    waiting.append(next_op)
        return count

    def _candidates(self, ops: Iterable[Op]) -> Iterable[Op]:
        types, worth = self._types, self._worth
        return [
            op
            for op in ops
            if op.type in types
            and (op.side_record is None or op.side_record.namespace != CORE)
            and (worth is None or worth(op))
        ]

    def _goes_round(self, used: dict[str, int]) -> None:
        busy = ", ".join(sorted(used, key=lambda id: -used[id])[:3])
        raise UsageError(
            f"the rules of {self.name} are cyclic: one builds what another matches",
            expected="rules that simplify",
            got=f"{sum(used.values())} replacements, most of them by {busy}",
        )

    # -- one op ----------------------------------------------------------------

    def _replace(self, graph: Graph, op: Op) -> tuple[CompiledRule, list[Op]] | None:
        """The matched rule, and the ops to visit; None if no rule matched."""
        type = rule_op_type(self.program.source, op)
        if type is None or _must_stay(op):
            return None
        for rule in self.program.candidates(type).for_op(op):
            slots: list[Any] = [None] * rule.width
            ops: list[Op] = []
            if rule.match(op, slots, ops) is not None or self._crosses(ops):
                continue
            try:
                for step in rule.steps:
                    step(slots, answer_question)
            except (Decline, Undecided):
                continue  # does not match, or undecided
            made = self._build(graph, op, rule, slots, ops)
            if made is not None:
                return rule, made
        return None

    def _crosses(self, ops: list[Op]) -> bool:
        """Whether a pattern reads a value with the mark `barrier` inside it."""
        return self._barrier is not None and any(
            port is not None
            and self._barrier in port.marks
            and (port.op.is_constant or port.op in ops)
            for op in ops
            for port in op.inputs
        )

    def _build(
        self, graph: Graph, op: Op, rule: CompiledRule, slots: list[Any], ops: list[Op]
    ) -> list[Op] | None:
        """Replace an op by what the rule builds; returns new ops and users.

        None, with the graph unchanged, if a type would change, or if ops of the pattern
        that others use would be computed twice."""
        before = op.previous
        values: Sequence[OutputPort | None] = ()
        with graph.before(op):
            try:
                values = rule.build(self._here, graph, slots, op, None)
            except (Decline, Undecided):
                values = ()
            except BaseException:
                _remove(graph, _ops_between(before, op))
                raise
        new = _ops_between(before, op)
        anyway = self._recompute or len(ops) == 1
        if not _has_same_types(op, values) or not (
            anyway or not _duplicates_an_op(new) or _are_used_once(ops)
        ):
            _remove(graph, new)
            return None
        users = [user for port in op.outputs for user in port.user_ops]
        producers = _producers(op)
        _move_users(graph, op, values, new, Provenance(_sources(ops), rule.id), rule.id)
        absorbed = [each for each in producers if not _is_used(each)]
        if absorbed:
            origin = Provenance(_sources([*absorbed, *ops]), rule.id)
            for each in new:
                each.provenance = origin
        return [*new, *(user for user in users if user.graph is graph)]


class _RewriteContext:
    """The context of rules whose source and target are one graph."""

    def __init__(self, side: Side, identity: str | None) -> None:
        self.target: Side = (
            side if identity is None else _IdentityEliding(side, identity)
        )
        self.build = self.target.build
        self.made: dict[OutputPort, OutputPort] = {}

    def value(self, value: Any) -> Any:
        return value


class _IdentityEliding:
    """A side that elides identity ops."""

    def __init__(self, side: Side, identity: str) -> None:
        self._side = side
        self._identity = identity

    @property
    def name(self) -> str:
        return self._side.name

    def signature(self, type: str, /) -> Signature | None:
        return self._side.signature(type)

    def build(
        self, graph: Graph, type: str, args: Sequence[Any], *rest: Any, **more: Any
    ) -> tuple[OutputPort, ...]:
        if type == self._identity and isinstance(args[0], OutputPort):
            return (args[0],)
        return self._side.build(graph, type, args, *rest, **more)


def _must_stay(op: Op) -> bool:
    """Whether control edges or marks require this op to stay."""
    more = op.side_record
    if more is None:
        return False
    if more.control or more.controlled or more.feedback:
        return True
    return bool(more.marks) and any(KEEP in port.marks for port in op.outputs)


def _ops_between(before: Op | None, op: Op) -> list[Op]:
    """The ops between `before` and `op`, in order."""
    found: list[Op] = []
    at = op.previous
    while at is not None and at is not before:
        found.append(at)
        at = at.previous
    return found[::-1]


def _remove(graph: Graph, ops: list[Op]) -> None:
    for op in reversed(ops):
        graph.remove(op)


def _has_same_types(op: Op, values: Sequence[OutputPort | None]) -> bool:
    """Whether each used output has a value of the same type."""
    if len(values) < len(op.outputs):
        return False
    for port, value in zip(op.outputs, values, strict=False):
        if value is port or (value is None and port.user_ops):
            return False
        if value is not None and not _have_equal_types(port.type, value.type):
            return False
    return True


def _have_equal_types(a: object, b: object) -> bool:
    if not isinstance(a, TensorType) or not isinstance(b, TensorType):
        return a == b
    if a is b:
        return a.shape.has_rank
    if a.dtype != b.dtype or not (a.shape.has_rank and b.shape.has_rank):
        return False
    if a.shape.rank != b.shape.rank:
        return False
    return all(dims_equal(x, y) is True for x, y in zip(a.shape, b.shape, strict=True))


def _duplicates_an_op(new: Sequence[Op]) -> bool:
    """Whether new ops would repeat the matched ones."""
    return sum(op.own_namespace != CORE for op in new) > 1


def _are_used_once(ops: Sequence[Op]) -> bool:
    """Whether inner ops of the pattern have no other users."""
    inside = set(ops)
    return all(
        user in inside
        for op in ops[1:]
        for port in op.outputs
        for user in port.user_ops
    )


def _producers(op: Op) -> list[Op]:
    """The ops beside this one whose values it reads; no constants."""
    found = dict.fromkeys(v.op for v in op.inputs if v is not None)
    return [each for each in found if not each.is_constant and each.graph is op.graph]


def _is_used(op: Op) -> bool:
    return any(port.is_used for port in op.outputs)


def _sources(ops: Sequence[Op]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for op in ops:
        origin = op.provenance
        old = origin.sources if origin else (op.name or op.type or "?",)
        if len(ops) == 1:
            return old
        found.update(dict.fromkeys(old))
    return tuple(found)


def _move_users(
    graph: Graph,
    op: Op,
    values: Sequence[OutputPort | None],
    new: list[Op],
    origin: Provenance,
    by: str,
) -> None:
    """Replace the values of an op by new ones, and move their names."""
    for made in new:
        made._side.provenance = origin
    name, names = op.name, [port.name for port in op.outputs]
    graph.replace(op, values[: len(names)], by)
    if not new:
        return
    fresh = set(new)
    for value, own in zip(values, names, strict=False):
        if value is not None and value.name is None and value.op in fresh:
            value.name = own
    if name is None or name in graph:
        return
    heirs = {v.op for v in values if v is not None and v.op in fresh}
    if len(heirs) == 1:
        heir = heirs.pop()
        if heir.name is None:
            graph.rename(heir, name)
