"""Executables: compiled graphs, called with arrays, with a report of how they run."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from operator import attrgetter, countOf
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import jax
import numpy as np

from amanda.backend import (
    Implementation,
    Profile,
    implementation_lines,
    typical_run,
)
from amanda.errors import AmandaError, UsageError
from amanda.files import MappedFile
from amanda.graph import Graph, OutputPort
from amanda.host import host_in_use
from amanda.tensors import as_array
from amanda.types import OptionalType, SequenceType, TensorType, TupleType
from amanda_jax.compile.code import BuildContext, CompiledCode
from amanda_jax.compile.compilation_counter import CompilationCounter
from amanda_jax.compile.disk_cache import DiskCache
from amanda_jax.compile.jitted_program import NoArrayError, TracedProgram
from amanda_jax.compile.partition import compile_graph, compile_op_by_op
from amanda_jax.compile.passes import prepare_graph
from amanda_jax.settings import Settings
from amanda_jax.shapes.bucketing import compile_padded
from amanda_jax.weights.device_weights import DeviceWeights
from amanda_std.backends import RunContext, State, effect_of

if TYPE_CHECKING:
    from amanda_jax.export.exporter import ExportedGraph

__all__ = ["Cost", "Executable", "Report", "as_feed"]

Symbolic = bool | str | Sequence[str]
"""Whether dims stay symbolic, or the conditions that hold for those that do."""

_ARRAY = type(jax.numpy.zeros(()))
CONTAINER: Final = object()
_DTYPE: Final = attrgetter("dtype")
_block_until_ready: Any = jax.block_until_ready


class Report(NamedTuple):
    """How an executable runs, and its counts so far."""

    device: str
    programs: int
    """How many programs there are: more than one where shapes depend on data."""
    pieces: int
    """How many of them one call runs."""
    compilations: int
    """How many times XLA compiled in all calls so far: programs for new shapes or
    values, and ops that Python ran one by one."""
    weight_bytes: int
    decided_by: tuple[str, ...]
    """The values that programs are specialized on, besides the shapes of the feeds."""
    control_flow: tuple[str, ...]
    """What conditionals and loops were compiled to."""
    python_driven: tuple[str, ...]
    """Control flow that Python drives, with the reason; its bodies are programs."""
    outside: Mapping[str, int]
    """Ops that XLA does not run, and how many times each ran."""
    dynamic_sizes: Mapping[str, int]
    """Ops that XLA runs at the maximum size and Python cuts, with their counts."""
    python_ops: int = 0
    """How many times Python ran an op: `outside`, `dynamic_sizes` and control flow."""
    buckets: Mapping[str, int] = {}
    """The sizes that inputs were padded to, with the number of calls."""
    ports: Sequence[Any] = ()
    """On a mesh: the sharding of inputs, weights and results, and their bytes."""
    disk_cache: Mapping[str, int] = {}
    """With `cache`: how many programs were loaded, written, refused."""
    implementations: Sequence[Implementation] = ()
    """What runs each op: a kernel, chosen by its types, or its definition."""

    @property
    def mode(self) -> str:
        """In a few words how the calls so far ran."""
        if self.python_ops:
            return "programs, and ops between them that Python runs"
        if self.decided_by:
            return "a program for each value that decides a shape"
        return "one program for each shape of the inputs"

    def __str__(self) -> str:
        sizes = self.dynamic_sizes.items()
        lines = [
            f"on {self.device}: {self.programs} programs, {self.pieces} in a call, "
            f"{self.compilations} compilations, {self.weight_bytes} bytes of weights",
            *([f"Python ran {self.python_ops} ops"] if self.python_ops else ()),
            *(f"a program for each value of {name}" for name in self.decided_by),
            *self.control_flow,
            *(f"driven by Python: {label}" for label in self.python_driven),
            *(f"outside XLA: {op}, {n} times" for op, n in self.outside.items()),
            *(f"cut to its size: {op}, {n} times" for op, n in sizes),
            *(f"padded to {size}, {n} times" for size, n in self.buckets.items()),
            *map(str, self.ports),
            *(f"{n} compiled programs {what}" for what, n in self.disk_cache.items()),
            *implementation_lines(self.implementations),
        ]
        return "\n".join(lines)


class Cost(NamedTuple):
    """The cost that XLA estimates for the programs compiled last, in total."""

    flops: float
    bytes_accessed: float
    argument_bytes: int
    """Weights and feeds."""
    result_bytes: int
    temporary_bytes: int
    """Memory for intermediate values, of the program that needs most."""

    def __str__(self) -> str:
        return (
            f"{self.flops:.4g} flops, {self.bytes_accessed:.4g} bytes read and "
            f"written; {self.argument_bytes} bytes of arguments, "
            f"{self.result_bytes} of results, {self.temporary_bytes} in between"
        )


class Executable:
    """A compiled graph on one device. Several threads may call it at once."""

    def __init__(self, graph: Graph, device: Any, settings: Settings) -> None:
        settings = settings.for_platform(device.platform)
        prepared, self._weights = self._prepare(graph, device, settings)
        self.state: State | None = None
        """The variables, by key; None where there are none."""
        if _has_state(prepared):
            self.state = State() if settings.state is None else settings.state
        surroundings = RunContext(
            self.state, settings.observe, settings.callbacks or {}, host_in_use()
        )
        self._graph = prepared
        cache = self._disk_cache(settings)
        self._build = BuildContext(
            self._weights, settings, surroundings, compile_graph, cache
        )
        self._code = self._compile(prepared, self._build)
        self._compilations = CompilationCounter()
        self._names = _port_names(prepared)
        self._as_numpy = settings.results == "numpy"
        self._dtypes = [_feed_dtype(port) for port in prepared.parameters]
        self._jax_types = [_ARRAY] * len(self._dtypes)
        self._direct_call: Any = None
        """A function of arrays without further checks, once there is one."""

    @property
    def mapped_files(self) -> tuple[MappedFile, ...]:
        """Mapped files whose memory calls read."""
        return tuple(self._weights.mapped_files)

    def _prepare(
        self, graph: Graph, device: Any, settings: Settings
    ) -> tuple[Graph, DeviceWeights]:
        """The graph after the passes for its device, and what transfers its weights."""
        prepared = prepare_graph(graph, device.platform, settings.without)
        return prepared, DeviceWeights(device, settings.without)

    def _disk_cache(self, settings: Settings) -> DiskCache | None:
        if settings.cache is None:
            return None
        return DiskCache(settings.cache, settings.cache_bytes, self._weights.device)

    def _compile(self, graph: Graph, build: BuildContext) -> CompiledCode:
        return compile_padded(graph, build, compile_graph)

    def __call__(
        self,
        feeds: Mapping[str | int, Any],
        out: Mapping[str | int, Any] | None = None,
    ) -> Sequence[Any]:
        """Run with checked feeds, in the order of the inputs. `out` is not used.

        With `results="jax"` results may still be computing, unless a feed is an array
        that the caller may write to.
        """
        del out
        values = tuple(feeds.values())
        token = self._compilations.start()
        try:
            results = self._call_directly(values)
        finally:
            self._compilations.stop(token)
        return self._finish(results, [*map(type, values)] == self._jax_types)

    def call_again(self, values: tuple[Any, ...]) -> Sequence[Any] | None:
        """Run with feeds of shapes and types that were run before.

        JAX's own cache finds the program; to trace one is an error here. It converts
        arrays of NumPy, so their types are checked."""
        direct_call = self._direct_call
        if direct_call is None:
            return None
        are_of_jax = [*map(type, values)] == self._jax_types
        if not are_of_jax and [*map(_DTYPE, values)] != self._dtypes:
            return None
        results: Sequence[Any] = direct_call(*values)
        if are_of_jax and not self._as_numpy:
            return results
        return self._finish(results, are_of_jax)

    def profile(self, feeds: Mapping[str | int, Any]) -> Profile:
        """The time of each op, compiled and run as a program of its own.

        XLA fuses ops in a whole program, so that their sum is more than its time."""
        rows = zip(feeds.values(), self._dtypes, strict=True)
        values = [as_feed(value, dtype) for value, dtype in rows]
        code = compile_op_by_op(self._graph, self._build)
        token = self._compilations.start()
        try:
            with nullcontext() if self.state is None else self.state.lock:
                if self.state is None:
                    code(values)  # compiles
                count = 5 if self.state is None else 1
                ops = typical_run([code.time_pieces(values) for _ in range(count)])
        finally:
            self._compilations.stop(token)
        self(feeds)
        start = perf_counter()
        results = self(feeds)
        _block_until_ready(results)
        call = perf_counter() - start
        how = "each op as a program of XLA alone; a call fuses them"
        return Profile(how, ops, call, results)

    def _finish(self, results: Sequence[Any], may_be_pending: bool) -> Sequence[Any]:
        """The results as arrays of the kind that the caller wants."""
        if self._as_numpy:
            return self._to_numpy(results)
        if not may_be_pending:
            # JAX may still read feeds that the caller may write to
            _block_until_ready(results)
        return results

    def _call_directly(self, values: Sequence[Any]) -> Sequence[Any]:
        """Run without further checks, where that is possible."""
        direct_call = self._direct_call
        if direct_call is None:
            return self._run(values)
        try:
            results: Sequence[Any] = direct_call(*values)
        except (AmandaError, TypeError, ValueError):
            return self._run(values)
        return results

    def _run(self, values: Sequence[Any]) -> Sequence[Any]:
        """Run with feeds and programs of any kind."""
        if self.state is None:
            results = self._run_code(values)
        else:
            with self.state.lock:
                results = self._run_code(values)
        self._direct_call = self._code.direct_call
        return results

    def _run_code(self, values: Sequence[Any]) -> Sequence[Any]:
        try:
            return self._code(values)
        except (NoArrayError, TypeError, ValueError):
            rows = zip(values, self._dtypes, strict=True)
            return self._code([as_feed(value, dtype) for value, dtype in rows])

    def _to_numpy(self, results: Sequence[Any]) -> Sequence[Any]:
        """Results as NumPy arrays, copied where they are an input or another result."""
        aliased = self._code.aliased_results
        if countOf(map(type, results), _ARRAY) != len(results):
            rows = enumerate(results)
            return [
                jax.tree.map(np.array if i in aliased else np.asarray, r)
                for i, r in rows
            ]
        if not aliased:
            return [np.asarray(result) for result in results]
        rows = enumerate(results)
        return [np.array(r) if i in aliased else np.asarray(r) for i, r in rows]

    def report(self) -> Report:
        """Report how it runs."""
        parts = list(self._code.walk())
        details = [part.details for part in parts]
        outside: Counter[str] = Counter()
        dynamic_sizes: Counter[str] = Counter()
        for each in details:
            outside.update(each.outside)
            dynamic_sizes.update(each.dynamic_sizes)
        cache = self._build.cache
        return Report(
            str(self._weights.device),
            len(self._programs()),
            self._code.program_count,
            self._compilations.count,
            self._weights.nbytes,
            tuple(dict.fromkeys(name for each in details for name in each.decided_by)),
            tuple(dict.fromkeys(note for each in details for note in each.notes)),
            tuple(dict.fromkeys(why for each in details for why in each.python_driven)),
            dict(outside),
            dict(dynamic_sizes),
            sum(each.python_ops for each in details),
            {size: n for each in details for size, n in each.buckets.items()},
            disk_cache=dict(cache.counts if cache else {}),
            implementations=tuple(
                dict.fromkeys(each for part in parts for each in part.implementations())
            ),
        )

    def cost(self) -> Cost:
        """Estimate the cost of one call, which compiles its programs once more."""
        calls = [call for part in self._programs() if (call := part.last_call())]
        if not calls:
            raise UsageError(
                "nothing was compiled yet, so the cost is not known",
                hint="call it once",
            )
        total = Cost(0.0, 0.0, 0, 0, 0)
        for jitted, arguments in calls:
            with jax.enable_x64(True):
                compiled = jitted.lower(*arguments).compile()
            counts = compiled.cost_analysis() or {}
            memory = compiled.memory_analysis()
            total = Cost(
                total.flops + counts.get("flops", 0.0),
                total.bytes_accessed + counts.get("bytes accessed", 0.0),
                total.argument_bytes + memory.argument_size_in_bytes,
                total.result_bytes + memory.output_size_in_bytes,
                max(total.temporary_bytes, memory.temp_size_in_bytes),
            )
        return total

    def _programs(self) -> list[TracedProgram]:
        parts = self._code.walk()
        return [p for p in parts if isinstance(p, TracedProgram) and p.is_in_use]

    def export(self, *, symbolic: Symbolic = False) -> ExportedGraph:
        """Export as one program of `jax.export`, and its weights, its first arguments.

        Its shapes are those in the types of the inputs, or else of the last call. With
        `symbolic=True` dims that these types leave open are symbolic in the program;
        with `symbolic="s <= 512, n <= 64"` those for which the conditions hold."""
        from amanda_jax.export.exporter import export_graph

        return export_graph(self._graph, self._build, self._programs(), symbolic)

    def save(self, path: str | os.PathLike[str], *, symbolic: Symbolic = False) -> None:
        """Write a file for `load_saved_program`; for `symbolic` see `export`."""
        from amanda_jax.export.saved_program import save

        save(path, self.export(symbolic=symbolic), self._names)

    def stablehlo(self, *, symbolic: Symbolic = False) -> str:
        """The program as StableHLO text; its first arguments are the weights."""
        return str(self.export(symbolic=symbolic).program.mlir_module())

    def __repr__(self) -> str:
        return f"<executable on {self._weights.device}>"


def _has_state(graph: Graph) -> bool:
    return any(effect_of(op) in ("holds", "reads", "writes") for op in graph.walk())


def _port_names(graph: Graph) -> tuple[list[str | None], list[str | None]]:
    """The names of inputs and of results."""
    return [p.name for p in graph.parameters], [p.name for p in graph.outputs]


def _feed_dtype(port: OutputPort) -> Any:
    """The NumPy dtype of a feed, if it is known; `CONTAINER` for a container."""
    own = port.type
    if isinstance(own, SequenceType | OptionalType | TupleType):
        return CONTAINER
    if not isinstance(own, TensorType) or own.dtype.kind == "unknown":
        return None
    return own.dtype.numpy


def as_feed(value: Any, dtype: Any) -> Any:
    """Convert a feed to an array, or to a container of arrays, without a copy."""
    if dtype is CONTAINER:
        return jax.tree.map(lambda each: as_feed(each, None), value)
    if isinstance(value, jax.Array):
        return value
    return as_array(value, dtype)
