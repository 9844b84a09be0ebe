"""Graphs of Python functions, and the gradients of graphs.

    @amanda.function
    def dense(x, w, b):
        return ops.relu(x @ w + b)

    graph = dense.graph("float32[batch, 4]", "float32[4, 8]", "float32[8]")
    graph = dense.graph(*arrays)      the types are those of the arrays
    y = dense(x, w, b)                on values of another graph: an op of it
    y = dense(*arrays)                on arrays: computed at once

The core has no ops: tracing, calls of functions and gradients are implemented by the
namespace that the function is written in.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import update_wrapper
from typing import (
    Annotated,
    Any,
    ForwardRef,
    Protocol,
    get_args,
    get_origin,
    overload,
)
from weakref import WeakKeyDictionary

from amanda.backend import target_of
from amanda.errors import AmandaError, InvalidTypeError, UsageError
from amanda.graph import Graph, Op, OutputPort
from amanda.host import Host, host_in_use, use_host
from amanda.types import (
    DType,
    Sym,
    TensorType,
    Type,
    accepts,
    dims_equal,
    parse_type,
)

__all__ = ["FrontendNamespace", "Function", "function", "grad"]

HUB = "amanda/std/1"
_LEFT_OUT = object()


class FrontendNamespace(Protocol):
    """Methods of a namespace whose graphs are written in Python; each is optional."""

    def trace(
        self,
        function: Callable[..., Any],
        types: Sequence[Type | None],
        name: str | None = None,
        names: Sequence[str | None] = (),
    ) -> Graph:
        """A root graph of a Python function over values of these types."""

    def call(
        self, function: Function, args: Sequence[Any], settings: Mapping[str, Any]
    ) -> Any:
        """Call a function on arrays, on types, or on values, where it adds an op."""

    def grad(
        self,
        graph: Graph,
        of: OutputPort,
        wrt: Sequence[OutputPort],
        hooks: Mapping[OutputPort, Sequence[Callable[[Any], Any]]] | None = None,
    ) -> Sequence[OutputPort]:
        """The gradients of the sum of `of`, as ops at the end of the graph.

        `hooks` are functions of complete gradients of values, which may return others;
        with hooks, new ops have the forward op as their provenance, by `gradient`."""

    def training_graph(
        self,
        model: Graph,
        loss: str | Callable[..., Any],
        given: Mapping[str, Any],
        optimizer: str,
        weights: Iterable[str] | None,
        settings: Mapping[str, Any],
    ) -> Any:
        """A `TrainingGraph`: one step of an optimizer; see `amanda.train`."""

    def value_of(self, port: OutputPort) -> Any:
        """A port as a value that the functions of the namespace take."""

    def inline_calls(self, graph: Graph) -> int:
        """Replace nested graphs and calls of functions by their ops."""

    def lift_values(
        self, graph: Graph, values: Sequence[tuple[OutputPort, str]]
    ) -> Sequence[tuple[OutputPort, OutputPort] | str]:
        """Carry values out of the bodies of control flow.

        A value comes with how its executions combine: last, sum, mean, max or min. For
        each, the combined value and the number of executions, or why there is none."""


class Function:
    """A Python function over values, as graphs and as an op; created by `function`.

    - `name`: the name of its graphs
    - `namespace`: the namespace of its ops
    - `python`: the function itself
    """

    def __init__(
        self, python: Callable[..., Any], namespace: str, name: str | None, host: Host
    ) -> None:
        self.python = python
        self.namespace = namespace
        self.name = name or getattr(python, "__name__", "function").strip("<>")
        self.held: WeakKeyDictionary[Graph, dict[Any, Any]] = WeakKeyDictionary()
        """Cache of the namespace: the function in each graph that calls it."""
        self.backward: Callable[..., Any] | None = None
        """The function of its custom gradient, if any."""
        self._host = host
        self._signature = inspect.signature(python)
        for p in self._signature.parameters.values():
            if p.kind is p.VAR_KEYWORD:
                raise UsageError(
                    f"the function {self.name!r} has arbitrary keyword parameters",
                    got=f"**{p.name}",
                    hint="name its parameters: those behind * are settings, the others "
                    "are values",
                )
        update_wrapper(self, python)

    def gradient(self, python: Callable[..., Any]) -> Callable[..., Any]:
        """Set a custom gradient: a function of the arguments, the results, and the
        gradients of the results, which returns a gradient for each argument.

        It must be set before the function is called. Settings are passed by name."""
        if self.held:
            raise UsageError(
                f"the function {self.name!r} was called before it had a gradient",
                hint="declare the gradient right after the function",
            )
        self.backward = python
        return python

    def graph(self, *types: Any, **named: Any) -> Graph:
        """A new graph of the function.

        A type is a Type, its text, or that of an array or a value. Missing types are
        those of the annotations, or unknown: set `graph.parameters[i].type` later, and
        infer. Settings are passed by name."""
        told, settings = self._bind_arguments(types, named, complete=False)
        for p in self._signature.parameters.values():
            is_needed = p.kind is p.KEYWORD_ONLY and p.default is p.empty
            if is_needed and p.name not in settings:
                raise UsageError(
                    f"the function {self.name!r} needs the setting {p.name!r}",
                    expected=f"{self.name}.graph(..., {p.name}=...)",
                )
        names = self.names(len(told))
        known = self.annotated_types(names)
        found: list[Type | None] = []
        inputs = []
        given: dict[str, Type | None] = {}
        for i, (name, each) in enumerate(zip(names, told, strict=True)):
            if each is not _LEFT_OUT or known[name] is not None:
                type = None if each is _LEFT_OUT else _type_of(repr(name), each)
                found.append(known[name] if type is None else type)
                given[name] = type
                inputs.append(i)
        self.expect_arguments(given)
        call = self.calling(len(told), inputs, settings)
        with use_host(self._host):
            build = find_capability(self.namespace, "trace", "traces no functions")
            made: Graph = build(call, found, self.name, [names[i] for i in inputs])
        self.expect_results([None if v is None else v.type for v in made.results])
        return made

    def calling(
        self, count: int, inputs: Sequence[int], settings: Mapping[str, Any]
    ) -> Callable[..., Any]:
        """The function with only some of its `count` arguments."""
        defaults = [p.default for p in self._positional]

        def call(*values: Any) -> Any:
            args: list[Any] = (defaults + [None] * count)[:count]
            for i, value in zip(inputs, values, strict=True):
                args[i] = value
            return self.python(*args, **settings)

        return call

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Compute, infer or add an op, for arrays, types or values.

        Calls with arguments of the same types share one function of the graph."""
        given, settings = self._bind_arguments(args, named)
        given = [None if each is _LEFT_OUT else each for each in given]
        with use_host(self._host):
            call = find_capability(self.namespace, "call", "calls no functions")
            return call(self, given, settings)

    # -- arguments ---------------------------------------------------------------------

    def _bind_arguments(
        self, args: Sequence[Any], named: Mapping[str, Any], *, complete: bool = True
    ) -> tuple[list[Any], dict[str, Any]]:
        """Positional arguments, and settings, which are keyword-only."""
        signature = self._signature
        try:
            bind = signature.bind if complete else signature.bind_partial
            bound = bind(*args, **named)
        except TypeError as error:
            raise UsageError(
                f"the function {self.name!r} cannot be called with these arguments",
                expected=f"{self.name}{_bare_signature(signature)}",
                got=str(error),
            ) from None
        given: list[Any] = []
        settings: dict[str, Any] = {}
        for p in signature.parameters.values():
            if p.kind is p.KEYWORD_ONLY:
                if p.name in bound.arguments:
                    settings[p.name] = bound.arguments[p.name]
            elif p.kind is p.VAR_POSITIONAL:
                given += bound.arguments.get(p.name, ())
            else:
                is_open = p.default is p.empty
                given.append(
                    bound.arguments.get(p.name, None if is_open else _LEFT_OUT)
                )
        return given, settings

    @property
    def _positional(self) -> list[inspect.Parameter]:
        kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_POSITIONAL)
        parameters = self._signature.parameters.values()
        return [p for p in parameters if p.kind not in kinds]

    def names(self, count: int) -> list[str]:
        """The names of `count` arguments; those of `*xs` are `xs_0`, `xs_1` ..."""
        found: list[str] = []
        for p in self._signature.parameters.values():
            if p.kind is p.VAR_POSITIONAL:
                found += [f"{p.name}_{i}" for i in range(count - len(found))]
            elif p.kind is not p.KEYWORD_ONLY:
                found.append(p.name)
        return found

    def annotated_types(self, names: Sequence[str]) -> dict[str, Type | None]:
        """The annotated types of parameters; None without an annotation."""
        found: dict[str, Type | None] = dict.fromkeys(names)
        for p in self._signature.parameters.values():
            if p.kind is p.KEYWORD_ONLY:
                continue
            type = _annotated_types(self.python, p.name, p.annotation)
            several = [n for n in names if n.startswith(f"{p.name}_")]
            for name in several if p.kind is p.VAR_POSITIONAL else [p.name]:
                found[name] = type
        return found

    def expect_arguments(self, given: Mapping[str, Type | None]) -> None:
        """Raise an error if types differ from the annotations of their parameters.

        A symbol stands for the same dim in all parameters."""
        symbols: dict[str, tuple[Any, str]] = {}
        for name, wanted in self.annotated_types(list(given)).items():
            got = given.get(name)
            if not isinstance(wanted, TensorType) or not isinstance(got, TensorType):
                continue
            names_differ = wanted.axes and got.axes and wanted.axes != got.axes
            fits = accepts(wanted, got) is not False and not names_differ
            if fits and _bind_symbols(symbols, name, wanted, got):
                continue
            known = ", ".join(f"{s} = {d} of {n!r}" for s, (d, n) in symbols.items())
            raise InvalidTypeError(
                f"the function {self.name!r} does not take this",
                where=f"argument {name!r}",
                expected=f"{wanted}{f', where {known}' if known else ''}",
                got=TensorType(got.dtype, got.shape, got.axes),
                hint="change the value, or the annotation",
            )

    def expect_results(self, found: Sequence[Type | None]) -> None:
        """Raise an error if the types of results differ from the annotation."""
        raw = self._signature.return_annotation
        told = _annotated_types(self.python, "return", raw)
        wanted = told if isinstance(told, list) else [told]
        if told is None or (isinstance(told, list) and not any(told)):
            return
        if len(wanted) != len(found):
            raise InvalidTypeError(
                f"the function {self.name!r} has results that are not annotated",
                expected=f"{len(wanted)} results",
                got=f"{len(found)} results",
            )
        for i, (due, got) in enumerate(zip(wanted, found, strict=True)):
            if not isinstance(due, TensorType) or not isinstance(got, TensorType):
                continue
            if accepts(due, got) is False:
                raise InvalidTypeError(
                    f"the function {self.name!r} does not return what it is annotated "
                    "with",
                    where=f"result {i}",
                    expected=due,
                    got=got,
                    hint="change what it computes, or the annotation",
                )

    def __repr__(self) -> str:
        parameters = _bare_signature(self._signature)
        return f"<function {self.name}{parameters} of {self.namespace}>"


