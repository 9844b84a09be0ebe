"""Graphs as programs of `jax.export`: for shapes that are known, or for all of a kind.

Symbolic dims of JAX are no numbers, so shapes that the graph computes are not followed
on the host here: what types say of host arguments, in the symbols of the inputs, is
what they are. Composites are expanded first, so that no host argument is out of sight.
"""

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
from amanda_jax.compile.code import Build
from amanda_jax.compile.jitted_program import Program
from amanda_jax.compile.partition import why_outside
from amanda_jax.compile.passes import kernels_last
from amanda_jax.compile.specialize import called
from amanda_jax.compile.trace_context import running
from amanda_jax.kernels import JAX
from amanda_jax.kernels.symbolic_shapes import ROWS, Size
from amanda_jax.shapes.dynamic_shapes import Bounded
from amanda_jax.shapes.static_values import followed, holds
from amanda_jax.weights.device_weights import Held
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
from amanda_std.backends import StepRunner as Steps

__all__ = ["Traceable", "Written", "exported", "refused", "traceable"]

_KERNELS: Final = JAX.also(ROWS)


class Traceable(NamedTuple):
    """A graph as a function of JAX, with what it is called with: weights first."""

    function: Callable[..., Any]
    weights: Sequence[Any]
    forms: Sequence[Any]


class Written(NamedTuple):
    """A graph as a program of StableHLO, and the weights that it is called with."""

    program: Any
    """What `jax.export.export` gives."""
    weights: Sequence[Any]


def exported(
    graph: Graph,
    build: Build,
    used: Sequence[Program | Bounded],
    symbolic: bool | str | Sequence[str],
) -> Written:
    """A graph that is `prepared`, for the sizes of its types, or those used last.

    Symbolic: for all sizes that its types leave open, or those for which texts as
    `"s <= 512"` hold."""
    function, weights, forms = traceable(graph, build, used, symbolic)
    platform = build.weights.device.platform
    with jax.enable_x64(True):
        own = None if platform == jax.default_backend() else [platform]
        try:
            whole = jax.jit(function, keep_unused=True)
            program = jax.export.export(whole, platforms=own)(*forms)
        except (AmandaError, NotImplementedError, TypeError, ValueError) as error:
            raise refused(error, bool(symbolic)) from error
    return Written(program, weights)


def traceable(
    graph: Graph,
    build: Build,
    used: Sequence[Program | Bounded] = (),
    symbolic: bool | str | Sequence[str] = False,
) -> Traceable:
    """The same before JAX has traced it, which 64-bit types are to be on for."""
    _expect_whole(graph)
    if symbolic:
        graph = _expanded(graph)
        if build.weights.in_tiles:  # but where nobody can count them now
            kernels_last(graph, in_tiles=True, symbolic=True)
            drop(graph)
        symbols = _Symbols(graph, _conditions(symbolic))
        forms: Sequence[Any] = [_form(port, symbols) for port in graph.parameters]
        symbols.expect_solved(forms)
        steps: Steps = _Symbolic(graph, symbols)
        kernels = _KERNELS
    else:
        forms = _forms(graph, used)
        steps, kernels = Steps(graph, JAX), JAX
    constants = followed(graph).constants
    held = Held(graph, steps, build.weights, constants, symbolic=bool(symbolic))
    count = len(held.moved)
    options = build.settings

    def function(*values: Any) -> Any:
        with (
            running(host_driven=False, without=options.without),
            use_kernels(kernels),
            jax.default_matmul_precision(options.precision),
            np.errstate(all="ignore"),
        ):
            return steps.run(values[count:], weights=held.among(values[:count]))

    function.__name__ = function.__qualname__ = graph.name or "graph"
    form: Any = jax.ShapeDtypeStruct
    given = [form(w.shape, w.dtype) for w in held.moved]
    return Traceable(function, held.moved, [*given, *forms])


