"""The numpy backend: it runs every op of the hub set, on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Literal

from amanda.errors import BackendError
from amanda.graph import Graph, Op
from amanda_std import NAMESPACE

if TYPE_CHECKING:
    from amanda.types import Type
    from amanda_std.runtime.memory_plan import MemoryPlan
    from amanda_std.runtime.state import RunContext, State
    from amanda_std.runtime.step_runner import StepRunner

_OWN = ("float32", "float64")
_OPTIONS = ("callbacks", "observe", "state")
_STATE = frozenset({"holds", "reads", "writes"})


class NumpyBackend:
    """Entry `numpy` of `amanda.backends`.

    Options: `state`, a `State` to share with other executables; `observe`, which is
    called with the label and the value of every probe; `callbacks`, the functions that
    `host_callback` may call, by name.
    """

    name = "numpy"
    namespace = NAMESPACE

    def devices(self) -> Sequence[str]:
        return ["cpu"]

    def takes(self, op: Op) -> Literal[True] | str:
        from amanda_std.hub.op_access import why_invalid

        return why_invalid(op) or True

    def compile(
        self, graph: Graph, device: str | None, options: Mapping[str, Any]
    ) -> NumpyExecutable:
        from amanda_std.hub.lowering import is_not_composite, lower
        from amanda_std.passes import drop, fold, infer, share
        from amanda_std.runtime.numpy_kernels import NUMPY
        from amanda_std.runtime.step_runner import StepRunner

        if device not in (None, *self.devices()):
            raise BackendError(
                f"backend {self.name!r} has no device {device!r}",
                expected=f"one of {', '.join(self.devices())}",
            )
        _check(options)
        typed = graph.clone()
        infer(typed)
        lower(
            typed,
            lambda op: op.type in NUMPY or not _is_plain(op) or is_not_composite(op),
        )
        for improve in (fold, share, drop):
            improve(typed)
        types = [port.type for port in graph.parameters]
        return NumpyExecutable(StepRunner(typed, NUMPY), types, options)


def _check(options: Mapping[str, Any]) -> None:
    from amanda_std.runtime.state import State

    for name in sorted(options):
        if name not in _OPTIONS:
            raise BackendError(
                f"backend 'numpy' knows no option {name!r}",
                expected=f"one of {', '.join(_OPTIONS)}",
            )
    state = options.get("state")
    if state is not None and not isinstance(state, State):
        raise BackendError(
            "option 'state' is that of an executable, or a new one",
            expected="amanda_std.runtime.state.State",
            got=type(state).__name__,
        )


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
    """A program with the kernels of numpy. Several threads may call it at once.

    Calls of one that has state come one after the other."""

    def __init__(
        self,
        program: StepRunner,
        types: Sequence[Type | None],
        options: Mapping[str, Any],
    ) -> None:
        self.program = program
        self._takers = [_taker(type_) for type_ in types]
        self.state: State | None = None
        """The variables, by key; None where there are none."""
        self._around: RunContext | None = None
        if program.effects:
            self._surround(options)

    def _surround(self, options: Mapping[str, Any]) -> None:
        from amanda.host import host_in_use
        from amanda_std.runtime.state import RunContext, State

        if self.program.effects & _STATE:
            given = options.get("state")
            self.state = State() if given is None else given
        callbacks = options.get("callbacks") or {}
        self._around = RunContext(
            self.state, options.get("observe"), callbacks, host_in_use()
        )

    def plan(self) -> MemoryPlan:
        """Where values are kept, how long, and what is written over."""
        return self.program.plan()

    def __call__(
        self,
        feeds: Mapping[str | int, Any],
        out: Mapping[str | int, Any] | None = None,
    ) -> Sequence[Any]:
        """Feeds come in the order of the inputs. `out` is an offer not taken."""
        import numpy as np

        from amanda_std.engine.arrays import use_kernels

        del out
        values = zip(self._takers, feeds.values(), strict=True)
        args = [take(feed) for take, feed in values]
        with use_kernels(self.program.kernels), np.errstate(all="ignore"):
            if self._around is None:
                return [_own(value) for value in self.program.run(args)]
            from amanda_std.runtime.state import run_context

            with (
                run_context(self._around),
                self.state.lock if self.state else nullcontext(),
            ):
                return [_own(value) for value in self.program.run(args)]


def _taker(type_: Type | None) -> Callable[[Any], Any]:
    """What makes an array of a feed, without a copy where it is one in memory."""
    import numpy as np

    from amanda.types import TensorType

    is_tensor = type_ is None or isinstance(type_, TensorType)
    dtype = getattr(type_, "dtype", None)
    kind = "unknown" if dtype is None else dtype.kind
    wanted = None
    if dtype is not None and kind not in ("unknown", "string", "bytes"):
        wanted = dtype.numpy
    texts = kind == "string"

    def take(feed: Any) -> Any:
        if isinstance(feed, np.ndarray):
            return _texts(feed) if texts else feed
        if feed is None or isinstance(feed, list | tuple | dict):
            return _listed(feed, wanted, texts) if is_tensor else _nested(feed)
        if hasattr(feed, "__dlpack__") and not isinstance(feed, np.generic):
            return np.from_dlpack(feed)
        if isinstance(feed, np.generic) or hasattr(feed, "__array__"):
            return np.asarray(feed)
        return _listed(feed, wanted, texts)

    return take


def _listed(feed: Any, wanted: Any, texts: bool) -> Any:
    """Numbers or texts in lists, for an input that is a tensor."""
    import numpy as np

    if feed is None:
        return None
    return _texts(np.asarray(feed, object)) if texts else np.asarray(feed, wanted)


def _nested(feed: Any) -> Any:
    """A feed of an input that is no tensor: its parts as arrays."""
    import numpy as np

    if isinstance(feed, dict):
        return {key: _nested(each) for key, each in feed.items()}
    if isinstance(feed, list | tuple):
        return type(feed)([_nested(each) for each in feed])
    return None if feed is None else _texts(np.asarray(feed))


def _texts(array: Any) -> Any:
    from amanda_std.runtime.containers import decode_string, holds_strings, string_array

    if not holds_strings(array):
        return array
    return string_array([decode_string(item) for item in array.flat], array.shape)


def _own(value: Any) -> Any:
    """An array that is no part of a weight: what cannot be written is one."""
    import numpy as np

    if isinstance(value, list | tuple):
        return type(value)([_own(each) for each in value])
    if isinstance(value, dict):
        return {key: _own(each) for key, each in value.items()}
    if value is None:
        return None
    array = np.asarray(value)
    return array if array.flags.writeable else array.copy()
