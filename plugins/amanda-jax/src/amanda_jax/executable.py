"""What a graph is compiled to: it is called with arrays, and tells how it runs."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from operator import countOf
from typing import Any, NamedTuple

import jax
import numpy as np

from amanda.errors import AmandaError, UsageError
from amanda.graph import Graph, OutputPort
from amanda.host import host_in_use
from amanda.types import TensorType
from amanda_jax.code import Build
from amanda_jax.cutting import code_of
from amanda_jax.preparing import prepared
from amanda_jax.program import MisfitError, Program
from amanda_jax.settings import Settings
from amanda_jax.weights import Weights
from amanda_std.ordering import effect_of
from amanda_std.state import State, Surroundings

__all__ = ["Cost", "Executable", "Report"]

_ARRAY = type(jax.numpy.zeros(()))


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

    def __str__(self) -> str:
        lines = [
            f"on {self.device}: {self.programs} programs, {self.pieces} in a call, "
            f"{self.compilations} compilations, {self.weight_bytes} bytes of weights",
            *(f"a program for each value of {name}" for name in self.decided_by),
            *self.control_flow,
            *(f"driven by the host: {label}" for label in self.host_driven),
            *(f"outside XLA: {op}, {n} times" for op, n in self.outside.items()),
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
        _keep_compiled(settings.cache)
        ready = prepared(graph, device.platform, settings.without)
        self._weights = Weights(device)
        self.state = State() if _has_state(ready) else None
        """The variables, by key; None where there are none."""
        around = Surroundings(
            self.state, settings.observe, settings.callbacks or {}, host_in_use()
        )
        self._code = code_of(ready, Build(self._weights, settings, around))
        self._slots = _names(ready)
        self._as_numpy = settings.results == "numpy"
        self._dtypes = [_dtype(port) for port in ready.parameters]
        self._count = len(self._dtypes)
        self._quick: Any = None
        """What takes arrays without another look, once it is known that there is one.
        """

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
            for result in made:  # JAX may still read what the caller may write to
                result.block_until_ready()
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
            return self._code([_fed(value, dtype) for value, dtype in rows])

    def _as_arrays(self, results: Sequence[Any]) -> Sequence[Any]:
        copied = self._code.copied
        if not copied:
            return [np.asarray(result) for result in results]
        rows = enumerate(results)
        return [np.array(r) if i in copied else np.asarray(r) for i, r in rows]

    def report(self) -> Report:
        """How it runs."""
        parts = list(self._code.parts())
        told = [part.told for part in parts]
        outside: Counter[str] = Counter()
        for each in told:
            outside.update(each.outside)
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

    def _used(self) -> list[Program]:
        parts = self._code.parts()
        return [part for part in parts if isinstance(part, Program) and part.is_used]

    def save(self, path: str | os.PathLike[str]) -> None:
        """What was compiled last as a file of `jax.export`, for `amanda_jax.restored`.

        Its shapes are those of the last call; what runs in pieces cannot be saved."""
        from amanda_jax.saving import save

        used = self._used()
        whole = used[0].again() if len(used) == 1 else None
        report = self.report()
        if whole is None or report.outside or report.host_driven or report.decided_by:
            raise UsageError(
                "only what is one program can be saved, once it was called",
                got=f"{report.pieces} pieces, {report.compilations} compilations",
            )
        save(path, *whole, used[0].weights, self._slots)

    def __repr__(self) -> str:
        return f"<executable on {self._weights.device}>"


def _has_state(graph: Graph) -> bool:
    return any(effect_of(op) in ("holds", "reads", "writes") for op in graph.walk())


def _names(graph: Graph) -> tuple[list[str | None], list[str | None]]:
    """What inputs and results are called."""
    return [p.name for p in graph.parameters], [p.name for p in graph.outputs]


def _dtype(port: OutputPort) -> Any:
    """The element type that is fed, where it is known; of numpy."""
    found = port.type
    if not isinstance(found, TensorType) or found.dtype.kind == "unknown":
        return None
    return found.dtype.numpy


def _fed(value: Any, dtype: Any) -> Any:
    """A feed as an array, without a copy where it is one in memory."""
    if isinstance(value, jax.Array):
        return value
    if hasattr(value, "__dlpack__") and not isinstance(value, np.ndarray | np.generic):
        return np.from_dlpack(value)
    if isinstance(value, np.ndarray | np.generic) or hasattr(value, "__array__"):
        return np.asarray(value)
    return np.asarray(value, dtype)


def _keep_compiled(folder: str | None) -> None:
    """JAX keeps compiled programs in a folder; one that was told before stays."""
    config: Any = jax.config
    if folder is None or config.jax_compilation_cache_dir is not None:
        return
    config.update("jax_compilation_cache_dir", str(folder))
    config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
