"""The dictionary of the hub, derived from the definitions of ops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from amanda.errors import NamespaceError
from amanda.host import host_in_use
from amanda_std.engine.links import NAMESPACE

if TYPE_CHECKING:
    from amanda.dictionary import Attr, Dictionary, OpDef, Port
    from amanda.frontend import Function, TrainingGraph
    from amanda.graph import Graph, Op, OutputPort
    from amanda.types import Type
    from amanda_std.engine.annotations import ArgKind, Param
    from amanda_std.engine.operation import Operation
    from amanda_std.engine.values import Value
    from amanda_std.hub.mapping_side import StdMappingSide

VERSION = "1"

_INTEGERS = ("int", "uint")


class StdNamespace:
    """`amanda/std/1`: op types and their definitions as dictionary entries."""

    name = NAMESPACE

    def __contains__(self, op_type: object, /) -> bool:
        from amanda_std.ops import OPS

        return op_type in OPS

    def __getitem__(self, op_type: str, /) -> OpDef:
        from amanda_std.ops import find

        return entry(find(op_type))

    def get(self, op_type: str) -> OpDef | None:
        """The definition of an op; None if there is no such op."""
        from amanda_std.ops import OPS, find

        return entry(find(op_type)) if op_type in OPS else None

    def __iter__(self) -> Iterator[str]:
        from amanda_std.ops import OPS

        return iter(sorted(OPS))

    def __len__(self) -> int:
        from amanda_std.ops import OPS

        return len(OPS)

    def __getattr__(self, name: str) -> Any:
        """Everything of a dictionary: `validate`, `diff`, `search`, `fill`, builders
        ..."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(_dictionary(), name)

    def signature(self, op_type: str) -> Any:
        """The signature for the mapping engine; None if there is no such op."""
        from amanda_std.hub.mapping_side import STD_SIDE

        return STD_SIDE.signature(op_type)

    def missing(self) -> dict[str, list[str]]:
        """What the definitions of ops lack, by op; empty if complete."""
        from amanda_std.hub.op_table import missing_declarations

        return missing_declarations()

    @property
    def side(self) -> StdMappingSide:
        """The side of mappings."""
        from amanda_std.hub.mapping_side import STD_SIDE

        return STD_SIDE

    # -- definitions of ops by others, for `amanda.mapping.lower` --------------------

    def is_composite(self, op_type: str, /) -> bool:
        """Whether an op type has a definition by other ops: primitives may have one."""
        from amanda_std.ops import OPS

        return op_type in OPS and OPS[op_type].definition is not None

    def infer(self, graph: Graph, /) -> object:
        """Add inferred types to the values of a graph, in place."""
        from amanda_std.passes import infer

        return infer(graph)

    def fold(self, graph: Graph, /) -> object:
        """Replace ops of constants by their results, where small, in place."""
        from amanda_std.passes import fold

        return fold(graph)

    def assign_layout(self, graph: Graph, layout: str, /) -> object:
        """Convert ops to a layout of data, such as NC*, in place."""
        from amanda_std.passes.layout import assign_layout

        return assign_layout(graph, layout)

    def complex_as_pairs(
        self, graph: Graph, keeps: Callable[[Op], bool] | None = None, /
    ) -> object:
        """Replace complex numbers by pairs of real ones, in place."""
        from amanda_std.passes.complex_pairs import complex_as_pairs

        return complex_as_pairs(graph, keeps)

    def explicit_state(self, graph: Graph, /) -> object:
        """Replace variables by inputs and results of the graph, in place."""
        from amanda_std.passes.explicit_state import explicit_state

        return explicit_state(graph)

    def implicit_state(self, graph: Graph, /) -> object:
        """Replace inputs and results of the graph by the variables that they are."""
        from amanda_std.passes.explicit_state import implicit_state

        return implicit_state(graph)

    def stable_form(self, graph: Graph, /) -> Graph:
        """A copy with formulas replaced by stable ops; else the graph itself."""
        from amanda_std.passes.stable import stable_form

        return stable_form(graph)

    def expand(
        self, op: Op, definition: Callable[..., Any] | None = None, /
    ) -> Sequence[Op]:
        """Replace an op by its definition, one level deep; returns the new ops."""
        from amanda_std.hub.expansion import expand

        return expand(op, definition, "lower")

    # -- building by hand ------------------------------------------------------------

    def trace(
        self,
        function: Callable[..., Any],
        types: Sequence[Type | None],
        name: str | None = None,
        names: Sequence[str | None] = (),
    ) -> Graph:
        """Trace a Python function over ops to a root graph."""
        from amanda_std.frontend.functions import trace_root

        return trace_root(function, types, name, names)

    def call(
        self, function: Function, args: Sequence[Any], settings: Mapping[str, Any]
    ) -> Any:
        """Call a traced function; on values of a graph this adds an op `call`."""
        from amanda_std.frontend.functions import call_function

        return call_function(function, args, settings)

    def grad(
        self,
        graph: Graph,
        of: Any,
        wrt: Sequence[Any],
        hooks: Mapping[Any, Sequence[Callable[[Any], Any]]] | None = None,
    ) -> list[Any]:
        """Gradients as ops at the end of a graph: ports for ports, values for
        values."""
        from amanda_std.frontend.functions import gradients_of_values

        return gradients_of_values(graph, of, wrt, hooks)

    def training_graph(self, *arguments: Any) -> TrainingGraph:
        """One step of an optimizer as a graph: see `amanda.train`."""
        from amanda_std.autodiff.training import training_graph

        return training_graph(*arguments)

    def value_of(self, port: OutputPort) -> Value:
        """A port as a value, which the ops take."""
        from amanda_std.engine.values import Value

        return Value(port)

    def inline_calls(self, graph: Graph) -> int:
        """Replace nested graphs and calls of functions by their ops, in bodies too."""
        from amanda_std.passes.inline_calls import inline_calls

        return inline_calls(graph)

    def lift_values(
        self, graph: Graph, values: Sequence[tuple[OutputPort, str]]
    ) -> list[tuple[OutputPort, OutputPort] | str]:
        """Carry values out of the bodies of control flow: see `passes.lift_values`."""
        from amanda_std.passes.lift_values import lift_values

        return lift_values(graph, values)

    def calling(
        self,
        graph: Graph,
        inputs: Sequence[OutputPort | None],
        function: Callable[..., Any],
        name: str,
        types: Sequence[Type],
    ) -> Sequence[OutputPort]:
        """Add an op that calls a Python function, registered with the host in use."""
        host_in_use().register_callback(name, function, replace=True)
        attrs = {"function": name, "types": tuple(map(str, types))}
        return self.side.build(graph, "host_callback", inputs, attrs)


