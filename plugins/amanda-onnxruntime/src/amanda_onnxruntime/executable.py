"""A graph as a session, called with arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from threading import Lock
from typing import Any

from amanda.backend import Key
from amanda.errors import BackendError
from amanda.graph import Graph
from amanda.types import DType, TensorType, unknown
from amanda_onnxruntime.fitting import Form, forms
from amanda_onnxruntime.narrow import ends_widened, has_narrow_ends
from amanda_onnxruntime.sessions import Maker
from amanda_onnxruntime.values import Slot

__all__ = ["Executable"]

_Types = tuple[DType | None, ...]


class Executable:
    """Several threads may call it; onnxruntime sees to that.

    `session` is the onnxruntime.InferenceSession, for whoever wants more of it.
    """

    def __init__(self, graph: Graph, maker: Maker) -> None:
        self._maker = maker
        self._lock = Lock()
        self._fitted: dict[_Types, Fitted] = {}
        untyped = [_is_untyped(port.type) for port in graph.parameters]
        self._untyped = untyped
        self._graph: Graph | None = None
        if any(untyped):  # what is fed says the types
            self._graph = graph.clone()
        else:
            self._fitted[(None,) * len(untyped)] = Fitted(graph, maker)

    @property
    def session(self) -> Any:
        """The session; that of the first call where inputs have no types."""
        return self._first().session.session

    @property
    def form(self) -> str:
        """How what runs differs from the graph that was compiled; empty: it does not.

        A fallback of any kind shows here: another opset, wider numbers.
        """
        return self._first().form

    @property
    def ir_version(self) -> int | None:
        """The IR version it was written with, where that is not the model's own."""
        return self._maker.ir_version

    def _first(self) -> Fitted:
        for made in self._fitted.values():
            return made
        raise BackendError("there is no session before the first call")

    def __call__(
        self, feeds: Mapping[Key, Any], out: Mapping[Key, Any] | None = None
    ) -> Sequence[Any]:
        """Feeds come checked, in the order of the inputs; results go in their order.

        Arrays in `out` are bound: the session writes to them.
        """
        values = list(feeds.values())
        types: _Types = tuple(
            _dtype(value) if untyped else None
            for value, untyped in zip(values, self._untyped, strict=True)
        )
        made = self._fitted.get(types)
        if made is None:
            with self._lock:
                made = self._fitted.get(types) or self._typed(types)
                self._fitted[types] = made
        return made(values, out)

    def _typed(self, types: _Types) -> Fitted:
        """What runs for inputs of these element types."""
        assert self._graph is not None
        graph = self._graph.clone()
        for port, dtype in zip(graph.parameters, types, strict=True):
            if dtype is not None:
                old = port.type
                shape = old.shape if isinstance(old, TensorType) else None
                port.type = TensorType(dtype, shape)
        return Fitted(graph, self._maker)


class Fitted:
    """The first form of a graph that starts, and that runs.

    What some kernels cannot do shows in the first call only; then the next form is
    tried. Once one has run, an error is one of the feeds.
    """

    def __init__(self, graph: Graph, maker: Maker) -> None:
        self._keys = [port.name for port in graph.outputs]
        self._narrow: tuple[list[DType | None], list[DType | None]] | None = None
        graph = graph.clone()
        if has_narrow_ends(graph):
            self._narrow = ends_widened(graph)
        self._lock = Lock()
        self._others: Iterator[Form] | None = forms(graph, maker)
        self.form, self.session = self._made(next(self._others))

    @staticmethod
    def _made(form: Form) -> tuple[str, Session]:
        return form.told, Session(form.session)

    def __call__(
        self, values: Sequence[Any], out: Mapping[Key, Any] | None
    ) -> list[Any]:
        if self._narrow is not None:
            values = _as_types(values, [_plain(dtype) for dtype in self._narrow[0]])
            out = None  # the session does not write such numbers
        results = self._run(values, self._bound(out))
        if self._narrow is not None:
            results = _as_types(results, [_own(dtype) for dtype in self._narrow[1]])
        return results

    def _bound(self, out: Mapping[Key, Any] | None) -> dict[int, Any]:
        """The arrays to write to, by the place of the output."""
        keys = {key: i for i, key in enumerate(self._keys)}
        return {keys[k]: v for k, v in (out or {}).items() if k in keys}

    def _run(self, values: Sequence[Any], out: dict[int, Any]) -> list[Any]:
        if self._others is None:
            return self.session(values, out)
        first: Exception | None = None
        while True:
            try:
                results = self.session(values, out)
            except BackendError:
                raise  # the feeds
            except Exception as error:  # noqa: BLE001  its errors have no common base
                first = first or error
                if not self._next():
                    raise first from None
                continue
            self._others = None
            return results

    def _next(self) -> bool:
        with self._lock:
            form = None if self._others is None else next(self._others, None)
            if form is None:
                return False
            self.form, self.session = self._made(form)
            return True


