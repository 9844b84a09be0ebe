"""Graphs as programs of `jax.export`, for static shapes or for symbolic ones.

Symbolic dims of JAX are not numbers, so shapes cannot be computed while the graph is
traced: shape arguments are what their types say, in the symbols of the inputs.
Composites are expanded first, so that every shape argument is found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count as counting
from typing import Any, Final, NamedTuple

import jax
import numpy as np

from amanda.errors import AmandaError, UsageError
from amanda.graph import Graph, Op, OutputPort
from amanda.types import Dim, Sym, TensorType
from amanda_jax.compile.code import BuildContext
from amanda_jax.compile.jitted_program import TracedProgram
from amanda_jax.compile.partition import why_not_xla
from amanda_jax.compile.specialize import describe
from amanda_jax.compile.trace_context import trace_context
from amanda_jax.cpu_tuning.convolution_weights import kernels_to_channels_last
from amanda_jax.cpu_tuning.steps import NOT_PORTABLE
from amanda_jax.kernels import JAX
from amanda_jax.kernels.symbolic_shapes import KERNELS, DimArgument
from amanda_jax.shapes.static_values import analyze_static_values, is_container
from amanda_jax.weights.device_weights import ProgramConstants
from amanda_std.backends import (
    BODY,
    SHAPE_ARG,
    drop,
    infer,
    lower,
    op_arguments,
    operation_of,
    use_kernels,
)
from amanda_std.backends import StepRunner as StepProgram

__all__ = [
    "TraceableFunction",
    "ExportedGraph",
    "export_graph",
    "export_error",
    "traceable_function",
]

_KERNELS: Final = JAX.also(KERNELS)


class TraceableFunction(NamedTuple):
    """A graph as a function of JAX, and its arguments: weights first."""

    function: Callable[..., Any]
    weights: Sequence[Any]
    arguments: Sequence[Any]
    """The shapes and types of all arguments."""


class ExportedGraph(NamedTuple):
    """A graph as a StableHLO program, and the weights that are its first arguments."""

    program: Any
    """The result of `jax.export.export`."""
    weights: Sequence[Any]


def export_graph(
    graph: Graph,
    build: BuildContext,
    programs: Sequence[TracedProgram],
    symbolic: bool | str | Sequence[str],
) -> ExportedGraph:
    """Export a prepared graph, for the sizes in its types, or those of the last call.

    `symbolic`: for all sizes that its types leave open, or those for which conditions
    such as `"s <= 512"` hold. `programs`: those that calls have compiled."""
    function, weights, arguments = traceable_function(graph, build, programs, symbolic)
    platform = build.weights.device.platform
    with jax.enable_x64(True):
        own = None if platform == jax.default_backend() else [platform]
        try:
            jitted = jax.jit(function, keep_unused=True)
            program = jax.export.export(jitted, platforms=own)(*arguments)
        except (AmandaError, NotImplementedError, TypeError, ValueError) as error:
            raise export_error(error, bool(symbolic)) from error
    return ExportedGraph(program, weights)


def traceable_function(
    graph: Graph,
    build: BuildContext,
    programs: Sequence[TracedProgram] = (),
    symbolic: bool | str | Sequence[str] = False,
) -> TraceableFunction:
    """The graph as a function that JAX can trace, with x64 types enabled."""
    _expect_whole(graph)
    if symbolic:
        graph = _lower(graph)
        if build.weights.has_layouts:  # of kernels whose tiles cannot be counted now
            kernels_to_channels_last(graph, use_winograd=True, symbolic=True)
            drop(graph)
        symbols = _Symbols(graph, _conditions(symbolic))
        feeds: Sequence[Any] = [_feed_type(port, symbols) for port in graph.parameters]
        symbols.expect_solved(feeds)
        steps: StepProgram = _SymbolicSteps(graph, symbols)
        kernels = _KERNELS
    else:
        feeds = _feed_types(graph, programs)
        steps, kernels = StepProgram(graph, JAX), JAX
    static = analyze_static_values(graph).constants
    constants = ProgramConstants(
        graph, steps, build.weights, static, symbolic=bool(symbolic), portable=True
    )
    count = len(constants.arrays)
    settings = build.settings
    without = (*settings.without, *NOT_PORTABLE)

    def function(*values: Any) -> Any:
        with (
            trace_context(python_driven=False, without=without),
            use_kernels(kernels),
            jax.default_matmul_precision(settings.precision),
            np.errstate(all="ignore"),
        ):
            weights = constants.with_arrays(values[:count])
            return steps.run(values[count:], weights=weights)

    function.__name__ = function.__qualname__ = graph.name or "graph"
    struct: Any = jax.ShapeDtypeStruct
    weights = constants.arrays
    types = [struct(w.shape, w.dtype) for w in weights]
    return TraceableFunction(function, weights, [*types, *feeds])


def export_error(error: Exception, symbolic: bool) -> UsageError:
    """The error for a graph that cannot be traced whole."""
    got = str(getattr(error, "got", None) or "")
    said = [getattr(error, "message", f"{type(error).__name__}: {error}"), got]
    problem = ": ".join(part.partition("\n")[0] for part in said if part)
    if not symbolic:
        return UsageError("the graph cannot be one program", problems=[problem])
    return UsageError(
        "the graph cannot be one program for all sizes",
        problems=[problem],
        hint="name the sizes that it supports, as symbolic='s <= 512', or save it "
        "for the sizes of one call, without symbolic=True",
    )


def _expect_whole(graph: Graph) -> None:
    """Raise an error, with all reasons, for a graph that cannot be one program."""
    problems = [
        f"{op.label}: {why}" for op in graph if (why := why_not_xla(op)) is not None
    ]
    problems += [
        f"{describe(port)} decides a shape, and is known only at run time"
        for port in analyze_static_values(graph).data
    ]
    problems += [
        f"{describe(port)} is a container, and files have no {port.type}"
        for port in (*graph.parameters, *graph.results)
        if port is not None and is_container(port)
    ]
    if problems:
        raise UsageError("the graph cannot be one program", problems=problems)


def _feed_types(graph: Graph, programs: Sequence[TracedProgram]) -> Sequence[Any]:
    """The shapes of a program: those of the input types, or of the last call."""
    types = [port.type for port in graph.parameters]
    if all(map(_is_complete, types)):
        return [_feed_type(port, None) for port in graph.parameters]
    last_call = programs[0].last_call() if len(programs) == 1 else None
    if last_call is None:
        raise UsageError(
            "the sizes for which to save the program are not known",
            got=", ".join(f"{describe(p)}: {p.type}" for p in graph.parameters),
            hint="call it once; or save it for all sizes, with symbolic=True",
        )
    return last_call[1][len(programs[0].weights) :]


def _is_complete(found: object) -> bool:
    return (
        isinstance(found, TensorType)
        and found.shape.is_static
        and found.dtype.kind != "unknown"
    )


# -- symbolic sizes --------------------------------------------------------------------


def _lower(graph: Graph) -> Graph:
    """A copy in ops that have kernels, with types inferred."""
    copy = graph.clone()
    lower(copy, lambda op: op.type in JAX)
    infer(copy)
    return copy


class _Symbols:
    """The symbols in the types of the inputs, as JAX has them."""

    def __init__(self, graph: Graph, conditions: Sequence[str]) -> None:
        dims = [dim for port in graph.parameters for dim in _ranked_type(port).shape]
        found = {
            _atom(symbol): symbol.name or ""
            for dim in dims
            for symbol in sorted(_free_symbols(dim), key=str)
        }
        own = {name: atom for atom, name in found.items() if _is_valid_name(name)}
        unused_names = (name for i in counting() if (name := f"dim{i}") not in own)
        self._names = {
            atom: name if own.get(name) == atom else next(unused_names)
            for atom, name in found.items()
        }
        self._conditions = conditions
        self._scope = self._create_scope()

    def _create_scope(self) -> Any:
        """A scope of JAX in which the conditions hold; UsageError if one is invalid."""
        found = jax.export.SymbolicScope()
        for i, condition in enumerate(self._conditions, 1):
            try:
                found = jax.export.SymbolicScope(self._conditions[:i])
            except Exception as error:
                raise self._condition_error(condition, error) from error
        return found

    def expect_solved(self, feeds: Sequence[Any]) -> None:
        """Raise UsageError where conditions are about sizes that no input has."""
        if not self._conditions:
            return
        nothing = jax.jit(lambda *_: (), keep_unused=True)
        try:
            with jax.enable_x64(True):
                jax.export.export(nothing)(*feeds)
        except Exception as error:
            raise self._condition_error(", ".join(self._conditions), error) from error

    def _condition_error(self, condition: str, error: Exception) -> UsageError:
        said = f"{type(error).__name__}: {error}".partition("\n")[0]
        return UsageError(
            "JAX cannot use this as a condition on the sizes of the inputs",
            where="symbolic",
            expected="<=, >= or == between expressions of "
            + (", ".join(self._names.values()) or "sizes: none is symbolic"),
            got=condition,
            problems=[said],
        )

    def has(self, dim: Dim) -> bool:
        """Whether a dim is an expression of these symbols alone."""
        return all(_atom(symbol) in self._names for symbol in _free_symbols(dim))

    def dim(self, dim: Dim) -> Any:
        if not isinstance(dim, Sym):
            return dim
        [found] = jax.export.symbolic_shape(self._text(dim.terms), scope=self._scope)
        return found

    def _text(self, terms: Any) -> str:
        pairs = ("*".join([str(n), *map(self._factor, part)]) for part, n in terms)
        return " + ".join(pairs) or "0"

    def _factor(self, atom: Any) -> str:
        if atom in self._names:
            return self._names[atom]
        function, operands = atom[1], ", ".join(map(self._text, atom[4]))
        return f"{_CALLS.get(function, function)}({operands})"


def _conditions(symbolic: bool | str | Sequence[str]) -> Sequence[str]:
    if isinstance(symbolic, bool):
        return ()
    many = _split_conditions(symbolic) if isinstance(symbolic, str) else symbolic
    return [each.strip() for each in many]


def _split_conditions(text: str) -> list[str]:
    """Split a string at the commas outside parentheses.

    >>> _split_conditions("mod(s, 8) == 0, s <= 512")
    ['mod(s, 8) == 0', ' s <= 512']
    """
    depth, parts = 0, [""]
    for letter in text:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


_RESERVED: Final = ("mod", "floordiv", "max", "min", "non_negative")
_CALLS: Final = {"//": "floordiv"}


def _is_valid_name(name: str) -> bool:
    """Whether JAX accepts this as the name of a size."""
    return name.isidentifier() and name.isascii() and name not in _RESERVED


def _atom(symbol: Sym) -> Any:
    return symbol.terms[0][0][0]


def _free_symbols(dim: Dim) -> frozenset[Sym]:
    return dim.free if isinstance(dim, Sym) else frozenset()


def _ranked_type(port: OutputPort) -> TensorType:
    """The type of an input, whose rank and element type have to be known."""
    own = port.type
    ranked = isinstance(own, TensorType) and own.shape.has_rank
    if isinstance(own, TensorType) and ranked and own.dtype.kind != "unknown":
        return own
    raise UsageError(
        f"{describe(port)} has no type, so its symbolic sizes are not known",
        expected="an element type and a rank",
        got=own,
        hint="save it for the sizes of one call: without symbolic=True",
    )


def _feed_type(port: OutputPort, symbols: _Symbols | None) -> Any:
    own = _ranked_type(port)
    struct: Any = jax.ShapeDtypeStruct
    dims = own.shape if symbols is None else [symbols.dim(dim) for dim in own.shape]
    return struct(tuple(dims), own.dtype.numpy)


class _SymbolicSteps(StepProgram):
    """Steps whose shape arguments are what their types say, where these do."""

    def __init__(self, graph: Graph, symbols: _Symbols) -> None:
        self._symbols = symbols
        super().__init__(graph, _KERNELS)

    def body_runner(self, graph: Graph) -> StepProgram:
        return _SymbolicSteps(graph, self._symbols)

    def bind_kernel(self, op: Op) -> tuple[Callable[..., Any], list[int]]:
        call, ins = super().bind_kernel(op)
        args, _ = op_arguments(op, lambda port: port)
        params = operation_of(op).form.params_of(len(args))
        pairs = [row for row in zip(params, args, strict=True) if row[0].role != BODY]
        contents = {
            i: found
            for i, (param, arg) in enumerate(pairs)
            if param.role == SHAPE_ARG and isinstance(arg, OutputPort)
            if (found := self._content_by_type(arg)) is not None
        }
        return (partial(_replace_arguments, contents, call) if contents else call), ins

    def _content_by_type(self, port: OutputPort) -> Any:
        """The content of a shape argument by its type, for JAX."""
        own = port.type
        if not isinstance(own, TensorType) or own.elements is None:
            return None
        if not all(map(self._symbols.has, own.elements)):
            return None
        return _symbolic_content(own.value, self._symbols.dim)


def _symbolic_content(value: Any, dim: Callable[[Dim], Any]) -> Any:
    if isinstance(value, tuple):
        return tuple(_symbolic_content(each, dim) for each in value)
    return DimArgument(dim(value))


def _replace_arguments(
    contents: Mapping[int, Any], call: Callable[..., Any], *args: Any
) -> Any:
    """Call with these arguments instead of the computed ones."""
    return call(*(contents.get(i, arg) for i, arg in enumerate(args)))