@overload
def function(python: Callable[..., Any], /) -> Function: ...
@overload
def function(
    *, namespace: str = ..., name: str | None = ..., host: Host | None = ...
) -> Callable[[Callable[..., Any]], Function]: ...
def function(
    python: Callable[..., Any] | None = None,
    /,
    *,
    namespace: str = HUB,
    name: str | None = None,
    host: Host | None = None,
) -> Function | Callable[[Callable[..., Any]], Function]:
    """Turn a Python function over values into a `Function`: graphs, and an op.

    Positional parameters are values, optionally with annotated types: `x:
    "float32[batch, 4]"`. Keyword-only parameters are settings: constants that decide
    the structure. The function returns the results; a dict names them.
    """
    host = host or host_in_use()
    if python is None:
        return lambda python: Function(python, namespace, name, host)
    return Function(python, namespace, name, host)


def grad(graph: Graph, of: Any, wrt: Any, *, host: Host | None = None) -> Any:
    """Add the gradients of the sum of `of` with respect to `wrt`; returns their values.

    Both are values, ops or names (of results, ops, inputs). If `wrt` is a list, so is
    the returned value. Gradients are ops at the end of the graph, and may be
    differentiated again; to return them from the graph, add them to its results.
    """
    if graph.namespace is None:
        raise UsageError(
            "the graph has no namespace, so the meaning of its ops is unknown",
            hint="create it with one: Graph('amanda/std/1')",
        )
    many = isinstance(wrt, list | tuple)
    targets = [_value(graph, each) for each in (wrt if many else [wrt])]
    with use_host(host):
        add_gradients = find_capability(graph.namespace, "grad", "has no gradients")
        found = list(add_gradients(graph, _value(graph, of), targets))
    return found if many else found[0]


