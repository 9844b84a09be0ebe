"""A graph that a library compiled, called with arrays that are not copied."""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from amanda.errors import AmandaError
from amanda.tensors import as_array
from amanda.types import TensorType
from amanda_native import c_interface as c
from amanda_native.call_frame import CallFrame, InvalidResult, new_array
from amanda_native.interrupts import KeyboardWatch
from amanda_native.library import NativeLibrary, library_error
from amanda_native.weights import row_major

if TYPE_CHECKING:
    from amanda.backend import Key
    from amanda.graph import Graph
    from amanda.types import Type

__all__ = ["GraphPorts", "NativeExecutable", "numpy_dtypes"]

_MOST_FORMS: Final = 16
"""Combinations of dtypes and shapes of feeds whose structs are kept."""
_SLOW_SECONDS: Final = 0.05
_OP: Final = re.compile(r"op (\d+)")


class GraphPorts(NamedTuple):
    """What an executable knows of its graph."""

    inputs: tuple[Type | None, ...]
    outputs: tuple[Type | None, ...]
    keys: tuple[Key, ...]
    """The keys of the results."""
    labels: tuple[str, ...]
    """Labels of the ops, by their number in the JSON."""

    def arrays_by_index(self, out: Mapping[Key, Any] | None) -> dict[int, Any]:
        """The arrays to write to, by the index of the result."""
        given = out or {}
        return {i: given[key] for i, key in enumerate(self.keys) if key in given}

    @classmethod
    def of(cls, graph: Graph) -> GraphPorts:
        names = [port.name for port in graph.outputs]
        return cls(
            tuple(port.type for port in graph.parameters),
            tuple(None if v is None else v.type for v in graph.results),
            tuple(i if name is None else name for i, name in enumerate(names)),
            tuple(op.label for op in graph),
        )


class NativeExecutable:
    """Several threads may call it at once; a call releases Python's lock.

    Feeds in row-major order are passed as they are, and the library writes results to
    the arrays that are returned. `copies` counts feeds that had to be copied first.
    """

    def __init__(
        self,
        library: NativeLibrary,
        address: int,
        ports: GraphPorts,
        allocate: Callable[[Any, Sequence[int]], Any] = new_array,
    ) -> None:
        import numpy as np

        self.copies = 0
        self._array_class = np.ndarray
        self._is_slow = True
        """Whether the last call took long, so that the next one can be interrupted."""
        self._library = library
        self._address = address
        self._ports = ports
        self._allocate = allocate
        self._dtypes = numpy_dtypes(ports)
        self._frames: dict[Any, list[CallFrame]] = {}
        weakref.finalize(self, library.free, address)

    def __call__(
        self, feeds: Mapping[Key, Any], out: Mapping[Key, Any] | None = None
    ) -> Sequence[Any]:
        """Run with checked feeds in the order of the inputs; results in their order."""
        arrays = [
            self._to_array(feed, dtype)
            for feed, dtype in zip(feeds.values(), self._dtypes, strict=True)
        ]
        return self.run(arrays, self._ports.arrays_by_index(out))

    def run(self, arrays: Sequence[Any], out: Mapping[int, Any]) -> list[Any]:
        """The results for arrays in row-major order."""
        form = tuple([(array.dtype, array.shape) for array in arrays])
        waiting = self._frames.get(form)
        if waiting is None:
            if len(self._frames) >= _MOST_FORMS:
                self._frames.clear()
            waiting = self._frames.setdefault(form, [])
        try:
            frame = waiting.pop()
        except IndexError:
            frame = CallFrame(self._library, self._ports, arrays, self._allocate)
        try:
            frame.fill(arrays, out)
            if self._is_slow:
                with KeyboardWatch(frame):
                    status = self._run_timed(frame)
            else:
                status = self._run_timed(frame)
            if status != c.OK:
                raise self._error(frame)
            return frame.take_results()
        except InvalidResult as fault:
            raise fault.error(self._library.what, self._ports) from None
        finally:
            frame.clear()
            waiting.append(frame)

    def _run_timed(self, frame: CallFrame) -> int:
        start = perf_counter()
        status = frame.run(self._address)
        self._is_slow = perf_counter() - start > _SLOW_SECONDS
        return status

    def call_again(self, values: Sequence[Any]) -> list[Any] | None:
        """The results; None if no call had feeds of these dtypes and shapes before."""
        for value in values:
            if value.__class__ is not self._array_class or not value.flags.c_contiguous:
                return None
        form = tuple([(array.dtype, array.shape) for array in values])
        return self.run(values, {}) if form in self._frames else None

    def _error(self, frame: CallFrame) -> AmandaError:
        if frame.fault is not None:
            return frame.fault.error(self._library.what, self._ports)
        where = _OP.sub(self._label, frame.error.text("where"), count=1)
        return library_error(self._library.what, "running", frame.error, where)

    def _label(self, match: re.Match[str]) -> str:
        """The label of an op, for its number in the JSON."""
        number, labels = int(match[1]), self._ports.labels
        return labels[number] if number < len(labels) else match[0]

    def _to_array(self, feed: Any, dtype: Any) -> Any:
        array, is_copied = row_major(as_array(feed, dtype))
        self.copies += is_copied
        return array


def numpy_dtypes(ports: GraphPorts) -> list[Any]:
    """The dtype of each feed that is a list of numbers; None if unknown."""
    return [_numpy_dtype(type_) for type_ in ports.inputs]


def _numpy_dtype(type_: Type | None) -> Any:
    dtype = type_.dtype if isinstance(type_, TensorType) else None
    return None if dtype is None or dtype.kind == "unknown" else dtype.numpy
