"""Bodies of functions: calls as statements, with names for their values."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar

from amanda.graph import OutputPort
from amanda.types import TensorType
from amanda_torch.source.python_text import (
    ATOM,
    NAME,
    WIDTH,
    Expression,
    Number,
    Slot,
    constant_text,
    format_statement,
    join,
)

__all__ = ["Body", "Step", "body_structure", "write_body"]

_LONG: Final = 58
_DEEP: Final = 4
_FEW: Final = 2
W = TypeVar("W", bound="_Writer")
_RESERVED: Final = frozenset(
    ["self", "torch", "nn", "F", "Tensor", "math", "load", *keyword.kwlist]
)


class Step(NamedTuple):
    """A computation of a body: its expression, and what it gives.

    `repeats` are a member and the name of a variable: the step is done with each item
    of the member, and the first output takes the place of `carried`.
    """

    expression: Expression
    outputs: Sequence[OutputPort]
    name: str
    is_list: bool = False
    has_effect: bool = False
    keeps_name: bool = False
    has_own_name: bool = False
    is_call: bool = False
    targets: str = ""
    """The form of the results of a call, if they are not a tuple of tensors."""
    before: Callable[[int], list[str]] | None = None
    repeats: tuple[str, str] | None = None
    carried: OutputPort | None = None


class Body(NamedTuple):
    """What a function computes: its steps, and what it returns."""

    steps: Sequence[Step]
    returned: Expression
    texts: Mapping[OutputPort, str]
    """Values that have a text already: parameters and weights."""
    reserved: frozenset[str] = frozenset()
    numbers: Mapping[Number, str] = MappingProxyType({})
    """Numbers that are attributes of the module."""


def write_body(body: Body, indent: int) -> list[str]:
    """The lines of a function after its head."""
    return _write(body, indent, _Writer)[0]


def body_structure(body: Body) -> tuple[list[str], list[Number]]:
    """The lines of a function with a sign for each number, and the numbers."""
    lines, writer = _write(body, 8, _StructureWriter)
    return lines, writer.found


def _write(body: Body, indent: int, make: type[W]) -> tuple[list[str], W]:
    named: set[OutputPort] = set()
    while True:
        writer = make(body, named)
        lines = writer.write(indent)
        if not writer.too_long:
            return lines, writer
        named |= writer.too_long


class _Writer:
    def __init__(self, body: Body, named: Container[OutputPort]) -> None:
        self.body = body
        self.named = named
        self.too_long: set[OutputPort] = set()
        """Parts of statements that are too long, which have to be variables."""
        self.inlined: dict[OutputPort, Expression] = {}
        self.names = dict(body.texts)
        self.inner_steps = {
            step.outputs[0]: step for step in body.steps if len(step.outputs) == 1
        }
        self.counts = self._counts()
        self.steps = self._inline()
        self.last_use = self._last_uses()

    # -- which values have names ----------------------------------------------------

    def _inline(self) -> list[Step]:
        """The steps that are statements: others are parts of the one that uses them.

        One that writes into tensors is a statement or a part of the very next.
        """
        waiting: dict[OutputPort, Step] = {}
        kept: list[Step] = []
        for step in (*self.body.steps, None):
            fits = step is None or not (step.repeats or step.before)
            for slot in self._slots(step):
                inner = waiting.pop(slot.value, None)
                if inner is None:
                    continue
                taken = fits and self._is_short(slot, step)
                if taken:
                    self.inlined[slot.value] = inner.expression
                else:
                    kept.append(inner)
            for value, other in list(waiting.items()):
                if step is None or step.has_effect or other.has_effect:
                    kept.append(waiting.pop(value))
            if step is not None and self._can_be_part(step):
                waiting[step.outputs[0]] = step
            elif step is not None:
                kept.append(step)
        order = {id(step): place for place, step in enumerate(self.body.steps)}
        return sorted(kept, key=lambda step: order[id(step)])

    def _can_be_part(self, step: Step) -> bool:
        """Whether a step may be a part of the one that reads its result."""
        if len(step.outputs) != 1 or step.is_list or step.repeats or step.before:
            return False
        [output] = step.outputs
        return self.counts.get(output) == 1 and output not in self.named

    def _counts(self) -> dict[OutputPort, int]:
        """How often each value is read; more often where it has to be a variable."""
        counts: dict[OutputPort, int] = {}
        for each in (*self.body.steps, None):
            for slot in self._slots(each):
                weight = 2 if slot.level == NAME or (each and each.repeats) else 1
                counts[slot.value] = counts.get(slot.value, 0) + weight
        return counts

    def _slots(self, step: Step | None) -> list[Slot]:
        """The slots of a step, or of what is returned."""
        found = self.body.returned if step is None else step.expression
        return list(found.slots())

    def _is_short(self, slot: Slot, step: Step | None) -> bool:
        """Whether a step may be written in the place of its result."""
        if step is None and self.body.returned.parts == (slot,):
            return True
        inner = self.inner_steps[slot.value].expression
        outer = self.body.returned if step is None else step.expression
        length = self._length(inner) + self._length(outer)
        return length <= _LONG and self._depth(inner) < _DEEP

    def _length(self, found: Expression) -> int:
        """About how long an expression is, with what it has taken in."""
        return sum(
            len(part) if isinstance(part, str)
            else len(self._number_text(part)) if isinstance(part, Number)
            else self._length(self.inlined[part.value]) if part.value in self.inlined
            else len(self.body.texts.get(part.value) or self._likely_name(part.value))
            for part in found.parts
        )  # fmt: skip

    def _is_operator(self, value: OutputPort) -> bool:
        return value in self.inlined and self.inlined[value].level < ATOM

    def _likely_name(self, value: OutputPort) -> str:
        step = self.inner_steps.get(value)
        return "hidden" if step is None else step.name

    def _depth(self, found: Expression) -> int:
        inner = [
            self.inlined[s.value] for s in found.slots() if s.value in self.inlined
        ]
        return 1 + max(map(self._depth, inner), default=0)

    # -- names ----------------------------------------------------------------------

    def _read(self, found: Expression) -> Iterable[OutputPort]:
        """The variables that an expression reads."""
        for slot in found.slots():
            if slot.value in self.inlined:
                yield from self._read(self.inlined[slot.value])
            else:
                yield slot.value

    def _last_uses(self) -> dict[OutputPort, int]:
        last: dict[OutputPort, int] = {}
        for place, step in enumerate(self.steps):
            last.update(dict.fromkeys(self._read(step.expression), place))
            if step.carried is not None:
                last[step.carried] = place
        last.update(dict.fromkeys(self._read(self.body.returned), len(self.steps)))
        return last

    def write(self, indent: int) -> list[str]:
        lines: list[str] = []
        returns_call = self._returns_call()
        for place, step in enumerate(self.steps):
            if returns_call and step is self.steps[-1]:
                text = step.expression.render(self._text)
                return lines + format_statement(f"return {text}", indent)
            if step.before is not None:
                lines += step.before(indent)
            if step.repeats is not None:
                lines += self._loop(step, place, indent)
                continue
            text = step.expression.render(self._text)
            text = f"{self._targets(step, place)}{text}"
            if indent + len(text) > WIDTH and step.expression.level < ATOM:
                slots = step.expression.slots()
                self.too_long |= {s.value for s in slots if s.value in self.inlined}
            lines += format_statement(text, indent)
        returned = self.body.returned.render(self._text)
        if indent + len(returned) + 7 > WIDTH:
            slots = self.body.returned.slots()
            self.too_long |= {s.value for s in slots if self._is_operator(s.value)}
        return lines + format_statement(f"return {returned}".rstrip(), indent)

    def _returns_call(self) -> bool:
        """Whether what a function returns is the tuple that its last call does."""
        parts = self.body.returned.parts
        last = self.steps[-1] if self.steps else None
        values = [part.value for part in parts if isinstance(part, Slot)]
        brackets = "".join(part for part in parts if isinstance(part, str))
        return (
            last is not None and last.is_call and len(values) > 1 and not last.targets
            and values == list(last.outputs) and not brackets.strip("(), ")
            and brackets.count("(") < 2
        )  # fmt: skip

    def _loop(self, step: Step, place: int, indent: int) -> list[str]:
        """A loop over modules, each of which gets the result of the one before."""
        assert step.repeats is not None
        assert step.carried is not None
        member, variable = step.repeats
        before = self.names[step.carried]
        name = self._new_name(step, place)
        self.names[step.outputs[0]] = name
        lines = [] if name == before else format_statement(f"{name} = {before}", indent)
        self.names[step.carried] = name
        text = step.expression.render(self._text)
        self.names[step.carried] = before
        lines += format_statement(f"for {variable} in {member}:", indent)
        return lines + format_statement(f"{name} = {text}", indent + 4)

    def _number_text(self, number: Number, /) -> str:
        return self.body.numbers.get(number) or constant_text(number.value)

    def _text(self, slot: Slot | Number) -> str:
        if isinstance(slot, Number):
            return self._number_text(slot)
        inner = self.inlined.get(slot.value)
        if inner is None:
            return self._name_of(slot.value)
        text = inner.render(self._text)
        return f"({text})" if inner.level < slot.level else text

    def _name_of(self, value: OutputPort) -> str:
        return self.names[value]

    def _targets(self, step: Step, place: int) -> str:
        """The variables that a step assigns to, and ` = `."""
        used = [out for out in step.outputs if out in self.last_use]
        if not used:
            return ""
        if len(step.outputs) == 1 and not step.is_list:
            self.names[step.outputs[0]] = self._new_name(step, place)
            return f"{self.names[step.outputs[0]]} = "
        names: list[str] = []
        for out in step.outputs:
            name = "_"
            if out in self.last_use:
                name = free_name(
                    self._stem(step), self._names_in_use(place, set(names))
                )
                self.names[out] = name
            names.append(name)
        text = ", ".join(names)
        if step.targets:
            text = step.targets.format(*names).replace("(_, _)", "_")
        return f"({text},) = " if len(names) == 1 else f"{text} = "

    def _new_name(self, step: Step, place: int) -> str:
        """The name of what a step gives.

        A step that keeps the meaning of its operand keeps the name of it, if nothing
        reads the operand any more; so does any step with a general name, as `x`.
        """
        dead = [
            value for value in ([step.carried] if step.carried else [])
            + list(self._read(step.expression))
            if self.last_use[value] <= place and self._is_like(value, step)
        ]  # fmt: skip
        if step.carried is not None and dead[:1] == [step.carried]:
            return self.names[step.carried]
        stem = self._stem(step)
        if step.is_call and not self._is_alive("x", place):
            stem = "x"
        for value in dead:
            name = self.names[value]
            is_general = _is_general(name) and self.counts.get(value, 0) <= _FEW
            if name == stem or (is_general and not step.has_own_name):
                return name
        return free_name(stem, self._names_in_use(place))

    def _is_alive(self, name: str, place: int) -> bool:
        """Whether a variable has a value that a step, or one after it, reads."""
        return any(
            self.last_use.get(value, -1) >= place
            for value, each in self.names.items() if each == name
        )  # fmt: skip

    def _stem(self, step: Step) -> str:
        """A name for what a step gives: that of its operand if it keeps its meaning."""
        if not step.keeps_name:
            return step.name
        first = next(step.expression.slots(), None)
        if first is None:
            return step.name
        inner = self.inner_steps.get(first.value)
        if inner is not None and first.value in self.inlined:
            return self._stem(inner)
        text = self.names.get(first.value, step.name)
        if text.startswith("getattr("):
            return step.name
        name = re.split(r"[\[(]", text)[0].rpartition(".")[2]
        return name if name.isidentifier() and name != "self" else step.name

    def _is_like(self, value: OutputPort, step: Step) -> bool:
        name = self.names.get(value, "")
        if not name.isidentifier() or name in self.body.reserved:
            return False
        a, b = value.type, step.outputs[0].type
        return (
            isinstance(a, TensorType) and isinstance(b, TensorType)
            and a.dtype.kind == b.dtype.kind
        )  # fmt: skip

    def _names_in_use(self, place: int, more: Iterable[str] = ()) -> set[str]:
        """The names of values that are still read after a step."""
        alive = {
            re.split(r"\W", name)[0] for value, name in self.names.items()
            if self.last_use.get(value, -1) > place
        }  # fmt: skip
        return alive | set(more) | self.body.reserved | _RESERVED


class _StructureWriter(_Writer):
    """Writes a sign in the place of each number."""

    def __init__(self, body: Body, named: Container[OutputPort]) -> None:
        self.found: list[Number] = []
        super().__init__(body, named)

    def _number_text(self, _: Number, /) -> str:
        return "00"

    def _text(self, slot: Slot | Number) -> str:
        if isinstance(slot, Number):
            self.found.append(slot)
        return super()._text(slot)


def _is_general(name: str) -> bool:
    """
    >>> _is_general("x"), _is_general("y_1"), _is_general("query")
    (True, True, False)
    """
    return re.fullmatch(r"[xyz](_\d+)?", name) is not None


def free_name(stem: str, taken: Iterable[str]) -> str:
    """
    >>> free_name("x", {"x", "y"}), free_name("mask", {"mask", "mask_1"})
    ('z', 'mask_2')
    """
    taken = {*taken, *_RESERVED}
    stem = re.sub(r"\W", "_", stem).strip("_") or "x"
    stem = f"x_{stem}" if stem[0].isdigit() else stem
    others = iter("yz") if stem == "x" else iter(())
    name, count = stem, 0
    while name in taken:
        name = next(others, "")
        if not name:
            count += 1
            name = f"{stem}_{count}"
    return name


def returned_tuple(values: Sequence[Expression]) -> Expression:
    """What a function returns: one value, or a tuple."""
    return values[0] if len(values) == 1 else join(values)


__all__ += ["free_name", "returned_tuple"]
