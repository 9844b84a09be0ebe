"""Rules that are functions, for ops whose arguments decide what is built.

A function that reads (left to right) or writes (right to left) is called with the
inputs of an op by position, its attributes and bodies by name, and returns the outputs:

    @rules.read("Gemm[7:]")
    def gemm(o, a, b, c=None, *, alpha, beta, transA, transB):
        y = o.matmul(o.transpose(a) if transA else a, ...)

A first parameter `o` is the builder of the target side; where that side's ops are
functions themselves (a `TracingSide`), they may be called directly and `o` omitted. A
parameter `outputs` gets the number of outputs of the op, and `context` a builder, which
has the graph, constants, types and the version. An attribute that the function does not
name must have its default.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import PurePath
from string import digits
from typing import Any

from amanda.dictionary import parse_name
from amanda.errors import Undecided, UsageError
from amanda.graph import Graph, Op, OutputPort, is_note
from amanda.mapping.engine.adapters import convert_value
from amanda.mapping.engine.compiled_rule import (
    CompiledRule,
    EmitContext,
    InactiveRule,
    MatchOp,
    Slots,
    describe_value,
)
from amanda.mapping.engine.matcher import (
    OUTPUT_COUNT,
    is_count,
    is_uncovered,
    require_signature,
    with_hints,
)
from amanda.mapping.lenses.lens import equivalent_values
from amanda.mapping.rules.terms import OpTerm
from amanda.mapping.side import (
    REQUIRED,
    Decline,
    Side,
    Signature,
    TracingSide,
    answer_question,
)
from amanda.types import Type

__all__ = ["Builder", "FunctionRule", "compile_function"]

BUILDER = "o"
CONTEXT = "context"


class Builder:
    """Builds ops of the target side: `o.Shape(x, start=1)`.

    An op with one output returns that value, others a tuple. `outputs` is the number of
    outputs where the op type does not determine it.
    """

    __slots__ = ("graph", "side", "source")

    def __init__(self, side: Side, graph: Graph, source: Op) -> None:
        self.side = side
        self.graph = graph
        self.source = source
        """The op that is being mapped; read-only."""

    @property
    def version(self) -> str:
        """The version of the target; empty for none."""
        return parse_name(self.side.name).version or ""

    @property
    def source_graph(self) -> Graph | None:
        """The graph of the op; read-only."""
        return self.source.graph

    def content(self, value: Any) -> Any:
        """The content of a constant value as numbers and lists, else None."""
        try:
            return answer_question(value, "content") if _is_port(value) else value
        except Undecided:
            return None

    def type(self, value: OutputPort) -> Type | None:
        """The inferred type of a value of the target."""
        return value.type

    def op(self, type: str, /, *args: Any, **attrs: Any) -> Any:
        """Build an op whose type is not a Python name."""
        signature = self.side.signature(type)
        if signature is None:
            raise Decline(f"{self.side.name} has no op {type}")
        count = signature.outputs
        if OUTPUT_COUNT not in signature.attrs:
            given = attrs.pop(OUTPUT_COUNT, 1)
            if count is not None and given > count:
                raise Decline(f"{type} of {self.side.name} has {count} outputs")
            count = given if count is None else count
        bodies = {k: v for k, v in attrs.items() if isinstance(v, Graph)}
        given = {
            key: convert_value(value)
            for key, value in attrs.items()
            if key not in bodies and not _is_default(value, signature, key)
        }
        args = tuple(map(convert_value, args))
        made = self.side.build(
            self.graph, type, args, given, outputs=1 if count is None else count,
            bodies=bodies or None,
        )  # fmt: skip
        return made[0] if len(made) == 1 else made

    def __getattr__(self, type: str) -> Callable[..., Any]:
        if type.startswith("__"):
            raise AttributeError(type)

        def make(*args: Any, **attrs: Any) -> Any:
            return self.op(type, *args, **attrs)

        return make


def _is_port(value: Any) -> bool:
    return isinstance(value, OutputPort)


def _is_default(value: Any, signature: Signature, key: str) -> bool:
    """Whether an attribute has its default."""
    return value is None or equivalent_values(value, signature.attrs.get(key))


@dataclass(frozen=True, slots=True)
class FunctionRule:
    """A function for ops of one type, in one direction."""

    call: Callable[..., Any]
    term: OpTerm
    """The op type and its versions, without arguments."""
    forward: bool
    file: str
    name: str = ""
    """Its name in rule files."""

    @property
    def id(self) -> str:
        return f"{self.file}:{self.call.__name__}"

    @property
    def place(self) -> str:
        """Its file and line, where they are known."""
        code = getattr(inspect.unwrap(self.call), "__code__", None)
        if code is None:
            return self.file
        return f"{PurePath(code.co_filename).name}:{code.co_firstlineno}"


@dataclass(frozen=True, slots=True)
class _FunctionParameters:
    """The parameters of a mapping function, by role."""

    builder: bool
    outputs: bool
    context: bool
    positional: int
    needed: int
    takes_rest: bool
    keywords: frozenset[str]
    optional: frozenset[str]
    takes_all: bool


def _read_parameters(call: Callable[..., Any]) -> _FunctionParameters:
    parameters = list(inspect.signature(call).parameters.values())
    builder = bool(parameters) and parameters[0].name == BUILDER
    inputs = [
        p
        for p in parameters[builder:]
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    keywords = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
    optional = {p.name for p in parameters if p.default is not p.empty}
    kinds = {p.kind for p in parameters}
    return _FunctionParameters(
        builder,
        OUTPUT_COUNT in keywords,
        CONTEXT in keywords,
        len(inputs),
        sum(p.default is p.empty for p in inputs),
        inspect.Parameter.VAR_POSITIONAL in kinds,
        frozenset(keywords),
        frozenset(keywords & optional),
        inspect.Parameter.VAR_KEYWORD in kinds,
    )


def compile_function(
    function: FunctionRule,
    source: Side,
    target: Side,
    hints: frozenset[str] = frozenset(),
) -> CompiledRule:
    """Compile a function for two sides; InactiveRule if it does not apply."""
    signature = with_hints(require_signature(source, function.term), hints)
    form = _read_parameters(function.call)
    if not form.builder and not isinstance(target, TracingSide):
        raise InactiveRule(
            f"{function.call.__name__} has no first parameter {BUILDER!r}, and the "
            f"ops of {target.name} are not called directly"
        )
    match_op = _compile_matcher(form, signature)
    make = _compile_call(function.call, form, signature, target)
    text = f"{function.term.type}{function.term.versions} by {function.call.__name__}"
    return CompiledRule(function.id, text, 1, 0, match_op, (), make, is_function=True)


def _compile_matcher(form: _FunctionParameters, signature: Signature) -> MatchOp:
    count = None if form.takes_rest else form.positional
    covered = form.keywords | frozenset(signature.inputs[:count])
    if form.takes_all:
        covered |= signature.attrs.keys()
    if is_count(signature, OUTPUT_COUNT):
        covered |= {OUTPUT_COUNT}
    lists = {key.rstrip(digits) for key in covered if form.takes_all}  # of bodies

    def match_op(op: Op, _slots: Slots, ops: list[Op]) -> str | None:
        ops.append(op)
        if count is not None:
            for i, value in enumerate(op.inputs[count:], count):
                if value is not None:
                    return f"input {i} is not covered"
        if op.has_attrs:
            for key, value in op.attrs.items():
                if key not in covered and is_uncovered(signature, key, value):
                    return f"the attribute {key}={describe_value(value)} is not covered"
        for key in op.bodies:
            if key not in covered and key.rstrip(digits) not in lists:
                return f"the body {key} is not covered"
        return None

    return match_op


def _compile_call(
    call: Callable[..., Any],
    form: _FunctionParameters,
    signature: Signature,
    target: Side,
) -> Callable[[EmitContext, Graph, Slots, Op, str | None], Sequence[OutputPort | None]]:
    tracing = target if isinstance(target, TracingSide) else None
    seen: Any = getattr(tracing, "value", None)

    def make(
        run: EmitContext, graph: Graph, _slots: Slots, op: Op, _name: str | None
    ) -> Sequence[OutputPort | None]:
        args, named = _arguments(run, op, form, signature)
        if form.builder:
            args.insert(0, Builder(target, graph, op))
        elif tracing is not None:
            args = [seen(v) if isinstance(v, OutputPort) else v for v in args]
        if form.outputs:
            named[OUTPUT_COUNT] = len(op.outputs)
        if form.context and CONTEXT not in signature.attrs:
            named[CONTEXT] = Builder(target, graph, op)
        with nullcontext() if tracing is None else tracing.tracing(graph):
            found = call(*args, **named)
            if not isinstance(found, tuple | list):
                return [_to_port(found, tracing, graph)]
            return [_to_port(value, tracing, graph) for value in found]

    return make


def _arguments(
    run: EmitContext, op: Op, form: _FunctionParameters, signature: Signature
) -> tuple[list[Any], dict[str, Any]]:
    args = [run.value(value) for value in op.inputs]
    held = {k: v for k, v in op.attrs.items() if not is_note(k)} if op.has_attrs else {}
    if op.bodies:
        held.update((key, run.value(body)) for key, body in op.bodies.items())
    if held:
        for i, name in enumerate(signature.inputs):
            if name in held:
                args += [None] * (i + 1 - len(args))
                if args[i] is None:
                    args[i] = held.pop(name)
    while len(args) > form.needed and args[-1] is None:
        args.pop()
    if len(args) < form.needed:
        args += [None] * (form.needed - len(args))
    named: dict[str, Any] = {}
    if form.takes_all:
        bodies = [key for key in op.bodies if key in held]
        keys: Iterable[str] = [*signature.attrs, *bodies]
    else:
        keys = form.keywords
    for key in keys:
        if key in (OUTPUT_COUNT, CONTEXT) and key not in signature.attrs:
            continue
        value = held.get(key, signature.attrs.get(key))
        if value is REQUIRED:
            raise Decline(f"the attribute {key} is missing")
        if value is not None or key not in form.optional:
            named[key] = value
    return args, named


def _to_port(value: Any, side: TracingSide | None, graph: Graph) -> OutputPort | None:
    if value is None or isinstance(value, OutputPort):
        return value
    if side is None:
        raise UsageError(
            "a mapping function returns values of the graph",
            got=describe_value(value),
            hint="make it a constant: o.graph.constant(Tensor.of(...)).output",
        )
    return side.port(value, graph)
