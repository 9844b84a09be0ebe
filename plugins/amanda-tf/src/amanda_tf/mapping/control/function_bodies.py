"""Functions of the library, inlined where they are called, else as bodies of ops."""

from __future__ import annotations

from typing import Any, Final

from amanda.errors import FormatError, LimitError
from amanda.graph import Graph, Op
from amanda.mapping import inline_functions
from amanda.tensors import FunctionRef
from amanda_tf.attributes import PLACEHOLDER

__all__ = ["expand_functions"]

_BODIES: Final = {
    "If": ("then_branch", "else_branch"), "StatelessIf": ("then_branch", "else_branch"),
    "While": ("cond", "body"), "StatelessWhile": ("cond", "body"),
    "Case": ("branches",), "StatelessCase": ("branches",), "MapDefun": ("f",),
    "For": ("body",),
}  # fmt: skip
"""The attributes that name functions, by op type."""

_CALLS: Final = ("PartitionedCall", "StatefulPartitionedCall", "RemoteCall")
_MAX_OPS: Final = 1 << 18


def expand_functions(graph: Graph) -> Graph:
    """A copy without a library: calls are inlined, other functions are bodies."""
    if not graph.functions:
        return graph
    _expect_bounded(graph)
    copy = graph.clone()
    library = dict(copy.functions)
    for part in (*library.values(), copy):
        waiting = list(part.walk())
        while waiting:
            op = waiting.pop()
            for body in _attach_bodies(op, library):
                waiting += body.walk()
    return inline_functions(copy, _callee, _specialize)


def _callee(op: Op) -> Graph | None:
    """The function that a call runs."""
    root = op.graph
    while root is not None and not root.functions:
        above = root.holder.graph if root.holder is not None else root.owner
        root = above if above is not None else root.graph
    if root is None:
        return None
    if op.type in _CALLS:
        named = op.attrs.get("f")
        return (
            root.functions.get(named.name) if isinstance(named, FunctionRef) else None
        )
    return root.functions.get(op.type or "") if op.own_namespace is None else None


def _specialize(op: Op, function: Graph) -> Graph:
    """A copy of a function, with the attributes of a call."""
    copy = function.clone()
    given = op.attrs if op.has_attrs else {}
    for each in copy.walk():
        for key, value in list(each.attrs.items()) if each.has_attrs else ():
            if isinstance(value, dict) and PLACEHOLDER in value:
                name = value[PLACEHOLDER]
                if name in given:
                    each.attrs[key] = given[name]
    return copy


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
        if made and key in op.attrs:
            del op.attrs[key]
    return made


def _references(key: str, named: Any) -> list[tuple[str, FunctionRef]]:
    if isinstance(named, FunctionRef):
        return [(key, named)]
    if isinstance(named, list):
        return [(f"{key}_{i}", ref) for i, ref in enumerate(named)]
    return []


def _expect_bounded(graph: Graph) -> None:
    """Raise LimitError where functions are recursive or expand to too many ops."""
    sizes: dict[str, int] = {}
    active: set[str] = set()
    stack = list(graph.functions)
    users = {name: _used_functions(body) for name, body in graph.functions.items()}
    while stack:
        name = stack[-1]
        pending = [each for each in users[name] if each not in sizes and each in users]
        if name in sizes or not pending:
            own = sum(1 for _ in graph.functions[name].walk())
            sizes[name] = own + sum(sizes.get(each, 0) for each in users[name])
            active.discard(name)
            stack.pop()
            continue
        if name in active and any(each in active for each in pending):
            raise LimitError("a function of the library calls itself", who=name)
        active.add(name)
        stack += dict.fromkeys(pending)
    total = sum(sizes.get(each, 0) for each in _used_functions(graph))
    if total > _MAX_OPS:
        raise LimitError(
            "calls of functions expand to too many ops",
            expected=f"at most {_MAX_OPS}", got=total,
        )  # fmt: skip


def _used_functions(graph: Graph) -> list[str]:
    """The functions that ops name, as often as they do."""
    found = []
    for op in graph.walk():
        found.append(op.type or "")
        for value in op.attrs.values() if op.has_attrs else ():
            items = value if isinstance(value, list) else [value]
            found += [item.name for item in items if isinstance(item, FunctionRef)]
    return found
