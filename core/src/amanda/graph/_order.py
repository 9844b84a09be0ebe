"""Incremental topological order: a linked list with lazily computed order labels.

Appending is O(1) and assigns no label. The first order query that the list alone cannot
answer labels every op (order maintenance, Bender et al. 2002). An edge against the
order moves only the ops between its ends (Pearce and Kelly 2006).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amanda.errors import CycleError
from amanda.graph._port import Parameter, distinct

if TYPE_CHECKING:
    from amanda.graph._graph import Graph
    from amanda.graph._op import Op

STRIDE = 1 << 32
_MAX_CYCLE_OPS = 12  # ops of a cycle shown in an error message


class Cursor:
    """The position of an iteration; unlinking the op at it moves it back by one."""

    __slots__ = ("at",)

    def __init__(self) -> None:
        self.at: Op | None = None


def link(graph: Graph, op: Op, prev: Op | None) -> None:
    """Insert `op` right after `prev`, or first if `prev` is None."""
    follow = prev._next if prev is not None else graph._first
    op._prev, op._next = prev, follow
    if prev is not None:
        prev._next = op
    else:
        graph._first = op
    if follow is not None:
        follow._prev = op
    else:
        graph._last = op
    if graph._labelled:
        _label(op)


def append(graph: Graph, op: Op, before: Op | None) -> None:
    """Insert `op` at the end, or right before another op."""
    if before is not None or graph._labelled:
        link(graph, op, graph._last if before is None else before._prev)
        return
    last = graph._last
    op._prev = last
    if last is None:
        graph._first = op
    else:
        last._next = op
    graph._last = op


def unlink(graph: Graph, op: Op) -> None:
    for cursor in graph._cursors:
        if cursor.at is op:
            cursor.at = op._prev
    prev, follow = op._prev, op._next
    if prev is not None:
        prev._next = follow
    else:
        graph._first = follow
    if follow is not None:
        follow._prev = prev
    else:
        graph._last = prev
    op._prev = op._next = None


def _label(op: Op) -> None:
    """Label an op between its neighbors.

    Without room, relabel a window around it that grows until the labels fit.
    """
    low, high, count = op, op, 1
    while True:
        prev, follow = low._prev, high._next
        start = prev._order if prev is not None else None
        end = follow._order if follow is not None else None
        if start is None:
            start = (end or 0) - STRIDE * (count + 1)
        if end is None:
            end = start + STRIDE * (count + 1)
        if end - start > 4 * count**1.5:
            break
        for _ in range(count):
            if low._prev is not None:
                low, count = low._prev, count + 1
            if high._next is not None:
                high, count = high._next, count + 1
    step, at, node = (end - start) // (count + 1), start, low
    while True:
        at += step
        node._order = at
        if node is high:
            return
        assert node._next is not None
        node = node._next


def relabel(graph: Graph) -> None:
    at, op = 0, graph._first
    while op is not None:
        op._order, at, op = at, at + STRIDE, op._next
    graph._labelled = True


def is_before(graph: Graph, a: Op, b: Op) -> bool:
    if not graph._labelled:
        relabel(graph)
    return a._order < b._order  # type: ignore[operator]


def successors(graph: Graph, op: Op) -> Iterator[Op]:
    """The ops of `graph` that must follow `op`, possibly with repetitions."""
    more = op.side_record
    if more is not None and more.feedback:
        return
    for port in op.outputs:
        users = port._users
        if users is None:
            continue
        for user in distinct(users):
            if user.graph is graph:
                yield user
            elif user is not graph and (top := graph._containing_op(user)) is not None:
                yield top
    if more is not None and more.controlled:
        yield from list(more.controlled)


def order_edge(graph: Graph, first: Op, then: Op) -> None:
    """Move ops so that `first` precedes `then`; on a cycle, raise and move nothing."""
    if first is then:
        raise cycle_error(graph, [then])
    if first._next is then or is_before(graph, first, then):
        return
    parents: dict[Op, Op | None] = {then: None}
    stack = [then]
    while stack:
        op = stack.pop()
        for user in successors(graph, op):
            if user is first:
                raise cycle_error(graph, _path(parents, op, first))
            if user not in parents and is_before(graph, user, first):
                parents[user] = op
                stack.append(user)
    at = first
    for op in sorted(parents, key=lambda op: op._order or 0):
        unlink(graph, op)
        link(graph, op, at)
        at = op


def _path(parents: dict[Op, Op | None], op: Op | None, last: Op) -> list[Op]:
    path = [last]
    while op is not None:
        path.append(op)
        op = parents[op]
    return path[::-1]


def cycle_error(graph: Graph, path: list[Op]) -> CycleError:
    """The error for a cycle of ops, in order; the first one reads the last."""
    names = [op.label for op in path[:_MAX_CYCLE_OPS]]
    if len(path) > _MAX_CYCLE_OPS:
        names.append(f"... {len(path) - _MAX_CYCLE_OPS} more")
    names.append(path[0].label)
    return CycleError(
        f"{path[0].label} would depend on itself",
        who=graph.label,
        where=" -> ".join(names),
        hint="a loop-carried edge must come from a feedback op",
    )


def sort(graph: Graph) -> None:
    """Sort all ops topologically, stably with respect to the current order.

    If there is a cycle, raise CycleError and move nothing.
    """
    position: dict[Op, int] = {}
    op = graph._first
    while op is not None:
        position[op] = len(position)
        op = op._next
    if all(
        i < position[s] for op, i in position.items() for s in successors(graph, op)
    ):
        return
    waits = dict.fromkeys(position, 0)
    for op in position:
        for then in successors(graph, op):
            waits[then] += 1
    ops = list(position)
    ready = [position[op] for op in ops if waits[op] == 0]
    order: list[Op] = []
    while ready:
        op = ops[heapq.heappop(ready)]
        order.append(op)
        for then in successors(graph, op):
            waits[then] -= 1
            if waits[then] == 0:
                heapq.heappush(ready, position[then])
    if len(order) < len(ops):
        raise cycle_error(graph, _find_cycle(graph, {o for o in ops if waits[o]}))
    _relink(graph, order)


def _relink(graph: Graph, order: list[Op]) -> None:
    prev: Op | None = None
    for op in order:
        op._prev = prev
        if prev is None:
            graph._first = op
        else:
            prev._next = op
        prev = op
    assert prev is not None
    prev._next = None
    graph._last = prev
    graph._labelled = False


def _find_cycle(graph: Graph, stuck: set[Op]) -> list[Op]:
    """A cycle among unsorted ops: walk backwards until an op repeats."""
    before: dict[Op, Op] = {}
    for op in stuck:
        for then in successors(graph, op):
            before.setdefault(then, op)
    at = next(op for op in stuck if op in before)
    seen: dict[Op, int] = {}
    walk: list[Op] = []
    while at not in seen:
        seen[at] = len(walk)
        walk.append(at)
        at = before[at]
    return walk[seen[at] :][::-1]


def imposes_no_order(value_op: Op, value: object) -> bool:
    """Whether users of this value need not follow `value_op`: feedback, parameters."""
    more = value_op.side_record
    return type(value) is Parameter or (more is not None and more.feedback)
