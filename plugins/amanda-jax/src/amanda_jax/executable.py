"""What a graph is compiled to: it is called with arrays, and tells how it runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from amanda.errors import AmandaError
from amanda.graph import Graph, OutputPort
from amanda.types import TensorType
from amanda_jax.code import Build
from amanda_jax.cutting import code_of
from amanda_jax.preparing import prepared
from amanda_jax.program import MisfitError, Program
from amanda_jax.settings import Settings
from amanda_jax.weights import Weights
from amanda_std.ordering import effect_of
from amanda_std.state import State, Surroundings

__all__ = ["Executable", "Report"]

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


class Executable:
    """Several threads may call it at once."""

    def __init__(self, graph: Graph, device: Any, settings: Settings) -> None:
        ready = prepared(graph, device.platform, settings.without)
        self._weights = Weights(device)
        self.state = State() if _has_state(ready) else None
        """The variables, by key; None where there are none."""
        around = Surroundings(self.state, settings.observe, settings.callbacks or {})
        self._code = code_of(ready, Build(self._weights, settings, around))
        self._as_numpy = settings.results == "numpy"
        self._dtypes = [_dtype(port) for port in ready.parameters]
        self._arrays = (_ARRAY,) * len(self._dtypes)
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
        if self.state is not None:
            with self.state.lock:
                return self._called(tuple(feeds.values()))
        return self._called(tuple(feeds.values()))

    def _called(self, values: tuple[Any, ...]) -> Sequence[Any]:
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
        if tuple(map(type, values)) != self._arrays:
            for result in made:  # JAX may still read what the caller may write to
                result.block_until_ready()
        return made

    def _looked_at(self, values: Sequence[Any]) -> Sequence[Any]:
        """The call as it always works: feeds of any kind, programs of every kind."""
        try:
            made = self._code(values)
        except (MisfitError, TypeError, ValueError):
            rows = zip(values, self._dtypes, strict=True)
            made = self._code([_fed(value, dtype) for value, dtype in rows])
        self._quick = self._code.quick
        return made

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
            sum(isinstance(part, Program) and part.is_used for part in parts),
            self._code.pieces,
            sum(part.compilations for part in parts),
            self._weights.nbytes,
            tuple(dict.fromkeys(name for each in told for name in each.decided_by)),
            tuple(dict.fromkeys(note for each in told for note in each.notes)),
            tuple(dict.fromkeys(why for each in told for why in each.driven)),
            dict(outside),
        )


def _has_state(graph: Graph) -> bool:
    return any(effect_of(op) in ("holds", "reads", "writes") for op in graph.walk())


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
