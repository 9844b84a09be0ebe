"""The numpy backend: it runs every op of the hub set, on the CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from amanda.errors import BackendError
from amanda.graph import Graph, Op
from amanda_std import NAMESPACE

if TYPE_CHECKING:
    from amanda_std.execute import Program

_OWN = ("float32", "float64")


class NumpyBackend:
    """Entry `numpy` of `amanda.backends`."""

    name = "numpy"
    namespace = NAMESPACE

    def devices(self) -> Sequence[str]:
        return ["cpu"]

    def takes(self, op: Op) -> Literal[True] | str:
        from amanda_std.reading import why_unreadable

        return why_unreadable(op) or True

    def compile(
        self, graph: Graph, device: str | None, options: Mapping[str, Any]
    ) -> NumpyExecutable:
        from amanda_std.execute import Program
        from amanda_std.lowering import lower, primitives
        from amanda_std.numpy_kernels import NUMPY
        from amanda_std.passes import drop, fold, infer, share

        if device not in (None, *self.devices()):
            raise BackendError(
                f"backend {self.name!r} has no device {device!r}",
                expected=f"one of {', '.join(self.devices())}",
            )
        if options:
            raise BackendError(
                f"backend {self.name!r} knows no option {min(options)!r}"
            )
        typed = graph.clone()
        infer(typed)
        lower(typed, lambda op: op.type in NUMPY or not _is_plain(op) or primitives(op))
        for improve in (fold, share, drop):
            improve(typed)
        dtypes = [getattr(p.type, "dtype", None) for p in graph.parameters]
        return NumpyExecutable(Program(typed, NUMPY), dtypes)


def _is_plain(op: Op) -> bool:
    """Whether taking an op apart keeps its digits: numpy has its floats as its own."""
    from amanda.types import TensorType

    for port in (*op.inputs, *op.outputs):
        if port is not None and isinstance(port.type, TensorType):
            dtype = port.type.dtype
            if dtype.kind == "float" and dtype.name not in _OWN:
                return False
    return True


class NumpyExecutable:
    """A program with the kernels of numpy. Several threads may call it at once."""

    def __init__(self, program: Program, dtypes: Sequence[Any]) -> None:
        self.program = program
        self._dtypes = dtypes

    def __call__(
        self,
        feeds: Mapping[str | int, Any],
        out: Mapping[str | int, Any] | None = None,
    ) -> Sequence[Any]:
        """Feeds come in the order of the inputs. `out` is an offer not taken."""
        import numpy as np

        from amanda_std.arrays import using

        del out
        values = zip(feeds.values(), self._dtypes, strict=True)
        args = [_array(feed, dtype) for feed, dtype in values]
        with using(self.program.kernels), np.errstate(all="ignore"):
            results = self.program.run(args)
        return [_own(value) for value in results]


def _array(feed: Any, dtype: Any) -> Any:
    """A feed as an array of numpy, without a copy where it is one in memory."""
    import numpy as np

    if isinstance(feed, np.ndarray):
        return feed
    if hasattr(feed, "__dlpack__") and not isinstance(feed, np.generic):
        return np.from_dlpack(feed)
    if isinstance(feed, np.generic) or hasattr(feed, "__array__"):
        return np.asarray(feed)
    known = dtype is not None and dtype.kind != "unknown"
    return np.asarray(feed, dtype.numpy if known else None)


def _own(value: Any) -> Any:
    """An array that is no part of a weight: what cannot be written is one."""
    import numpy as np

    array = np.asarray(value)
    return array if array.flags.writeable else array.copy()
