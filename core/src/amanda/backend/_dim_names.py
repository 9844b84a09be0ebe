"""Names of dims that are documentation: inputs may differ in the sizes of one name.

In some formats the name of a dim only describes it. Their readers mark graphs with
`UNCHECKED_DIM_NAMES`. These are compiled with the shared names; feeds whose sizes
differ are run by a second executable, of a copy in which no names are shared.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Any

from amanda.errors import AmandaWarning
from amanda.graph import UNCHECKED_DIM_NAMES, input_dims, shares_dims
from amanda.types import Dim, Sym

if TYPE_CHECKING:
    from amanda.backend._compiled import Compiled
    from amanda.backend._feeds import SharedDimError
    from amanda.graph import Graph

__all__ = [
    "SeparateDims",
    "separate_dims",
    "shares_unchecked_dims",
    "warn_of_shared_dims",
]


class SeparateDims:
    """The executable for feeds whose sizes differ for one dim; compiled on first use.

    It holds a copy of the graph until then, which `compile` gets. Thread-safe.
    """

    def __init__(self, graph: Graph, compile: Callable[[Graph], Compiled]) -> None:
        self._graph: Graph | None = graph.clone()
        self._compile = compile
        self._compiled: Compiled | None = None
        self._lock = Lock()

    def executable(self) -> Compiled:
        with self._lock:
            if self._compiled is None:
                assert self._graph is not None
                self._compiled = self._compile(self._graph)
                self._graph = None
            return self._compiled


def shares_unchecked_dims(graph: Graph) -> bool:
    """Whether dims of inputs share a symbol whose name is documentation."""
    is_marked = graph.has_attrs and graph.attrs.get(UNCHECKED_DIM_NAMES) is True
    return is_marked and shares_dims(graph)


def separate_dims(graph: Graph, memo: dict[Any, Any] | None = None) -> Graph:
    """A copy in which every symbolic dim of an input has a symbol of its own.

    The types of other values are inferred again; where that is not possible, symbolic
    dims become unknown. `memo` receives the copy of every op and value."""
    from amanda.mapping import definitions_of

    copy = graph.clone(memo=memo)
    copy.attrs.pop(UNCHECKED_DIM_NAMES, None)
    taken = {symbol for dim in input_dims(copy) for symbol in dim.free}
    seen: set[Sym] = set()
    for given in copy.parameters:
        if given.type is not None:
            given.type = given.type.map_dims(lambda dim: _own_symbol(dim, seen, taken))
    for part in copy.graphs():
        inner = () if part is copy else part.parameters
        made = (port for op in part for port in op.outputs)
        for port in (*inner, *made, *part.outputs):
            if port.type is not None:
                port.type = port.type.map_dims(lambda _: Sym.unknown())
    definitions = definitions_of(copy.namespace)
    if definitions is not None:
        definitions.infer(copy)
    return copy


def warn_of_shared_dims(error: SharedDimError) -> None:
    """Warn that feeds differ in the sizes of a dim whose name is documentation."""
    warnings.warn(
        f"the feeds have different sizes for one dim: {'; '.join(error.problems)}. In "
        "the format of this model the names of dims are documentation, so the graph is "
        "compiled once more, with a dim of its own for each; with strict_shapes=True "
        "this is an error",
        AmandaWarning,
        stacklevel=_callers_level(),
    )


def _callers_level() -> int:
    """The `stacklevel` of the first caller outside this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back and frame.f_globals["__name__"].partition(".")[0] == "amanda":
        level, frame = level + 1, frame.f_back
    return level


def _own_symbol(dim: Sym, seen: set[Sym], taken: set[Sym]) -> Dim:
    """A symbol for one dim: that of its name, a numbered name, or an unknown dim."""
    if dim.name is None:
        return Sym.unknown()
    symbol, number = dim, 1
    while symbol in seen or (symbol in taken and number > 1):
        number += 1
        symbol = Sym.named(f"{dim.name}_{number}")
    seen.add(symbol)
    return symbol
