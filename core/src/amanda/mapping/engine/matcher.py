"""Compiles the side of an equation that is matched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from amanda.errors import Undecided
from amanda.graph import Op, OutputPort, Parameter, is_note
from amanda.mapping.engine.commutative import (
    QuickCheck,
    match_two_inputs,
    try_input_orders,
)
from amanda.mapping.engine.compiled_rule import (
    AnswerQuestion,
    BindPart,
    InactiveRule,
    MatchOp,
    RuleStep,
    Slots,
    compile_fetch,
    describe_value,
    plain_value,
    source_question,
)
from amanda.mapping.lenses.lens import Lens, equivalent_values
from amanda.mapping.rules.terms import (
    ANYTHING,
    ConstantTerm,
    LensTerm,
    ListOf,
    OpTerm,
    TermPart,
    Var,
    questioned_variables,
    variables,
)
from amanda.mapping.side import (
    REQUIRED,
    Decline,
    Side,
    Signature,
    constant_of,
    rule_op_type,
)

__all__ = [
    "OUTPUT_COUNT",
    "MatcherCompiler",
    "with_hints",
    "is_count",
    "is_hint",
    "require_signature",
    "is_uncovered",
]

OUTPUT_COUNT = "outputs"


class MatcherCompiler:
    """Compiles one term; `slots` has the slot of each variable.

    `checked` are the variables that guards and the other side have conditions for.
    """

    def __init__(
        self,
        side: Side,
        lenses: Mapping[str, Lens],
        hints: frozenset[str],
        checked: frozenset[str] = frozenset(),
    ) -> None:
        self.side = side
        self.lenses = lenses
        self.hints = hints
        self.slots: dict[str, int] = {}
        self.width = 0
        self.steps: list[RuleStep] = []
        self.absent: set[str] = set()
        """Variables of inputs that are optional, or that this version lacks."""
        self.origins: dict[str, tuple[int, Any]] = {}
        """For variables of attributes: the slot of the attribute, and its default."""
        self.orders: int | None = None
        """The slot of the input orders of commutative ops."""
        self._checked = checked
        self._late: list[tuple[int, LensTerm]] = []
        self._counts: Counter[str] = Counter()

    def compile(self, term: OpTerm) -> MatchOp:
        self._counts = Counter(var.name for var in variables(term))
        match_op = self._op(term)
        self._lenses()
        if self.orders is None:
            return match_op
        return try_input_orders(match_op, self.orders)

    def fresh(self) -> int:
        self.width += 1
        return self.width - 1

    # -- ops -------------------------------------------------------------------

    def _op(self, term: OpTerm) -> MatchOp:
        signature = with_hints(require_signature(self.side, term), self.hints)
        base = self.width
        if self._is_plain(term):
            for arg in term.args:
                assert isinstance(arg, Var)
                self.slots[arg.name] = self.fresh()
            inputs = _match_new_inputs(base, len(term.args), signature.inputs)
        else:
            inputs = self._inputs(term, signature)
        least = self._least(term, signature)
        if least:
            inputs = _require_inputs(inputs, least, term.type)
        attrs = self._attrs(term, signature)
        rest = any(map(_is_rest, term.args))
        match_op = _compile_op(
            inputs, attrs, None if rest else len(term.args), signature
        )
        if not term.waits:
            return match_op
        return _match_control_inputs(
            match_op, [(w.type, self._op(w)) for w in term.waits], self.side
        )

    def _least(self, term: OpTerm, signature: Signature) -> int:
        """The number of required inputs; records the variables of optional ones."""
        least = 0
        for i, arg in enumerate(term.args):
            if not isinstance(arg, Var) or arg.rest:
                continue
            repeats = signature.variadic is not None and i >= len(signature.inputs)
            named = signature.inputs[i : i + 1]
            if (
                arg.optional
                or not (named or repeats)
                or (named and named[0] in signature.optional)
            ):
                self.absent.add(arg.name)
            elif repeats and arg.name != ANYTHING:
                least = len(term.args) - any(map(_is_rest, term.args))
        return least

    def _is_plain(self, term: OpTerm) -> bool:
        """Whether all inputs are variables that are not bound yet, and those of a
        commutative op are interchangeable."""
        names = [a.name for a in term.args if isinstance(a, Var) and not a.rest]
        fresh = {n for n in names if n not in self.slots and n != ANYTHING}
        if len(fresh) != len(term.args):
            return False
        signature = require_signature(self.side, term)
        return not signature.commutative or (
            all(self._counts[n] == 1 for n in fresh) and not fresh & self._checked
        )

    def _inputs(self, term: OpTerm, signature: Signature) -> MatchOp:
        is_pair = len(term.args) == 2 and not any(map(_is_rest, term.args))
        if signature.commutative and is_pair:
            fits = tuple(self._fits(arg) for arg in term.args)
            if self.orders is None:
                self.orders = self.fresh()
            one, other = (self._bind(arg) for arg in term.args)
            return match_two_inputs((one, other), (fits[0], fits[1]), self.orders)
        binds: list[tuple[int, str | None, BindPart]] = []
        rest: tuple[int, int, BindPart] | None = None
        for i, arg in enumerate(term.args):
            at = i if rest is None else i - len(term.args)  # behind it from the end
            named = at >= 0 and i < len(signature.inputs)
            name = signature.inputs[i] if named else None
            if isinstance(arg, Var) and arg.rest:
                rest = (i, len(term.args) - i - 1, self._bind(arg))
            elif not isinstance(arg, Var) or arg.name != ANYTHING:
                binds.append((at, name, self._bind(arg)))
        return _compile_inputs(tuple(binds), rest, len(term.args) - 1)

    def _fits(self, part: TermPart) -> QuickCheck:
        """A test of a value that depends only on what is bound already."""
        match part:
            case OpTerm(type=type):
                return lambda value, _slots: _is_produced_by(value, type, self.side)
            case ConstantTerm(value=value):
                bind = _bind_constant(value)
                return lambda have, slots: bind(have, slots, []) is None
            case Var(name=name) if name in self.slots:
                at = self.slots[name]
                return lambda have, slots: (
                    slots[at] is have or equivalent_values(slots[at], have)
                )
        return None

    def _attrs(self, term: OpTerm, signature: Signature) -> MatchOp | None:
        """Named attributes; inputs given by name are matched as inputs."""
        at = {name: i for i, name in enumerate(signature.inputs)}
        named = []
        for key, part in term.attrs.items():
            default = signature.attrs.get(key)
            slot = self.width
            named.append((key, default, at.get(key), self._bind(part)))
            if self.width > slot and isinstance(part, Var | LensTerm):
                for var in variables(part):
                    self.origins.setdefault(var.name, (slot, default))
        return _compile_attrs(tuple(named)) if named else None

    # -- parts -----------------------------------------------------------------

    def _bind(self, part: TermPart) -> BindPart:
        match part:
            case Var(name=name):
                return self._variable(name)
            case ConstantTerm(value=value):
                return _bind_constant(value)
            case ListOf(items=items):
                return self._list(items)
            case LensTerm():
                at = self.fresh()
                self._late.append((at, part))
                return _bind_new(at)
            case OpTerm():
                return self._producer(part)

    def _variable(self, name: str) -> BindPart:
        if name == ANYTHING:
            return lambda _have, _slots, _ops: None
        at = self.slots.get(name)
        if at is None:
            at = self.slots[name] = self.fresh()
            return _bind_new(at)
        return _bind_equal(at, name)

    def _list(self, items: tuple[TermPart, ...]) -> BindPart:
        rest = next((i for i, item in enumerate(items) if _is_rest(item)), None)
        binds = [self._bind(item) for item in items]
        return _bind_items(binds, rest)

    def _producer(self, term: OpTerm) -> BindPart:
        match_op = self._op(term)
        side, type, output = self.side, term.type, term.output

        def bind(have: Any, slots: Slots, ops: list[Op]) -> str | None:
            if not isinstance(have, OutputPort) or have.__class__ is Parameter:
                return f"{describe_value(have)} is not produced by {type}"
            op = have.op
            if op.type != type and rule_op_type(side, op) != type:
                return f"{have} is produced by {op.type}, not by {type}"
            if rule_op_type(side, op) != type:
                return f"{have} is produced by an op of {op.namespace}"
            if have.index != output:
                return f"{have} is output {have.index} of {type}, not {output}"
            if op.graph is not ops[0].graph:
                return f"{have} is produced in another graph"
            return match_op(op, slots, ops)

        return bind

    # -- lenses ----------------------------------------------------------------

    def _lenses(self) -> None:
        """A step for each lens, ordered so that its context is known."""
        while self._late:
            ready = [
                pair
                for pair in self._late
                if all(v.name in self.slots for v in questioned_variables(pair[1]))
            ]
            if not ready:
                _, stuck = self._late[0]
                raise InactiveRule(f"the context of {stuck} is never known")
            at, part = ready[0]
            self._late.remove(ready[0])
            self.steps.append(self._undo(at, part))

    def _undo(self, at: int, part: LensTerm) -> RuleStep:
        lens = self.lenses[part.lens]
        context = tuple(compile_fetch(c, self.slots) for c in part.context)
        inner = part.inner
        names = [v.name for v in variables(inner)]
        if isinstance(inner, LensTerm):
            then_at = self.fresh()
            self._late.insert(0, (then_at, inner))
            bind: BindPart = _bind_new(then_at)
        else:
            bind = self._bind(inner)
        labels = ", ".join(names)

        def undo(slots: Slots, ask: AnswerQuestion) -> None:
            value = lens.back(
                plain_value(slots[at], ask), [c(slots, ask) for c in context]
            )
            why = bind(value, slots, [])
            if why is not None:
                raise Decline(f"{labels}: {why}")

        return undo


def require_signature(side: Side, term: OpTerm) -> Signature:
    """The signature of a term's op; InactiveRule where the side's version differs."""
    signature = side.signature(term.type)
    if signature is None:
        raise InactiveRule(f"{side.name} has no op {term.type}")
    if signature.since and not term.serves(signature.since):
        raise InactiveRule(
            f"{side.name} has {term.type} as of version {signature.since}, "
            f"the rule is for {term.type}{term.versions}"
        )
    return signature


def with_hints(signature: Signature, hints: frozenset[str]) -> Signature:
    """A signature with more attributes that need no rule."""
    if not hints:
        return signature
    return signature._replace(hints=signature.hints | hints)


def _is_rest(part: object) -> bool:
    return isinstance(part, Var) and part.rest


# -- closures -----------------------------------------------------------------------


def _bind_new(at: int) -> BindPart:
    def bind(have: Any, slots: Slots, _ops: list[Op]) -> str | None:
        slots[at] = have
        return None

    return bind


def _bind_equal(at: int, name: str) -> BindPart:
    def bind(have: Any, slots: Slots, _ops: list[Op]) -> str | None:
        if (
            have is slots[at]
            or equivalent_values(have, slots[at])
            or _has_content(slots[at], have)
        ):
            return None
        return f"{name} is both {describe_value(slots[at])} and {describe_value(have)}"

    return bind


def _is_produced_by(value: Any, type: str, side: Side) -> bool:
    if not isinstance(value, OutputPort) or value.__class__ is Parameter:
        return False
    return rule_op_type(side, value.op) == type


def _has_content(value: Any, content: Any) -> bool:
    """Whether it is a value of the graph with this constant content."""
    if not isinstance(value, OutputPort) or isinstance(content, OutputPort):
        return False
    try:
        return equivalent_values(source_question(value, "content"), content)
    except Undecided:
        return False


def _bind_constant(value: Any) -> BindPart:
    many = isinstance(value, list)

    def bind(have: Any, _slots: Slots, _ops: list[Op]) -> str | None:
        if isinstance(have, OutputPort):
            tensor = constant_of(have)
            if tensor is not None and bool(tensor.shape) is not many:
                return f"{have} is a constant of another rank than {value!r}"
            try:
                have = source_question(have, "content")
            except Undecided as why:
                return why.message
        return (
            None
            if equivalent_values(have, value)
            else f"{describe_value(have)} is not {value!r}"
        )

    return bind


def _bind_items(binds: list[BindPart], rest: int | None) -> BindPart:
    least = len(binds) - (rest is not None)

    def bind(have: Any, slots: Slots, ops: list[Op]) -> str | None:
        if isinstance(have, OutputPort):
            try:
                have = source_question(have, "content")
            except Undecided as still_open:
                return still_open.message
        if not isinstance(have, list | tuple):
            return f"{describe_value(have)} is not a list"
        n = len(have)
        if n < least or (rest is None and n != least):
            return f"{describe_value(have)} does not have {least} items"
        items = list(have)
        if rest is not None:
            end = n - (least - rest)
            items[rest:end] = [list(have[rest:end])]
        for inner, item in zip(binds, items, strict=True):
            if (why := inner(item, slots, ops)) is not None:
                return why
        return None

    return bind


def _match_new_inputs(base: int, count: int, names: tuple[str, ...]) -> MatchOp:
    """Matches inputs that are all new variables: a slice assignment."""
    end = base + count

    def match_op(op: Op, slots: Slots, _ops: list[Op]) -> str | None:
        inputs = op.inputs
        if len(inputs) >= count:
            slots[base:end] = inputs[:count]
        else:
            slots[base:end] = (*inputs, *([None] * (count - len(inputs))))
        if op.has_attrs or op.side_record is not None:
            for i in range(min(count, len(names))):
                if slots[base + i] is None:
                    slots[base + i] = _attribute_or_body(op, names[i])
        return None

    return match_op


def _compile_inputs(
    binds: tuple[tuple[int, str | None, BindPart], ...],
    rest: tuple[int, int, BindPart] | None,
    fixed: int,
) -> MatchOp:
    """`rest` is the start of the variadic part, the number of inputs behind it, and its
    matcher."""

    def match_op(op: Op, slots: Slots, ops: list[Op]) -> str | None:
        inputs = op.inputs
        n = len(inputs)
        if rest is not None and rest[1] and n < fixed:
            return f"{op.type} has {n} inputs, not {fixed} or more"
        for i, name, bind in binds:
            value: Any = inputs[i] if i < n else None
            if value is None and name is not None:
                value = _attribute_or_body(op, name)
            if (why := bind(value, slots, ops)) is not None:
                return why
        if rest is None:
            return None
        start, behind, bind_rest = rest
        return bind_rest(inputs[start : max(n - behind, start)], slots, ops)

    return match_op


def _require_inputs(inputs: MatchOp, least: int, type: str) -> MatchOp:
    """Variadic inputs: each variable of a rule matches one that is present."""

    def match_op(op: Op, slots: Slots, ops: list[Op]) -> str | None:
        there = op.inputs[:least]
        if len(there) < least or None in there:
            return f"{type} has fewer inputs than the {least} of the rule"
        return inputs(op, slots, ops)

    return match_op


def _match_control_inputs(
    match_op: MatchOp, waits: list[tuple[str, MatchOp]], side: Side
) -> MatchOp:
    """Matches an op with control inputs, which are part of the pattern."""

    def match_all(op: Op, slots: Slots, ops: list[Op]) -> str | None:
        if (why := match_op(op, slots, ops)) is not None:
            return why
        for type, other in waits:
            why = f"it has no control input from {type}"
            for one in op.control_inputs:
                if (
                    one in ops
                    or rule_op_type(side, one) != type
                    or one.graph is not op.graph
                ):
                    continue
                before = len(ops)
                why = other(one, slots, ops)
                if why is None:
                    break
                del ops[before:]
            if why is not None:
                return why
        return None

    return match_all


def _attribute_or_body(op: Op, name: str) -> Any:
    """The attribute or body that an op has in place of an input."""
    if op.has_attrs and name in op.attrs:
        return op.attrs[name]
    return op.bodies.get(name)


def _compile_attrs(
    named: tuple[tuple[str, Any, int | None, BindPart], ...],
) -> MatchOp:
    def match_op(op: Op, slots: Slots, ops: list[Op]) -> str | None:
        held = op.attrs if op.has_attrs else _NOTHING
        for key, default, at, bind in named:
            have: Any = None
            if at is not None:
                have = op.inputs[at] if at < len(op.inputs) else None
            if have is None:
                have = held[key] if key in held else op.bodies.get(key, default)
            if have is REQUIRED or (have is None and default is REQUIRED):
                return f"the attribute {key} is missing"
            why = bind(have, slots, ops)
            if why is not None:
                return f"{key}: {why}"
        return None

    match_op.keys = frozenset(key for key, *_ in named)  # type: ignore[attr-defined]
    return match_op


_NOTHING: dict[str, Any] = {}


def _compile_op(
    inputs: MatchOp, attrs: MatchOp | None, count: int | None, signature: Signature
) -> MatchOp:
    """Matches inputs and attributes of an op; declines where something is uncovered."""
    keys: frozenset[str] = getattr(attrs, "keys", frozenset())
    at = {name: i for i, name in enumerate(signature.inputs)}
    by_name = frozenset(at[key] for key in keys if key in at)
    covered = keys | frozenset(signature.inputs[:count])
    if is_count(signature, OUTPUT_COUNT):
        covered |= {OUTPUT_COUNT}

    def match_op(op: Op, slots: Slots, ops: list[Op]) -> str | None:
        ops.append(op)
        if (why := inputs(op, slots, ops)) is not None:
            return why
        if attrs is not None and (why := attrs(op, slots, ops)) is not None:
            return why
        if count is not None and len(op.inputs) > count:
            for i, value in enumerate(op.inputs[count:], count):
                if value is not None and i not in by_name:
                    return f"input {_input_name(signature, i)} is not covered"
        if op._attrs:
            for key, value in op._attrs.items():
                if key not in covered and is_uncovered(signature, key, value):
                    return f"the attribute {key}={describe_value(value)} is not covered"
        if op.side_record is not None:
            for key in op.bodies:
                if key not in covered:
                    return f"the body {key} is not covered"
        return None

    return match_op


def _input_name(signature: Signature, i: int) -> str:
    return signature.inputs[i] if i < len(signature.inputs) else str(i)


def is_uncovered(signature: Signature, key: str, value: Any) -> bool:
    """Whether dropping this attribute would lose information."""
    if key in signature.attrs:
        default = signature.attrs[key]
        if default is not REQUIRED and equivalent_values(value, default):
            return False
    return not is_hint(signature, key)


def is_hint(signature: Signature, key: str) -> bool:
    return (
        key in signature.hints
        or is_note(key)
        or any(
            hint[-1:] == "*" and key.startswith(hint[:-1]) for hint in signature.hints
        )
    )


def is_count(signature: Signature, key: str) -> bool:
    """Whether it is the number of outputs, which no rule has to name."""
    return key == OUTPUT_COUNT and signature.outputs is None and key in signature.attrs
