"""The numpy backend: runs every op of the hub on the CPU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from amanda.backend import (
    DynamicSize,
    Implementation,
    PrecisionChange,
    implementation_lines,
)
from amanda.dictionary import location_of
from amanda.errors import BackendError
from amanda.graph import Graph, Op
from amanda.tensors import as_array
from amanda.types import TensorType
from amanda_std.engine.links import NAMESPACE

if TYPE_CHECKING:
    from amanda.backend import OpLabel, Profile
    from amanda.dictionary import OpDef
    from amanda.types import Type
    from amanda_std.runtime.memory_plan import MemoryPlan
    from amanda_std.runtime.state import RunContext, State
    from amanda_std.runtime.step_runner import StepRunner

_Result = TypeVar("_Result")

_NUMPY_FLOATS = ("float32", "float64")
_SMALL = 16  # bits of floats that kernels widen
_OPTIONS = ("callbacks", "observe", "profile", "state")
_STATE = frozenset({"holds", "reads", "writes"})


class NumpyBackend:
    """Entry `numpy` of `amanda.backends`.

    Options: `state`, a `State` to share with other executables; `observe`, called with
    the label and the value of every probe; `callbacks`, the functions that
    `host_callback` may call, by name; `profile`, true where ops are to be timed.
    """

    name = "numpy"
    profiles = True
    namespace = NAMESPACE

    def devices(self) -> Sequence[str]:
        return ["cpu"]

    def takes(self, op: Op) -> Literal[True] | str:
        from amanda_std.hub.op_access import why_invalid

        return why_invalid(op) or True

    def dynamic_sizes(self, graph: Graph) -> Sequence[DynamicSize]:
        """None: it computes op by op, with sizes as they come."""
        del graph
        return ()

    def precision_changes(self, graph: Graph) -> Iterator[PrecisionChange]:
        """Floats of 16 bits and less, which kernels compute in float32."""
        counts = Counter(
            (str(kind.dtype), location_of(op))
            for op in graph.walk()
            if not op.is_constant
            for kind in {port.type for port in op.outputs}
            if isinstance(kind, TensorType)
            and kind.dtype.kind == "float"
            and 0 < kind.dtype.bits <= _SMALL
        )
        for (dtype, place), count in counts.items():
            ops = f"{count} op{'s' if count > 1 else ''}"
            where = f"{ops}, {place}" if place else ops
            yield PrecisionChange(dtype, "float32, rounded once", where)

    def implementations(self, definition: OpDef) -> Iterator[Implementation]:
        """The kernels of an op by dtype, or its definition."""
        from amanda_std.runtime.implementations import implementations_in_table
        from amanda_std.runtime.numpy_kernels import NUMPY

        return implementations_in_table(definition.name, NUMPY)

    def compile(
        self, graph: Graph, device: str | None, options: Mapping[str, Any]
    ) -> NumpyExecutable:
        from amanda_std.hub.expansion import is_not_composite
        from amanda_std.hub.lowering import lower
        from amanda_std.passes import drop, fold, infer, share
        from amanda_std.runtime.numpy_kernels import NUMPY
        from amanda_std.runtime.step_runner import StepRunner

        if device not in (None, *self.devices()):
            raise BackendError(
                f"backend {self.name!r} has no device {device!r}",
                expected=f"one of {', '.join(self.devices())}",
            )
        _check_options(options)
        typed = graph.clone()
        infer(typed)
        lower(
            typed,
            lambda op: (
                op.type in NUMPY or not _has_numpy_floats(op) or is_not_composite(op)
            ),
        )
        for improve in (fold, share, drop):
            improve(typed)
        types = [port.type for port in graph.parameters]
        made = NumpyExecutable(StepRunner(typed, NUMPY), types, options)
        if options.get("profile"):
            from amanda_std.runtime.profiling import step_labels

            made.labels = step_labels(typed)
        return made


def _check_options(options: Mapping[str, Any]) -> None:
    from amanda_std.runtime.state import State

    for name in sorted(options):
        if name not in _OPTIONS:
            raise BackendError(
                f"backend 'numpy' knows no option {name!r}",
                expected=f"one of {', '.join(_OPTIONS)}",
            )
    State.expect(options.get("state"))


def _has_numpy_floats(op: Op) -> bool:
    """Whether lowering an op keeps its precision: all floats are numpy's own."""
    from amanda.types import TensorType

    for port in (*op.inputs, *op.outputs):
        if port is not None and isinstance(port.type, TensorType):
            dtype = port.type.dtype
            if dtype.kind == "float" and dtype.name not in _NUMPY_FLOATS:
                return False
    return True


class NumpyReport(NamedTuple):
    """How an executable runs."""

    implementations: tuple[Implementation, ...]
    """What runs each op: a kernel, chosen by its types, or its definition."""
    memory: MemoryPlan

    def __str__(self) -> str:
        plan = self.memory
        views = sum(bool(value.aliases) for value in plan.values)
        buffers = (
            f"memory: {plan.memories} buffers; {plan.reuse_count} steps write over one "
            f"that is not used any more; {views} values may be views of others"
        )
        return "\n".join([*implementation_lines(self.implementations), buffers])


