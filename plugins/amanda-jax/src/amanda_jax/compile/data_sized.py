"""Graphs that are fed arrays whose sizes data decides, other ones in each call.

The first sizes have programs of their own. After that, arrays are padded to a few
sizes where that is proved to change no result, or Python runs the ops one by one.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from threading import Lock
from typing import Any, Final

import numpy as np
from jax.tree import leaves

from amanda.errors import AmandaWarning, BackendError
from amanda.graph import Graph, OutputPort, Parameter
from amanda.types import Dim, Sym, TensorType
from amanda_jax.compile.code import BuildContext, CompiledCode
from amanda_jax.shapes.bucketing import BucketedCode
from amanda_std.backends import Trait, has_trait, infer

__all__ = ["DataSizedCode", "LoopBody", "has_data_size"]

_SIZES: Final = tuple(16 << i for i in range(40))
"""The sizes that arrays are padded to."""
_HINT: Final = "the option `specializations` is the number of sizes compiled exactly"


def has_data_size(port: OutputPort) -> bool:
    """Whether a value inside a graph has a size that is not known from its inputs."""
    own = port.type
    if type(port) is Parameter or not isinstance(own, TensorType):
        return False
    return not own.shape.has_rank or any(map(_is_open, own.shape))


def _is_open(dim: Dim) -> bool:
    return isinstance(dim, Sym) and any(s.is_anonymous for s in dim.free)


class DataSizedCode(CompiledCode):
    """Exact programs for the first sizes, and one way for all others.

    `names` are those of the inputs whose sizes data decides; None for other inputs."""

    def __init__(
        self, graph: Graph, build: BuildContext, names: Sequence[str | None]
    ) -> None:
        self._graph, self._build, self._names = graph, build, names
        self._exact = build.compile(graph)
        self._seen: set[Any] = set()
        self._general: CompiledCode | None = None
        self._lock = Lock()

    def __call__(self, args: Iterable[Any]) -> Sequence[Any]:
        feeds = [*args]
        return self._code_for(feeds)(feeds)

    def _code_for(self, feeds: Sequence[Any]) -> CompiledCode:
        sizes = tuple(np.shape(each) for each in leaves(feeds))
        with self._lock:
            if sizes in self._seen:
                return self._exact
            if len(self._seen) < self._build.settings.specializations:
                self._seen.add(sizes)
                return self._exact
            if self._general is not None:
                return self._general
            self._general, text = self._compile_for_any_size()
        if self._seen or self._general is self._exact:
            named = ", ".join(name for name in self._names if name is not None)
            _warn(
                f"backend 'jax' compiled a program for {len(self._seen)} sizes of "
                f"{named}; {text}"
            )
        return self._general

    def _compile_for_any_size(self) -> tuple[CompiledCode, str]:
        """Code for all other sizes, and what to say about it."""
        padded = self._compile_padded()
        if padded is not None:
            return padded, f"from now on they are padded to powers of two; {_HINT}"
        if all(map(_is_fast_on_numpy, self._graph)):
            why = "its sizes depend on data"
            text = f"from now on Python runs the ops that follow; {_HINT}"
            return _python_code(self._graph, self._build, why), text
        return self._exact, (
            "what follows cannot be padded, and is compiled for each further size; the "
            f"option `programs`, now {self._build.settings.programs}, is how many are "
            "kept"
        )

    def _compile_padded(self) -> CompiledCode | None:
        """The exact code, fed padded arrays; None where padding changes a result."""
        graph, names = _name_sizes(self._graph, self._names)
        buckets: Mapping[str, Sequence[int]] = dict.fromkeys(names, _SIZES)
        settings = self._build.settings._replace(buckets=buckets, results="numpy")
        try:
            build = self._build._replace(settings=settings)
            return BucketedCode(graph, self._exact, build)
        except BackendError:  # the proof that padding changes no result has failed
            return None

    def children(self) -> Sequence[CompiledCode]:
        general = self._general
        if general is None or general is self._exact:
            return (self._exact,)
        if self._exact in general.children():
            return (general,)
        return (self._exact, general)

    @property
    def program_count(self) -> int:
        code = self._exact if self._general is None else self._general
        return code.program_count

    @property
    def aliased_results(self) -> frozenset[int]:
        general = self._general
        other = frozenset() if general is None else general.aliased_results
        return self._exact.aliased_results | other


def _is_fast_on_numpy(op: Any) -> bool:
    """Whether NumPy runs an op in less time than XLA compiles it."""
    is_product = has_trait(op, Trait.LINEAR_LAYER) or has_trait(
        op, Trait.MATRIX_PRODUCT
    )
    return not is_product and not op.bodies and not isinstance(op, Graph)


def _python_code(graph: Graph, build: BuildContext, why: str) -> CompiledCode:
    """Code in which Python runs every op."""
    return build.compile(graph, {op: why for op in graph if not op.is_constant})


def _name_sizes(
    graph: Graph, names: Sequence[str | None]
) -> tuple[Graph, dict[str, None]]:
    """A copy in which sizes of inputs that are not known have names, and these."""
    copy = graph.clone()
    symbols: dict[Any, Sym] = {}
    for port, name in zip(copy.parameters, names, strict=True):
        own = port.type
        if name is None or not isinstance(own, TensorType) or not own.shape.has_rank:
            continue
        dims = list(own.shape)
        for axis, dim in enumerate(dims):
            if isinstance(dim, Sym) and dim.is_anonymous:
                new = Sym.named(f"{name}, axis {axis}")
                dims[axis] = symbols.setdefault(dim.key, new)
        port.type = TensorType(own.dtype, dims)
    infer(copy)
    return copy, {str(symbol.name): None for symbol in symbols.values()}


def _warn(text: str) -> None:
    warnings.warn(text, AmandaWarning, stacklevel=2)


class LoopBody(CompiledCode):
    """A body of a loop that Python drives: run by NumPy where its sizes keep changing.

    `start` begins a loop; the sizes of one loop count, not those of several."""

    def __init__(self, graph: Graph, build: BuildContext, name: str) -> None:
        self._graph, self._build, self._name = graph, build, name
        self._exact = build.compile(graph)
        self._compiled: set[Any] = set()
        """The sizes with a program."""
        self._sizes: set[Any] = set()
        """The sizes in this run of the loop."""
        self._on_numpy: CompiledCode | None = None

    def start(self) -> None:
        self._sizes = set()

    def __call__(self, args: Iterable[Any]) -> Sequence[Any]:
        feeds = [*args]
        sizes = tuple(np.shape(each) for each in leaves(feeds))
        self._sizes.add(sizes)
        if sizes not in self._compiled:
            limit = max(self._build.settings.specializations, 1)
            if self._on_numpy is None and len(self._sizes) > limit:
                why = "the sizes that a loop carries change"
                self._on_numpy = _python_code(self._graph, self._build, why)
                _warn(
                    f"backend 'jax' compiled the body of {self._name} for {limit} "
                    "sizes of what it carries; from now on Python runs the body for "
                    f"other sizes; {_HINT}"
                )
            if self._on_numpy is not None:
                return self._on_numpy(feeds)
            self._compiled.add(sizes)
        return self._exact(feeds)

    def children(self) -> Sequence[CompiledCode]:
        return (self._exact, *([self._on_numpy] if self._on_numpy else ()))

    @property
    def program_count(self) -> int:
        return self._exact.program_count

    @property
    def aliased_results(self) -> frozenset[int]:
        other = self._on_numpy.aliased_results if self._on_numpy else frozenset()
        return self._exact.aliased_results | other
