"""Groups within one graph: by the scopes of its ops, and where a level is long."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from amanda_inspect.viewer.nodes import Node

__all__ = ["fold_scopes", "find_repeats", "split_level"]

MAX_CHILDREN: Final = 200
"""A level with more nodes is divided."""
BRANCHES: Final = 60
"""At most this many parts of a level that is divided evenly."""
SHORTEST_PERIOD: Final = 6
LONGEST_PERIOD: Final = 2000
FEWEST_REPEATS: Final = 3

MakeGroup = Callable[[str, "list[Node]"], "Node"]


def fold_scopes(leaves: Iterable[Node], group: MakeGroup) -> list[Node]:
    """Nodes in groups of their scopes; a group of one node is that node."""
    top = group("", [])
    groups: dict[tuple[str, ...], Node] = {(): top}
    for leaf in leaves:
        parent = top
        for depth, name in enumerate(leaf.path, 1):
            prefix = leaf.path[:depth]
            if prefix not in groups:
                groups[prefix] = group(name, [])
                parent.children.append(groups[prefix])
            parent = groups[prefix]
        parent.children.append(leaf)
    scopes = set(groups.values())
    for each in reversed(groups.values()):  # inner groups first
        children = [c for child in each.children for c in _unwrap(child, scopes)]
        each.children = split_level(children, group)
    return top.children


def _unwrap(node: Node, scopes: set[Node]) -> list[Node]:
    """What a group has in place of the group, if that is one node and constants."""
    others = [child for child in node.children if not child.is_constant]
    if node not in scopes or len(others) > 1 or not node.children:
        return [node]
    for child in others or node.children[:1]:
        child.label = f"{node.label}/{child.label}"
    return node.children


def split_level(nodes: list[Node], group: MakeGroup) -> list[Node]:
    """The nodes of a level, in groups if they are more than `MAX_CHILDREN`.

    Where the types of ops repeat, as in the layers of a model, each repetition is a
    group; elsewhere each group has as many nodes in topological order.
    """
    if len(nodes) <= MAX_CHILDREN:
        return nodes
    cuts = find_repeats([node.key for node in nodes])
    if not cuts:
        return _split_evenly(nodes, group)
    blocks = []
    for i, (start, stop) in enumerate(pairwise(cuts), 1):
        name = f"block {i} of {len(cuts) - 1}"
        blocks.append(group(name, split_level(nodes[start:stop], group)))
    ends = [_fold_end(part, group) for part in (nodes[: cuts[0]], nodes[cuts[-1] :])]
    middle = blocks if len(blocks) <= MAX_CHILDREN else _split_evenly(blocks, group)
    return [*ends[0], *middle, *ends[1]]


def _fold_end(part: list[Node], group: MakeGroup) -> list[Node]:
    """What is before or after the repetitions, in a group if it is long."""
    if len(part) <= BRANCHES:
        return part
    return [group(f"{len(part)} nodes", split_level(part, group))]


def _split_evenly(nodes: list[Node], group: MakeGroup) -> list[Node]:
    """Groups of nodes in order, in as many levels as `BRANCHES` requires."""
    count = len(nodes)
    levels = 1
    while BRANCHES**levels < count:
        levels += 1
    branches = ceil(count ** (1 / levels))
    current = nodes
    while len(current) > BRANCHES:
        parts = [current[i : i + branches] for i in range(0, len(current), branches)]
        current = [group(_range_label(part), part) for part in parts]
    return current


def _range_label(part: Sequence[Node]) -> str:
    first, last = part[0].label, part[-1].label
    first, last = first.partition(" … ")[0], last.rpartition(" … ")[2]
    return f"{first or part[0].key} … {last or part[-1].key}"


def find_repeats(keys: Sequence[str]) -> list[int]:
    """Where the repetitions of the longest periodic part begin, and its end.

    Empty unless the periodic part has more than half of the keys.

    >>> find_repeats(["in", *["a", "b", "c", "d", "e", "f"] * 3, "out"])
    [1, 7, 13, 19]
    >>> find_repeats(["a", "b"] * 4)
    []
    """
    import numpy as np

    numbers = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    codes = np.array([numbers[key] for key in keys], dtype=np.int32)
    best, best_period = (0, 0), 0
    longest = min(LONGEST_PERIOD, len(keys) // FEWEST_REPEATS)
    for period in range(SHORTEST_PERIOD, longest + 1):
        start, stop = _longest_run(codes[:-period] == codes[period:])
        covered = stop - start + period
        if covered >= FEWEST_REPEATS * period and covered > best[1] - best[0]:
            if best_period and period % best_period == 0:
                continue
            best, best_period = (start, start + covered), period
    start, stop = best
    if stop - start <= len(keys) // 2:
        return []
    count = (stop - start) // best_period
    return [start + i * best_period for i in range(count + 1)]


def _longest_run(equal: Any) -> tuple[int, int]:
    """Start and end of the longest run of True."""
    import numpy as np

    changes = np.flatnonzero(np.diff(equal.astype(np.int8)))
    bounds = np.concatenate(([0], changes + 1, [len(equal)]))
    lengths = np.diff(bounds) * equal[bounds[:-1]]
    at = int(lengths.argmax())
    return int(bounds[at]), int(bounds[at] + lengths[at])