class NumpyExecutable:
    """A graph with numpy kernels. Several threads may call it at once.

    Calls of an executable with state are serialized."""

    def __init__(
        self,
        program: StepRunner,
        types: Sequence[Type | None],
        options: Mapping[str, Any],
    ) -> None:
        self.program = program
        self.labels: list[OpLabel] | None = None
        """The labels of the steps, where they are to be timed."""
        self._takers = [_feed_converter(type_) for type_ in types]
        self.state: State | None = None
        """The variables, by key; None if there are none."""
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
        """The memory plan: lifetimes of values and reuse of memory."""
        return self.program.plan()

    def report(self) -> NumpyReport:
        """What runs each op, and how memory is used."""
        return NumpyReport(tuple(self.program.implementations()), self.plan())

    def __call__(
        self,
        feeds: Mapping[str | int, Any],
        out: Mapping[str | int, Any] | None = None,
    ) -> Sequence[Any]:
        """Feeds come in the order of the inputs; `out` is ignored."""
        del out
        args = self._arguments(feeds)
        return self._call_inside(
            lambda: [_writable(value) for value in self.program.run(args)]
        )

    def _arguments(self, feeds: Mapping[str | int, Any]) -> list[Any]:
        values = zip(self._takers, feeds.values(), strict=True)
        return [take(feed) for take, feed in values]

    def _call_inside(self, call: Callable[[], _Result]) -> _Result:
        """Call with the kernels, and with the variables, if there are any."""
        import numpy as np

        from amanda_std.engine.arrays import use_kernels

        with use_kernels(self.program.kernels), np.errstate(all="ignore"):
            if self._around is None:
                return call()
            from amanda_std.runtime.state import run_context

            with (
                run_context(self._around),
                self.state.lock if self.state else nullcontext(),
            ):
                return call()

    def profile(self, feeds: Mapping[str | int, Any]) -> Profile:
        """The time of each op, and the memory that it allocates."""
        from amanda_std.runtime.profiling import profile_program

        if self.labels is None:
            raise BackendError(
                "ops are timed only where the option `profile` was given",
                hint="compile with profile=True",
            )
        args, labels = self._arguments(feeds), self.labels
        return self._call_inside(lambda: profile_program(self.program, labels, args))


def _feed_converter(type_: Type | None) -> Callable[[Any], Any]:
    """A function that converts a feed to an array, without a copy where possible."""
    import numpy as np

    from amanda.types import RefType, TensorType

    if isinstance(type_, RefType):
        return lambda cell: cell
    is_tensor = type_ is None or isinstance(type_, TensorType)
    dtype = getattr(type_, "dtype", None)
    kind = "unknown" if dtype is None else dtype.kind
    wanted = None
    if dtype is not None and kind not in ("unknown", "string", "bytes"):
        wanted = dtype.numpy
    texts = kind == "string"

    def take(feed: Any) -> Any:
        if isinstance(feed, np.ndarray):
            return _string_feed(feed) if texts else feed
        if feed is None or isinstance(feed, list | tuple | dict):
            return (
                _array_of_list(feed, wanted, texts)
                if is_tensor
                else _container_of_arrays(feed, type_)
            )
        if hasattr(feed, "__dlpack__") or hasattr(feed, "__array__"):
            return as_array(feed)
        return _array_of_list(feed, wanted, texts)

    return take


def _array_of_list(feed: Any, wanted: Any, texts: bool) -> Any:
    """Numbers or strings in lists, for a tensor input."""
    import numpy as np

    if feed is None:
        return None
    return _string_feed(np.asarray(feed, object)) if texts else np.asarray(feed, wanted)


def _container_of_arrays(feed: Any, type_: Type | None) -> Any:
    """A feed of a container input, with arrays as its items.

    Numbers that are no arrays have the dtype of their type."""
    import numpy as np

    from amanda.types import MapType, SequenceType

    if isinstance(feed, dict):
        item = type_.value if isinstance(type_, MapType) else None
        return {key: _container_of_arrays(each, item) for key, each in feed.items()}
    if isinstance(feed, list | tuple):
        item = type_.element if isinstance(type_, SequenceType) else None
        return type(feed)([_container_of_arrays(each, item) for each in feed])
    if isinstance(feed, int | float) and not isinstance(feed, np.generic):
        return _feed_converter(type_)(feed)
    return None if feed is None else _string_feed(np.asarray(feed))


def _string_feed(array: Any) -> Any:
    from amanda_std.runtime.containers import decode_string, holds_strings, string_array

    if not holds_strings(array):
        return array
    return string_array([decode_string(item) for item in array.flat], array.shape)


def _writable(value: Any) -> Any:
    """A writable array: a result that is part of a weight is copied."""
    import numpy as np

    if isinstance(value, list | tuple):
        return type(value)([_writable(each) for each in value])
    if isinstance(value, dict):
        return {key: _writable(each) for key, each in value.items()}
    if value is None:
        return None
    array = np.asarray(value)
    return array if array.flags.writeable else array.copy()