def find_capability(space: str, what: str, lacks: str) -> Any:
    """An optional method of a namespace, such as `trace`."""
    found = host_in_use().namespace(space)
    if getattr(type(found), what, None) is None:
        raise UsageError(
            f"the namespace {space} {lacks}",
            expected=f"a namespace whose plug-in brings {what!r}, as {HUB} does",
            hint=f"amanda.convert(graph, {HUB!r}) first",
        )
    return getattr(found, what)


def _value(graph: Graph, target: Any) -> Any:
    """The value of a target, which may also be the name of an input."""
    if isinstance(target, str):
        for port in graph.parameters:
            if port.name == target:
                return port
    if isinstance(target, str | Op):
        return target_of(graph, target)
    return target


# -- types -----------------------------------------------------------------------------


def _type_of(name: str, told: Any) -> Type | None:
    """The type of a type, its text, an array or a value."""
    if told is None or isinstance(told, Type):
        return told
    if isinstance(told, str):
        try:
            return parse_type(told)
        except AmandaError as error:
            error.who = f"parameter {name}"
            raise
    if isinstance(told, OutputPort) or isinstance(getattr(told, "type", None), Type):
        found: Type | None = told.type
        return found
    if hasattr(told, "dtype") and hasattr(told, "shape"):
        return TensorType(DType.of(told), told.shape)
    raise UsageError(
        "this is not a type",
        who=f"parameter {name}",
        expected="a type, its text, an array or a value",
        got=type(told).__name__,
    )


