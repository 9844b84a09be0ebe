"""Selection of ops by name, position, type, attributes or reachability."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import translate
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from amanda.errors import GraphError
from amanda.graph import _order
from amanda.graph._op import Op
from amanda.graph._port import Parameter, ValueLike, value_port

if TYPE_CHECKING:
    from amanda.graph._graph import Graph


@runtime_checkable
class NamedOp(Protocol):
    """An object with the name of an op type, such as an op definition."""

    @property
    def name(self) -> str: ...


class Ops:
    """The ops of a graph as a collection."""

    __slots__ = ("_graph",)

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def __iter__(self) -> Iterator[Op]:
        return iter(self._graph)

    def __len__(self) -> int:
        return self._graph._count

    def __contains__(self, key: object) -> bool:
        return key in self._graph

    def __getitem__(self, key: str | int) -> Op:
        """The op of this name (O(1)), or at this position (O(n))."""
        graph = self._graph
        if isinstance(key, str):
            op = graph._names.get(key)
            if op is None:
                raise KeyError(f"{graph.label} has no op named {key!r}")
            return op
        index = key + graph._count if key < 0 else key
        if not 0 <= index < graph._count:
            raise IndexError(f"{graph.label} has {graph._count} ops, not one at {key}")
        if index < graph._count // 2:
            return next(islice(graph, index, None))
        return next(islice(reversed(graph), graph._count - 1 - index, None))

    def select(
        self,
        type: str | NamedOp | Iterable[str | NamedOp] | None = None,
        *,
        name: str | re.Pattern[str] | None = None,
        namespace: str | None = None,
        attrs: Mapping[str, Any] | None = None,
        where: Callable[[Op], bool] | None = None,
        deep: bool = False,
    ) -> list[Op]:
        """The ops that satisfy all given conditions, in topological order.

        `type` is a name or an op definition, such as `onnx.Relu`, or several of them.
        `name` is a shell pattern or a compiled regular expression; `namespace` includes
        its sub-namespaces; `deep` includes ops of bodies, nested graphs and functions.
        """
        tests: list[Callable[[Op], bool]] = []
        if type is not None:
            given = [type] if isinstance(type, str | NamedOp) else type
            types = {getattr(kind, "name", kind) for kind in given}
            tests.append(lambda op: op.type in types)
        if name is not None:
            pattern = re.compile(translate(name)) if isinstance(name, str) else name
            tests.append(
                lambda op: op.name is not None and bool(pattern.fullmatch(op.name))
            )
        if namespace is not None:
            tests.append(lambda op: _is_in_namespace(op.namespace, namespace))
        if attrs:
            tests.append(lambda op: _has_attrs(op, attrs))
        if where is not None:
            tests.append(where)
        ops = self._graph.walk() if deep else iter(self._graph)
        return [op for op in ops if all(test(op) for test in tests)]


def _is_in_namespace(namespace: str | None, parent: str) -> bool:
    return namespace is not None and f"{namespace}/".startswith(f"{parent}/")


def _has_attrs(op: Op, attrs: Mapping[str, Any]) -> bool:
    from amanda.tensors import same_value

    return op.has_attrs and all(
        key in op.attrs and same_value(op.attrs[key], value)
        for key, value in attrs.items()
    )


def _start_ops(graph: Graph, targets: Iterable[Op | ValueLike]) -> list[Op]:
    ops = []
    for target in targets:
        if not isinstance(target, Op):
            target = value_port(target)
        if isinstance(target, Parameter) and target.op is graph:
            continue
        op = target if isinstance(target, Op) else target.op
        if op.graph is not graph:
            raise GraphError(f"{op.label} is not in {graph.label}")
        ops.append(op)
    return ops


def upstream(graph: Graph, targets: Iterable[Op | ValueLike]) -> list[Op]:
    found = set(_start_ops(graph, targets))
    stack = list(found)
    while stack:
        for op in stack.pop().depends_on():
            if op not in found:
                found.add(op)
                stack.append(op)
    return _sort_ops(graph, found)


def downstream(graph: Graph, sources: Iterable[Op | ValueLike]) -> list[Op]:
    sources = list(sources)
    found = set(_start_ops(graph, sources))
    for source in sources:
        if isinstance(source, Parameter):
            users = (user for user in source.user_ops if user is not graph)
            found |= {op for op in map(graph._containing_op, users) if op is not None}
    stack = list(found)
    while stack:
        for op in _order.successors(graph, stack.pop()):
            if op not in found:
                found.add(op)
                stack.append(op)
    return _sort_ops(graph, found)


def dependents(graph: Graph, source: Op | ValueLike) -> list[Op]:
    _start_ops(graph, [source])
    values = source.outputs if isinstance(source, Op) else (value_port(source),)
    readers = {user for value in values for user in value.user_ops if user is not graph}
    found = {op for op in map(graph._containing_op, readers) if op is not None}
    op = source if isinstance(source, Op) else values[0].op
    if op is not graph:
        found.update(op.control_outputs)
    return _sort_ops(graph, found)


def ops_between(
    graph: Graph,
    sources: Iterable[Op | ValueLike],
    targets: Iterable[Op | ValueLike],
) -> list[Op]:
    late = set(upstream(graph, targets))
    return [op for op in downstream(graph, sources) if op in late]


def _sort_ops(graph: Graph, found: set[Op]) -> list[Op]:
    if len(found) * 8 < graph._count:
        if not graph._labelled:
            _order.relabel(graph)
        return sorted(found, key=lambda op: op._order or 0)
    return [op for op in graph if op in found]
