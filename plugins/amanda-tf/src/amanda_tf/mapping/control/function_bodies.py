"""Functions of the library, inlined where they are called, else as bodies of ops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from amanda.errors import FormatError
from amanda.graph import Graph, Op
from amanda.mapping import expect_bounded_calls, inline_functions_in_place
from amanda.tensors import FunctionRef
from amanda_tf.effects import has_effects
from amanda_tf.nodes.attributes import PLACEHOLDER
from amanda_tf.notes import CONTROL_OUTPUT

__all__ = ["expand_functions", "expand_functions_in_place", "names_of_needed"]

_BODIES: Final = {
    "If": ("then_branch", "else_branch"), "StatelessIf": ("then_branch", "else_branch"),
    "While": ("cond", "body"), "StatelessWhile": ("cond", "body"),
    "Case": ("branches",), "StatelessCase": ("branches",), "MapDefun": ("f",),
    "XlaWhile": ("cond", "body"),
    "XlaReduce": ("reducer",), "XlaVariadicReduceV2": ("reducer",),
    "XlaReduceWindow": ("computation",), "XlaScatter": ("update_computation",),
    "XlaSelectAndScatter": ("select", "scatter"),
    "For": ("body",),
}  # fmt: skip
"""The attributes that name functions, by op type."""

_CALLS: Final = ("PartitionedCall", "StatefulPartitionedCall", "RemoteCall")


def expand_functions(graph: Graph) -> Graph:
    """A copy without a library: calls are inlined, other functions are bodies."""
    if not graph.functions:
        return graph
    copy = graph.clone(functions=names_of_needed(graph, graph.functions))
    expand_functions_in_place(copy)
    return copy


def expand_functions_in_place(copy: Graph) -> None:
    """Inline the calls of functions, and make other functions bodies of ops."""
    needed = names_of_needed(copy, copy.functions)
    for name in list(copy.functions):
        if name not in needed:
            copy.remove_function(name)
    library = dict(copy.functions)
    named = {
        op: [library[name] for name in names]
        for op in copy.walk()
        if (names := _names_of_functions(op, library))
    }
    expect_bounded_calls(copy, named.get)
    for part in (*library.values(), copy):
        waiting = list(part.walk())
        while waiting:
            op = waiting.pop()
            for body in _attach_bodies(op, library):
                waiting += body.walk()

    def callee(op: Op) -> Graph | None:
        name = op.type
        if name in _CALLS:
            named = op.attrs.get("f")
            name = named.name if isinstance(named, FunctionRef) else None
        return None if op.own_namespace is not None else library.get(name or "")

    inline_functions_in_place(copy, callee, _specialize)


def names_of_needed(ops: Iterable[Op], library: Mapping[str, Graph]) -> set[str]:
    """The names of the functions that some ops of the root graph need."""
    needed: set[str] = set()
    waiting = list(ops)
    while waiting:
        op = waiting.pop()
        for name in _names_of_functions(op, library):
            if name not in needed:
                needed.add(name)
                waiting += library[name].walk()
        for inner in (op,) if isinstance(op, Graph) else op.bodies.values():
            waiting += inner.walk()
    return needed


def _specialize(op: Op, function: Graph) -> Graph:
    """The function, with the attributes of a call; its effects stay."""
    for each in function:
        if has_effects(each):
            each.attrs[CONTROL_OUTPUT] = True
    if not any(map(_has_placeholder, function.walk())):
        return function
    copy = function.clone()
    given = op.attrs if op.has_attrs else {}
    for each in copy.walk():
        for key, value in list(each.attrs.items()) if each.has_attrs else ():
            if isinstance(value, dict) and PLACEHOLDER in value:
                name = value[PLACEHOLDER]
                if name in given:
                    each.attrs[key] = given[name]
    return copy


def _has_placeholder(op: Op) -> bool:
    """Whether an attribute is one of the function's call."""
    values = op.attrs.values() if op.has_attrs else ()
    return any(isinstance(value, dict) and PLACEHOLDER in value for value in values)


def _attach_bodies(op: Op, library: dict[str, Graph]) -> list[Graph]:
    """Replace the names of functions in attributes by bodies; returns these."""
    made = []
    for key in _BODIES.get(op.type or "", ()) if op.own_namespace is None else ():
        named = op.attrs.get(key)
        for name, ref in _references(key, named):
            function = library.get(ref.name)
            if function is None:
                raise FormatError(
                    f"{key} names a function that the library lacks", who=op.label,
                    got=ref.name,
                )  # fmt: skip
            body = function.clone()
            for port in body.parameters:  # known by the inputs of the op
                port.type = None
            op.set_body(name, body)
            made.append(body)
        if isinstance(named, list):
            op.attrs[key] = []  # the bodies are branches0, branches1 etc.
        elif made and key in op.attrs:
            del op.attrs[key]
    return made


def _references(key: str, named: Any) -> list[tuple[str, FunctionRef]]:
    if isinstance(named, FunctionRef):
        return [(key, named)]
    if isinstance(named, list):
        return [(f"{key}{i}", ref) for i, ref in enumerate(named)]
    return []


def _names_of_functions(op: Op, library: Mapping[str, Graph]) -> list[str]:
    """The functions that an op calls or has as bodies, as often as it names them."""
    names = [op.type or ""]
    for value in op.attrs.values() if op.has_attrs else ():
        if value.__class__ is FunctionRef:
            names.append(value.name)
        elif value.__class__ is list:
            names += [item.name for item in value if item.__class__ is FunctionRef]
    return [name for name in names if name in library]
