"""What a graph is compiled to: it is called with arrays, and tells how it runs."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from operator import countOf
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import jax
import numpy as np

from amanda.errors import AmandaError, UsageError
from amanda.graph import Graph, OutputPort
from amanda.host import host_in_use
from amanda.types import OptionalType, SequenceType, TensorType, TupleType
from amanda_jax.compile.code import Build, Code
from amanda_jax.compile.disk_cache import Kept
from amanda_jax.compile.jitted_program import MisfitError, Program
from amanda_jax.compile.passes import prepared
from amanda_jax.settings import Settings
from amanda_jax.shapes.bucketing import coded
from amanda_jax.shapes.dynamic_shapes import Bounded
from amanda_jax.weights.device_weights import Weights
from amanda_std.backends import RunContext, State, effect_of

if TYPE_CHECKING:
    from amanda_jax.export.exporter import Written

__all__ = ["Cost", "Executable", "Report", "fed"]

Symbolic = bool | str | Sequence[str]
"""Whether sizes stay open, or what holds for those that do."""

_ARRAY = type(jax.numpy.zeros(()))
HOLDS: Final = object()
_waited: Any = jax.block_until_ready


class Report(NamedTuple):
    """How an executable runs, and what became of it so far."""

    device: str
    programs: int
    """How many programs there are: more than one where data decides shapes."""
    pieces: int
    """How many of them one call runs."""
    compilations: int
    """How many times one of them was compiled, for shapes or values that were new."""
    weight_bytes: int
    decided_by: tuple[str, ...]
    """The values that programs are made for, besides the shapes of the feeds."""
    control_flow: tuple[str, ...]
    """What choices and loops have become."""
    host_driven: tuple[str, ...]
    """Choices and loops that the host drives, with the reason; bodies are programs."""
    outside: Mapping[str, int]
    """Ops that XLA does not run, and how many times each ran, since it was made."""
    sized: Mapping[str, int]
    """Ops that XLA runs at the largest size, with how many times; the host reads how
    much there is."""
    buckets: Mapping[str, int] = {}
    """What inputs were padded to, with how many calls; a program is for each."""
    ports: Sequence[Any] = ()
    """On a mesh: how inputs, weights and results are divided, and their bytes."""

    kept: Mapping[str, int] = {}
    """With `cache`: how many programs were loaded, written, refused."""

    def __str__(self) -> str:
        lines = [
            f"on {self.device}: {self.programs} programs, {self.pieces} in a call, "
            f"{self.compilations} compilations, {self.weight_bytes} bytes of weights",
            *(f"a program for each value of {name}" for name in self.decided_by),
            *self.control_flow,
            *(f"driven by the host: {label}" for label in self.host_driven),
            *(f"outside XLA: {op}, {n} times" for op, n in self.outside.items()),
            *(f"cut to its size: {op}, {n} times" for op, n in self.sized.items()),
            *(f"padded to {size}, {n} times" for size, n in self.buckets.items()),
            *map(str, self.ports),
            *(f"{n} compiled programs {what}" for what, n in self.kept.items()),
        ]
        return "\n".join(lines)


class Cost(NamedTuple):
    """What XLA says of the programs that were compiled last, all together."""

    flops: float
    bytes_accessed: float
    argument_bytes: int
    """Weights and feeds."""
    result_bytes: int
    temporary_bytes: int
    """Memory for what is made on the way, of the program that needs most."""

    def __str__(self) -> str:
        return (
            f"{self.flops:.4g} flops, {self.bytes_accessed:.4g} bytes read and "
            f"written; {self.argument_bytes} bytes of arguments, "
            f"{self.result_bytes} of results, {self.temporary_bytes} in between"
        )


class Executable:
    """Several threads may call it at once."""

    def __init__(self, graph: Graph, device: Any, settings: Settings) -> None:
        settings = settings.on(device.platform)
        ready, self._weights = self._placed(graph, device, settings)
        self.state = State() if _has_state(ready) else None
        """The variables, by key; None where there are none."""
        around = RunContext(
            self.state, settings.observe, settings.callbacks or {}, host_in_use()
        )
        self._graph = ready
        self._build = Build(self._weights, settings, around, self._keeping(settings))
        self._code = self._coded(ready, self._build)
        self._slots = _names(ready)
        self._as_numpy = settings.results == "numpy"
        self._dtypes = [_dtype(port) for port in ready.parameters]
        self._count = len(self._dtypes)
        self._quick: Any = None
        """What takes arrays without another look, once it is known that there is one.
        """

    def _placed(
        self, graph: Graph, device: Any, settings: Settings
    ) -> tuple[Graph, Weights]:
        """The graph made ready for where it runs, and what has its weights there."""
        ready = prepared(graph, device.platform, settings.without)
        in_tiles, along_rows = (s not in settings.without for s in ("tiles", "rows"))
        return ready, Weights(device, in_tiles, along_rows)

    def _keeping(self, settings: Settings) -> Kept | None:
        """The folder for compiled programs, if one is told."""
        if settings.cache is None:
            return None
        return Kept(settings.cache, settings.cache_bytes, self._weights.device)

    def _coded(self, graph: Graph, build: Build) -> Code:
        """What is called, with arrays in the order of the inputs."""
        return coded(graph, build)

    def __call__(
        self,
        feeds: Mapping[str | int, Any],
        out: Mapping[str | int, Any] | None = None,
    ) -> Sequence[Any]:
        """Feeds come checked, in the order of the inputs. `out` is an offer not taken.

        With `results="jax"` nothing waits, unless a feed is one that may be written to.
        """
        del out
        values = tuple(feeds.values())
        quick = self._quick
        made: Sequence[Any]
        if quick is None:
            made = self._looked_at(values)
        else:
            try:
                made = quick(*values)
            except (AmandaError, TypeError, ValueError):
                made = self._looked_at(values)
        if self._as_numpy:
            return self._as_arrays(made)
        if countOf(map(type, values), _ARRAY) != self._count:
            _waited(made)  # JAX may still read what the caller may write to
        return made

    def _looked_at(self, values: Sequence[Any]) -> Sequence[Any]:
        """The call as it always works: feeds of any kind, programs of every kind."""
        if self.state is None:
            made = self._with_any(values)
        else:
            with self.state.lock:
                made = self._with_any(values)
        self._quick = self._code.quick
        return made

    def _with_any(self, values: Sequence[Any]) -> Sequence[Any]:
        try:
            return self._code(values)
        except (MisfitError, TypeError, ValueError):
            rows = zip(values, self._dtypes, strict=True)
            return self._code([fed(value, dtype) for value, dtype in rows])

    def _as_arrays(self, results: Sequence[Any]) -> Sequence[Any]:
        copied = self._code.copied
        if countOf(map(type, results), _ARRAY) != len(results):
            rows = enumerate(results)
            return [
                jax.tree.map(np.array if i in copied else np.asarray, r)
                for i, r in rows
            ]
        if not copied:
            return [np.asarray(result) for result in results]
        rows = enumerate(results)
        return [np.array(r) if i in copied else np.asarray(r) for i, r in rows]

    def report(self) -> Report:
        """How it runs."""
        parts = list(self._code.parts())
        told = [part.told for part in parts]
        outside: Counter[str] = Counter()
        sized: Counter[str] = Counter()
        for each in told:
            outside.update(each.outside)
            sized.update(each.sized)
        return Report(
            str(self._weights.device),
            len(self._used()),
            self._code.pieces,
            sum(part.compilations for part in parts),
            self._weights.nbytes,
            tuple(dict.fromkeys(name for each in told for name in each.decided_by)),
            tuple(dict.fromkeys(note for each in told for note in each.notes)),
            tuple(dict.fromkeys(why for each in told for why in each.driven)),
            dict(outside),
            dict(sized),
            {size: n for each in told for size, n in each.buckets.items()},
            kept=dict(self._build.kept.counts if self._build.kept else {}),
        )

    def cost(self) -> Cost:
        """What one call costs, as XLA counts it. It compiles once more to be told."""
        found = [again for part in self._used() if (again := part.again())]
        if not found:
            raise UsageError(
                "nothing was compiled yet, so nothing is known of its cost",
                hint="call it once",
            )
        total = Cost(0.0, 0.0, 0, 0, 0)
        for jitted, given in found:
            with jax.enable_x64(True):
                made = jitted.lower(*given).compile()
            counts, memory = made.cost_analysis() or {}, made.memory_analysis()
            total = Cost(
                total.flops + counts.get("flops", 0.0),
                total.bytes_accessed + counts.get("bytes accessed", 0.0),
                total.argument_bytes + memory.argument_size_in_bytes,
                total.result_bytes + memory.output_size_in_bytes,
                max(total.temporary_bytes, memory.temp_size_in_bytes),
            )
        return total

    def _used(self) -> list[Program | Bounded]:
        kinds = Program | Bounded
        parts = self._code.parts()
        return [part for part in parts if isinstance(part, kinds) and part.is_used]

    def written(self, *, symbolic: Symbolic = False) -> Written:
        """One program of `jax.export`, and its weights, which it takes first.

        Its shapes are those of the types of the inputs, or else of the last call. With
        `symbolic=True` sizes that these types leave open stay open in the program; with
        `symbolic="s <= 512, n <= 64"` those for which this holds."""
        from amanda_jax.export.exporter import exported

        return exported(self._graph, self._build, self._used(), symbolic)

    def save(self, path: str | os.PathLike[str], *, symbolic: Symbolic = False) -> None:
        """As a file for `amanda_jax.restored`: see `written`."""
        from amanda_jax.export.saved_program import save

        save(path, self.written(symbolic=symbolic), self._slots)

    def stablehlo(self, *, symbolic: Symbolic = False) -> str:
        """The program as text of StableHLO, which takes the weights first."""
        return str(self.written(symbolic=symbolic).program.mlir_module())

    def __repr__(self) -> str:
        return f"<executable on {self._weights.device}>"


def _has_state(graph: Graph) -> bool:
    return any(effect_of(op) in ("holds", "reads", "writes") for op in graph.walk())


def _names(graph: Graph) -> tuple[list[str | None], list[str | None]]:
    """What inputs and results are called."""
    return [p.name for p in graph.parameters], [p.name for p in graph.outputs]


def _dtype(port: OutputPort) -> Any:
    """The element type that is fed, where it is known; of numpy. `HOLDS` where the
    feed is no tensor, but holds some."""
    found = port.type
    if isinstance(found, SequenceType | OptionalType | TupleType):
        return HOLDS
    if not isinstance(found, TensorType) or found.dtype.kind == "unknown":
        return None
    return found.dtype.numpy


def fed(value: Any, dtype: Any) -> Any:
    """A feed as an array, without a copy where it is one in memory; or as several."""
    if dtype is HOLDS:
        return jax.tree.map(lambda each: fed(each, None), value)
    if isinstance(value, jax.Array):
        return value
    if hasattr(value, "__dlpack__") and not isinstance(value, np.ndarray | np.generic):
        return np.from_dlpack(value)
    if isinstance(value, np.ndarray | np.generic) or hasattr(value, "__array__"):
        return np.asarray(value)
    return np.asarray(value, dtype)
