"""The mapping of one op type as an object that can be saved, loaded and reversed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from amanda.errors import AmandaError, ConversionError
from amanda.graph import Graph, Op, OutputPort
from amanda.mapping.engine.compiled_rule import CompiledRule, RuleMatch
from amanda.mapping.engine.program import RuleProgram
from amanda.mapping.rule_mapping import RuleMapping
from amanda.mapping.rules import protobuf
from amanda.mapping.rules.functions import FunctionRule
from amanda.mapping.rules.rule_set import RuleSet
from amanda.mapping.rules.terms import Equation
from amanda.mapping.side import answer_question, constant_of

__all__ = ["Process", "builds_op"]


class Process:
    """The rules of a mapping for ops of one type, between two versions.

    >>> from amanda.mapping import PlainSide, Signature
    >>> rules = RuleSet("toys", "acme/a", "acme/b")
    >>> rules.equations("Relu(x) <=> relu(x)")
    >>> sides = [PlainSide(n, {t: Signature(("x",))}.get) for n, t in
    ...          (("acme/a/1", "Relu"), ("acme/b/1", "relu"))]
    >>> there = Process.of(RuleMapping(*sides, rules), "Relu", "acme/a/1", "acme/b/1")
    >>> print(there, "|", there.reverse())
    Relu: acme/a/1 -> acme/b/1 | relu: acme/b/1 -> acme/a/1
    """

    def __init__(
        self, type: str, mapping: RuleMapping, source: str, target: str
    ) -> None:
        self.type = type
        self.mapping = mapping
        self.source = source
        self.target = target

    @classmethod
    def of(cls, mapping: RuleMapping, type: str, source: str, target: str) -> Self:
        """The part of a mapping for one op type."""
        program = mapping.program(source, target)
        found = mapping.rules.of_type(type, forward=program.forward)
        if not found:
            raise ConversionError(f"{mapping.rules.name} has no rule for {type}")
        return cls(type, _with_only(mapping, found), source, target)

    @property
    def rules(self) -> RuleSet:
        return self.mapping.rules

    @property
    def program(self) -> RuleProgram:
        return self.mapping.program(self.source, self.target)

    def reverse(self) -> Process:
        """The opposite direction, where some of its rules run both ways."""
        back = not self.program.forward
        types = [row.sides(back)[0].type for row in self.rules.rows if row.runs(back)]
        if not types:
            raise ConversionError(
                f"no rule for {self.type} runs in the opposite direction",
                expected="an equation with <=>",
                got=", ".join(_rule_text(rule) for rule in self._rules),
            )
        return Process(types[0], self.mapping, self.target, self.source)

    @property
    def _rules(self) -> list[Equation | FunctionRule]:
        return [*self.rules.rows, *self.rules.functions]

    def dumps(self) -> bytes:
        """The rules in protobuf form."""
        return protobuf.dumps(self.rules)

    @classmethod
    def loads(
        cls, data: bytes, mapping: RuleMapping, type: str, source: str, target: str
    ) -> Self:
        """Load what `dumps` wrote; sides, lenses and functions are a mapping's."""
        rules = _without_rules(mapping.rules)
        protobuf.loads(rules, data)
        return cls(type, _with_rule_set(mapping, rules), source, target)

    def __call__(
        self, op: Op, graph: Graph, values: Mapping[OutputPort, OutputPort]
    ) -> tuple[OutputPort | None, ...]:
        """The mapped outputs of an op, built at the end of a graph.

        `values` has the values of that graph for the inputs of the op, or of its
        pattern. ConversionError with the reasons where no rule applies.
        """
        making = _SingleOpContext(self.program, graph, dict(values))
        reasons = []
        for rule in self.program.candidates(self.type).near(op):
            try:
                return tuple(rule.first_of(op, making.build_match))
            except AmandaError as why:
                reasons.append(f"{rule.id}: {why.message}")
        raise ConversionError(f"no rule supports {op}", problems=reasons)

    def __str__(self) -> str:
        return f"{self.type}: {self.source} -> {self.target}"


def builds_op(program: RuleProgram, rule: CompiledRule, op: Op) -> bool:
    """Whether a rule for one op builds what the target supports, tried in a graph of
    its own."""
    graph = Graph(program.target.name)
    values = dict.fromkeys(v for v in op.inputs if v is not None)
    inputs = [value for value in values if constant_of(value) is None]
    made = {value: graph.parameter(value.type) for value in inputs}
    making = _SingleOpContext(program, graph, dict(made))
    check = getattr(program.target, "check", None)
    try:
        rule.first_of(op, making.build_match)
        return check is None or not any(
            check(each) for each in graph if not each.is_graph and not each.is_constant
        )
    except AmandaError:
        return False


def _rule_text(rule: Equation | FunctionRule) -> str:
    return rule.full_text if isinstance(rule, Equation) else rule.id


def _without_rules(rules: RuleSet) -> RuleSet:
    made = rules.copy()
    made.rows, made.functions = [], []
    made.lenses = {n: lens for n, lens in made.lenses.items() if lens.rows is None}
    return made


def _with_only(
    mapping: RuleMapping, found: list[Equation | FunctionRule]
) -> RuleMapping:
    rules = mapping.rules.copy()
    rules.rows = [row for row in rules.rows if row in found]
    rules.functions = [function for function in rules.functions if function in found]
    return _with_rule_set(mapping, rules)


def _with_rule_set(mapping: RuleMapping, rules: RuleSet) -> RuleMapping:
    return RuleMapping(mapping.left, mapping.right, rules)


class _SingleOpContext:
    """The context in which rules build a single op."""

    def __init__(
        self, program: RuleProgram, graph: Graph, made: dict[OutputPort, OutputPort]
    ) -> None:
        self.target = program.target
        self.build = program.target.build
        self.graph = graph
        self.made = made

    def build_match(self, match: RuleMatch) -> Sequence[OutputPort | None]:
        """The outputs for the op of a match. AmandaError where a step declines, or
        cannot be decided."""
        rule, slots = match.rule, match.slots
        for step in rule.steps:
            step(slots, self.ask)
        return rule.build(self, self.graph, slots, match.ops[0], None)

    def value(self, value: Any) -> Any:
        if not isinstance(value, OutputPort) or value in self.made:
            return self.made.get(value, value)
        tensor = constant_of(value)
        if tensor is None:
            raise ConversionError(f"no value is given for {value}")
        self.made[value] = self.graph.constant(tensor).output
        return self.made[value]

    def ask(self, value: OutputPort, what: str) -> Any:
        return answer_question(self.made.get(value, value), what)