def refused(error: Exception, symbolic: bool) -> UsageError:
    """What the user is told of a graph that cannot be traced whole."""
    told = str(getattr(error, "got", None) or "")
    said = [getattr(error, "message", f"{type(error).__name__}: {error}"), told]
    problem = ": ".join(part.partition("\n")[0] for part in said if part)
    if not symbolic:
        return UsageError("the graph cannot be one program", problems=[problem])
    return UsageError(
        "the graph is no program for all sizes",
        problems=[problem],
        hint="say for which it is, as symbolic='s <= 512', or save it for the sizes "
        "of one call, without symbolic=True",
    )


def _expect_whole(graph: Graph) -> None:
    """An error for what no one program can be, with all reasons."""
    problems = [
        f"{op.label}: {why}" for op in graph if (why := why_outside(op)) is not None
    ]
    problems += [
        f"{called(port)} decides a shape, and only a run tells it"
        for port in followed(graph).data
    ]
    problems += [
        f"{called(port)} is no tensor, and a file has no {port.type}"
        for port in (*graph.parameters, *graph.results)
        if port is not None and holds(port)
    ]
    if problems:
        raise UsageError("the graph cannot be one program", problems=problems)


def _forms(graph: Graph, used: Sequence[Program | Bounded]) -> Sequence[Any]:
    """What a program is to take: as the inputs say, or as it was called last."""
    types = [port.type for port in graph.parameters]
    if all(map(_is_settled, types)):
        return [_form(port, None) for port in graph.parameters]
    again = used[0].again() if len(used) == 1 else None
    if again is None:
        raise UsageError(
            "nobody knows for which sizes the program is to be",
            got=", ".join(f"{called(p)}: {p.type}" for p in graph.parameters),
            hint="call it once; or leave the sizes open, with symbolic=True",
        )
    return again[1][len(used[0].weights) :]


def _is_settled(found: object) -> bool:
    return (
        isinstance(found, TensorType)
        and found.shape.is_static
        and found.dtype.kind != "unknown"
    )


# -- sizes that stay open --------------------------------------------------------------


def _expanded(graph: Graph) -> Graph:
    """A copy in ops that have kernels; what is left of shapes is in their types."""
    copy = graph.clone()
    lower(copy, lambda op: op.type in JAX)
    infer(copy)
    return copy


class _Symbols:
    """The symbols that the types of the inputs have, as JAX has them."""

    def __init__(self, graph: Graph, conditions: Sequence[str]) -> None:
        dims = [dim for port in graph.parameters for dim in _ranked(port).shape]
        found = {
            _atom(symbol): symbol.name or ""
            for dim in dims
            for symbol in sorted(_free(dim), key=str)
        }
        own = {name: atom for atom, name in found.items() if _is_readable(name)}
        spare = (name for i in counting() if (name := f"dim{i}") not in own)
        self._names = {
            atom: name if own.get(name) == atom else next(spare)
            for atom, name in found.items()
        }
        self._conditions = conditions
        self._scope = self._scoped()

    def _scoped(self) -> Any:
        """Where JAX knows that the conditions hold; UsageError for one it cannot
        read."""
        found = jax.export.SymbolicScope()
        for i, condition in enumerate(self._conditions, 1):
            try:
                found = jax.export.SymbolicScope(self._conditions[:i])
            except Exception as error:
                raise self._wrong(condition, error) from error
        return found

    def expect_solved(self, forms: Sequence[Any]) -> None:
        """UsageError where the conditions are about what no input tells."""
        if not self._conditions:
            return
        nothing = jax.jit(lambda *_: (), keep_unused=True)
        try:
            with jax.enable_x64(True):
                jax.export.export(nothing)(*forms)
        except Exception as error:
            raise self._wrong(", ".join(self._conditions), error) from error

    def _wrong(self, condition: str, error: Exception) -> UsageError:
        said = f"{type(error).__name__}: {error}".partition("\n")[0]
        return UsageError(
            "this is no condition that JAX can hold the sizes of the inputs to",
            where="symbolic",
            expected="<=, >= or == between what is made of "
            + (", ".join(self._names.values()) or "sizes: none is open"),
            got=condition,
            problems=[said],
        )

    def has(self, dim: Dim) -> bool:
        """Whether a dim is made of these symbols alone."""
        return all(_atom(symbol) in self._names for symbol in _free(dim))

    def dim(self, dim: Dim) -> Any:
        if not isinstance(dim, Sym):
            return dim
        [found] = jax.export.symbolic_shape(self._text(dim.terms), scope=self._scope)
        return found

    def _text(self, terms: Any) -> str:
        rows = ("*".join([str(n), *map(self._factor, part)]) for part, n in terms)
        return " + ".join(rows) or "0"

    def _factor(self, atom: Any) -> str:
        if atom in self._names:
            return self._names[atom]
        function, operands = atom[1], ", ".join(map(self._text, atom[4]))
        return f"{_CALLS.get(function, function)}({operands})"