class Session:
    """A session with the kinds of its inputs and outputs."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self._inputs = [Slot(each) for each in session.get_inputs()]
        self._outputs = [Slot(each) for each in session.get_outputs()]
        slots = (*self._inputs, *self._outputs)
        self._plain = all(slot.is_plain for slot in slots)

    def __call__(self, values: Sequence[Any], out: dict[int, Any]) -> list[Any]:
        from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

        pairs = list(zip(self._inputs, values, strict=True))
        names = [slot.name for slot in self._outputs]
        try:
            if out and self._can_bind(out):
                return self._bound(pairs, out)
            if self._plain:
                fed = {slot.name: slot.array(value) for slot, value in pairs}
                return list(self.session.run(names, fed))
            held = {slot.name: slot.held(value) for slot, value in pairs}
            results = self.session.run_with_ort_values(names, held)
        except InvalidArgument as error:
            raise BackendError("onnxruntime refuses the feeds", got=error) from error
        return [
            slot.taken(value)
            for slot, value in zip(self._outputs, results, strict=True)
        ]

    def _can_bind(self, out: dict[int, Any]) -> bool:
        """Row-major arrays of numbers that numpy has, and nothing else around."""
        slots = (*self._inputs, *self._outputs)
        arrays = all(array.flags.c_contiguous for array in out.values())
        return arrays and all(slot.is_bound for slot in slots)

    def _bound(self, pairs: list[tuple[Slot, Any]], out: dict[int, Any]) -> list[Any]:
        """A call that writes its results to the arrays that were given for them."""
        binding = self.session.io_binding()
        for slot, value in pairs:
            binding.bind_cpu_input(slot.name, slot.array(value))
        for i, slot in enumerate(self._outputs):
            array = out.get(i)
            if array is None:
                binding.bind_output(slot.name)
            else:
                address = array.ctypes.data
                place = ("cpu", 0, array.dtype, array.shape, address)
                binding.bind_output(slot.name, *place)
        self.session.run_with_iobinding(binding)
        made = binding.get_outputs()
        return [out[i] if i in out else value.numpy() for i, value in enumerate(made)]


def _as_types(values: Sequence[Any], dtypes: Sequence[Any]) -> list[Any]:
    import numpy as np

    return [
        value if dtype is None else np.asarray(value).astype(dtype)
        for value, dtype in zip(values, dtypes, strict=True)
    ]


def _plain(dtype: DType | None) -> Any:
    """Numbers of 8 bits for those of less."""
    if dtype is None:
        return None
    return "int8" if dtype.kind == "int" else "uint8"


def _own(dtype: DType | None) -> Any:
    return None if dtype is None else dtype.numpy


def _is_untyped(type_: object) -> bool:
    return type_ is None or (isinstance(type_, TensorType) and type_.dtype is unknown)


def _dtype(value: Any) -> DType:
    import numpy as np

    return DType.of(value if hasattr(value, "dtype") else np.asarray(value))