@cache
def _dictionary() -> Dictionary:
    from amanda.dictionary import Dictionary

    made = Dictionary.of(StdNamespace())
    assert made is not None
    return made


class StdDictionaryHistory:
    """The versions of the hub; there is one."""

    def versions(self) -> Sequence[str]:
        return [VERSION]

    def at(self, version: str) -> StdNamespace:
        if version != VERSION:
            raise NamespaceError(
                f"there is no version {version} of amanda/std", expected=VERSION
            )
        return StdNamespace()


HISTORY = StdDictionaryHistory()


@cache
def entry(operation: Operation) -> OpDef:
    """The dictionary entry of an op, from its form."""
    from amanda_std.hub.argument_docs import argument_docs

    found = _entry_of_form(operation)
    return found.with_docs(argument_docs(operation, found))


def _entry_of_form(operation: Operation) -> OpDef:
    from amanda.dictionary import Attr, OpDef
    from amanda_std.engine.annotations import BODY, SHAPE_ARG, TENSOR, ArgKind
    from amanda_std.engine.attribute_kinds import attributes_of

    form = operation.form
    tensors = [p for p in form.params if p.role == TENSOR]
    shared = [p.kind for p in tensors if p.kind.shared]
    own = [p for p in tensors if not p.kind.shared and p.kind.kinds]
    variables = [_type_variable("T", shared[0])] if shared else []
    variables += [_type_variable(_own_type_variable(p.name), p.kind) for p in own]
    computed = [p for p in form.params if p.role == SHAPE_ARG]
    variables += [
        _type_variable(_own_type_variable(p.name), ArgKind(kinds=_INTEGERS))
        for p in computed
    ]
    known = {variable.name for variable in variables} | set(form.attributes)
    hosts = [Attr(p.name, "any", False) for p in computed]
    bodies = [
        Attr(p.name, "graph[]" if p.kind.many else "graph")
        for p in form.params
        if p.role == BODY
    ]
    return OpDef(
        operation.name,
        inputs=tuple(_input_port(p, known) for p in form.params if p.role != BODY),
        outputs=_outputs(operation, known),
        attrs=(*hosts, *bodies, *attributes_of(operation)),
        variables=tuple(variables),
        traits=_traits(operation),
        tags=frozenset(["composite" if operation.is_composite else "primitive"]),
        since=VERSION,
        doc=operation.doc,
    )


def _traits(operation: Operation) -> frozenset[str]:
    traits = {"commutative": operation.commutative, "stateful": operation.effect}
    return frozenset(name for name, there in traits.items() if there)


def _own_type_variable(name: str) -> str:
    """The type variable of a tensor whose dtype is independent of T."""
    return f"T_{name}"


def _input_port(param: Param, known: set[str]) -> Port:
    from amanda.dictionary import Port
    from amanda_std.engine.annotations import SHAPE_ARG

    if param.role == SHAPE_ARG:
        return Port(param.name, _own_type_variable(param.name), "optional")
    type_ = _value_type(param.kind, _own_type_variable(param.name), known)
    if param.variadic:
        return Port(param.name, type_, "many")
    return Port(param.name, type_, "optional" if param.optional else "one")


def _value_type(kind: ArgKind, own: str, known: set[str]) -> Any:
    """The type of a value in an entry: a variable, any tensor, or any value."""
    from amanda.types import unknown
    from amanda_std.engine.annotations import TENSOR

    if kind.role != TENSOR:
        return "any"
    if kind.derive is not None:
        return unknown
    name = "T" if kind.shared else own
    return name if name in known else unknown


def _outputs(operation: Operation, known: set[str]) -> tuple[Port, ...]:
    from amanda.dictionary import Port

    form = operation.form
    names = (
        ["y"] if len(form.results) == 1 else [f"y{i}" for i in range(len(form.results))]
    )
    rows = zip(names, form.results, strict=True)
    return tuple(
        Port(name, _result_type(kind, known), "many" if form.varies else "one")
        for name, kind in rows
    )


def _result_type(kind: ArgKind, known: set[str]) -> Any:
    return kind.attribute or kind.dtype or _value_type(kind, "", known)


def _type_variable(name: str, kind: ArgKind) -> Attr:
    from amanda.dictionary import Attr
    from amanda.types import DType, dtype_names

    allowed = tuple(
        dtype for dtype in map(DType, dtype_names()) if dtype.kind in kind.kinds
    )
    return Attr(name, "type" if allowed else "dtype", allowed=allowed)