def _conditions(symbolic: bool | str | Sequence[str]) -> Sequence[str]:
    if isinstance(symbolic, bool):
        return ()
    many = _parted(symbolic) if isinstance(symbolic, str) else symbolic
    return [each.strip() for each in many]


def _parted(text: str) -> list[str]:
    """A text at the commas that are in no parentheses.

    >>> _parted("mod(s, 8) == 0, s <= 512")
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


_WORDS: Final = ("mod", "floordiv", "max", "min", "non_negative")
_CALLS: Final = {"//": "floordiv"}


def _is_readable(name: str) -> bool:
    """Whether JAX takes this for the name of a size."""
    return name.isidentifier() and name.isascii() and name not in _WORDS


def _atom(symbol: Sym) -> Any:
    return symbol.terms[0][0][0]


def _free(dim: Dim) -> frozenset[Sym]:
    return dim.free if isinstance(dim, Sym) else frozenset()


def _ranked(port: OutputPort) -> TensorType:
    """The type of an input, of which rank and element type are known."""
    own = port.type
    ranked = isinstance(own, TensorType) and own.shape.has_rank
    if isinstance(own, TensorType) and ranked and own.dtype.kind != "unknown":
        return own
    raise UsageError(
        f"{called(port)} has no type, so nobody knows which of its sizes are open",
        expected="an element type and a rank",
        got=own,
        hint="save it for the sizes of one call: without symbolic=True",
    )


def _form(port: OutputPort, symbols: _Symbols | None) -> Any:
    own = _ranked(port)
    form: Any = jax.ShapeDtypeStruct
    dims = own.shape if symbols is None else [symbols.dim(dim) for dim in own.shape]
    return form(tuple(dims), own.dtype.numpy)


class _Symbolic(Steps):
    """Steps whose host arguments are what their types say, where these tell."""

    def __init__(self, graph: Graph, symbols: _Symbols) -> None:
        self._symbols = symbols
        super().__init__(graph, _KERNELS)

    def _inside(self, graph: Graph) -> Steps:
        return _Symbolic(graph, self._symbols)

    def _call(self, op: Op) -> tuple[Callable[..., Any], list[int]]:
        call, ins = super()._call(op)
        args, _ = op_arguments(op, lambda port: port)
        params = operation_of(op).form.each(len(args))
        rows = [row for row in zip(params, args, strict=True) if row[0].role != BODY]
        told = {
            i: found
            for i, (param, arg) in enumerate(rows)
            if param.role == SHAPE_ARG and isinstance(arg, OutputPort)
            if (found := self._told(arg)) is not None
        }
        return (partial(_instead, told, call) if told else call), ins

    def _told(self, port: OutputPort) -> Any:
        """What the type of a host argument says that it holds, for JAX."""
        own = port.type
        if not isinstance(own, TensorType) or own.elements is None:
            return None
        if not all(map(self._symbols.has, own.elements)):
            return None
        return _nested(own.value, self._symbols.dim)


def _nested(value: Any, dim: Callable[[Dim], Any]) -> Any:
    if isinstance(value, tuple):
        return tuple(_nested(each, dim) for each in value)
    return Size(dim(value))


def _instead(told: Mapping[int, Any], call: Callable[..., Any], *args: Any) -> Any:
    """A call with these arguments in place of what was computed."""
    return call(*(told.get(i, arg) for i, arg in enumerate(args)))