def _bind_symbols(
    symbols: dict[str, tuple[Any, str]], name: str, wanted: TensorType, got: TensorType
) -> bool:
    """Whether the symbols of an annotation stand for the dims of other arguments."""
    if not (wanted.shape.has_rank and got.shape.has_rank):
        return True
    for due, dim in zip(wanted.shape, got.shape, strict=True):
        if isinstance(due, Sym) and not due.is_anonymous:
            first, _ = symbols.setdefault(str(due), (dim, name))
            if dims_equal(first, dim) is False:
                return False
    return True


def _annotated_types(python: Callable[..., Any], name: str, raw: Any) -> Any:
    """The Type of an annotation, a list of several, or None."""
    if raw is inspect.Parameter.empty:
        return None
    who = f"{name!r} of {python.__qualname__}"
    if isinstance(raw, str):
        text = raw.strip("'\"")
        try:
            return parse_type(text)
        except AmandaError as error:
            fault = error
        try:
            raw = inspect.get_annotations(python, eval_str=True).get(name, raw)
        except (AttributeError, NameError, SyntaxError, TypeError):
            if "[" not in text:
                return None
            fault.who = f"parameter {who}"
            raise fault from None
    if get_origin(raw) is tuple:
        return [_type_in_annotation(word, who) for word in get_args(raw)]
    return _type_in_annotation(raw, who)


def _type_in_annotation(raw: Any, who: str) -> Type | None:
    """A Type, its text, or one of them in `Annotated`."""
    words = get_args(raw)[1:] if get_origin(raw) is Annotated else (raw,)
    for word in words:
        if isinstance(word, Type):
            return word
        if isinstance(word, str | ForwardRef):
            return _type_of(who, getattr(word, "__forward_arg__", word))
    return None


def _bare_signature(signature: inspect.Signature) -> str:
    """The parameters without annotations."""
    empty = inspect.Parameter.empty
    bare = [p.replace(annotation=empty) for p in signature.parameters.values()]
    return str(inspect.Signature(bare))
