"""Several passes under one name."""

from __future__ import annotations

from collections.abc import Callable

from amanda.graph import Graph
from amanda.passes.fixed_point import Pass, apply_passes


class Pipeline:
    """A pass that applies others in turn until none changes anything.

    `amanda.improve` reports the changes of each of them. A plug-in adds a pass of its
    own to a registered pipeline by `pipelines = ["NAME"]` in the manifest; it runs
    after the others.

    >>> Pipeline(lambda graph: 0)(Graph("amanda/std/1"))
    0
    """

    def __init__(self, *passes: Callable[[Graph], int]) -> None:
        self.passes: dict[str, Pass] = {each.__name__: each for each in passes}

    def __call__(self, graph: Graph) -> int:
        return sum(apply_passes(graph, self.passes).changes.values())
