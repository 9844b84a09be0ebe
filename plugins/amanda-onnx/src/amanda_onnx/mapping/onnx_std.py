"""The mapping `onnx-std`: its rules, and what it does before them."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from functools import cache
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, Self

from amanda.dictionary import parse_name
from amanda.errors import AmandaError
from amanda.graph import Graph, Op, OutputPort
from amanda.mapping import Conversion, GapMet, RuleMapping, RuleSet, question
from amanda.mapping.engine.cover import Match, decide
from amanda.mapping.engine.program import Program
from amanda_onnx.format.model_metadata import MODEL_KEY
from amanda_onnx.mapping import lenses
from amanda_onnx.mapping.inlining import inlined
from amanda_onnx.mapping.recurrent.write_recurrent import bare_if
from amanda_onnx.mapping.side import DOMAINS, OnnxSide, onnx_side
from amanda_onnx.mapping.signal.write_signal import tell_halves
from amanda_onnx.mapping.trim import leave_out, trim

__all__ = ["OnnxStd", "rule_set"]


@cache
def rule_set() -> RuleSet:
    """The rule files and functions of the packages beside this module.

    A package is one theme: its `*.rules` files, and the tables `READ` and `WRITE` of
    its modules. Those of higher `PRIORITY` are tried first, then by name.
    """
    rules = RuleSet("onnx-std", "amanda/onnx", "amanda/std")
    lenses.declare(rules)
    for theme in sorted(_themes(), key=_theme_order):
        folder = Path(theme.__path__[0])
        for file in sorted(folder.glob("*.rules")):
            rules.equations(file.read_text("utf-8"), file.name)
        for found in sorted(iter_modules(theme.__path__), key=attrgetter("name")):
            module = import_module(f"{theme.__name__}.{found.name}")
            for head, function in getattr(module, "READ", {}).items():
                rules.read(head)(function)
            for head, function in getattr(module, "WRITE", {}).items():
                rules.write(head)(function)
    return rules


def _themes() -> list[ModuleType]:
    here = Path(__file__).parent
    names = [info.name for info in iter_modules([str(here)]) if info.ispkg]
    return [import_module(f"{__package__}.{name}") for name in names]


def _theme_order(theme: ModuleType) -> tuple[int, str]:
    return -getattr(theme, "PRIORITY", 0), theme.__name__


def _std(_name: str) -> Any:
    from amanda_std.mappings import STD_SIDE

    return STD_SIDE


class OnnxStd(RuleMapping):
    """ONNX to the hub set, and back.

    On the way back, what the opset does not have is decomposed first; the richest op
    that it has is taken. Ops of other domains are taken where the graph imports them.
    """

    def __init__(self) -> None:
        super().__init__(onnx_side, _std, rule_set())
        self._reads_all = True
        self._writers: dict[tuple[tuple[str, int], ...], Self] = {}

    def writing(self, imports: Mapping[str, int]) -> Self:
        """The mapping as it writes graphs with these imports: domains and versions."""
        told = tuple(sorted((d, v) for d, v in imports.items() if d in DOMAINS))
        if told not in self._writers:
            domains = dict(told)
            made = copy(self)
            made.left = cache(
                lambda name: OnnxSide(int(parse_name(name).version or 1), domains)
            )
            made._programs, made._reads_all = {}, False
            self._writers[told] = made
        return self._writers[told]

    def with_rules(self, *paths: str | Path) -> Self:
        made = super().with_rules(*paths)
        made._writers = {}
        return made

    def program(self, source: str, target: str, *, picks_up: bool = False) -> Program:
        """The rules from one version to another; outward, for no other domain."""
        if self._reads_all and target.startswith("amanda/onnx"):
            return self.writing({}).program(source, target, picks_up=picks_up)
        return super().program(source, target, picks_up=picks_up)

    def conversion(
        self,
        graph: Graph,
        to: str,
        *,
        keep_foreign: bool = False,
        gap_met: GapMet | None = None,
        trace: bool = False,
    ) -> Conversion:
        """The graph in the other namespace, and its report."""
        options: dict[str, Any] = {
            "keep_foreign": keep_foreign, "gap_met": gap_met, "trace": trace,
        }  # fmt: skip
        start, goal = self._ends(graph, to)
        if start.startswith("amanda/onnx"):
            graph = inlined(graph)
            done = super().conversion(graph, to, **options)
            trim(graph, done.graph)
            return done
        if self._reads_all and goal.startswith("amanda/onnx"):
            return self.writing(graph.imports).conversion(graph, to, **options)
        refused: set[str] = set()
        while True:
            lowered = self._lowered(graph, start, goal, refused)
            done = super().conversion(lowered, to, **options)
            more = _composites(done) - refused
            if not more:
                trim(lowered, done.graph)
                leave_out(done.graph)
                tell_halves(done.graph)
                _of_its_opset(graph, done.graph)
                return done
            refused |= more

    def composites(self) -> list[str]:
        """The ops of the hub set that are taken apart where no rule takes them."""
        from amanda_std.ops import OPS

        return [name for name, op in OPS.items() if op.is_composite]

    def _lowered(self, graph: Graph, start: str, goal: str, refused: set[str]) -> Graph:
        """A copy with types, in which what no rule takes is decomposed."""
        from amanda_std.mappings import infer, lower, operation_of

        program = self.program(start, goal)

        def takes(op: Op) -> object:
            if op.type in refused:
                return f"{goal} does not take it as it is"
            if not operation_of(op).is_composite:
                return not (op.type == "if" and len(op.inputs) > 1)
            return _taken(program, op) or any(
                _taken(program, user, op)
                for port in op.outputs
                for user in port.user_ops
                if user is not op.graph
            )

        copy = graph.clone()
        infer(copy)
        lower(copy, takes, {"if": bare_if})
        return copy


def _of_its_opset(source: Graph, made: Graph) -> None:
    """The IR version that a file had goes with its opset, and with no other one."""
    notes = made.attrs.get(MODEL_KEY)
    if isinstance(notes, dict) and source.imports.get("") != made.imports.get(""):
        made.attrs[MODEL_KEY] = {k: v for k, v in notes.items() if k != "ir_version"}


def _taken(program: Program, op: Op, inside: Op | None = None) -> bool:
    """Does a rule take this op, and another one with it, as part of a pattern?"""
    ways = program.choice(op.type or "").for_op(op)
    return any(_fits(way, op, inside) for way in ways)


def _fits(way: Any, op: Op, inside: Op | None) -> bool:
    slots: list[Any] = [None] * way.width
    ops: list[Op] = []
    if inside is not None and way.size == 1:
        return False
    if way.take(op, slots, ops) is not None or (inside and inside not in ops):
        return False
    try:
        decide(Match(way, slots, [op]), _asked)
    except AmandaError:
        return False
    return True


def _asked(value: OutputPort, what: str) -> Any:
    return question(value, what)


def _composites(done: Conversion) -> set[str]:
    """The composites among the gaps: what they mean may still be mapped."""
    from amanda_std.ops import OPS

    types = {gap.op for gap in done.report.gaps}
    return {t for t in types if t in OPS and OPS[t].is_composite}
