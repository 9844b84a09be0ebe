"""A graph as a session, called with arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

from amanda.backend import Key
from amanda.errors import BackendError
from amanda.graph import Graph
from amanda.types import DType, TensorType, unknown
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
        self._sessions: dict[_Types, Session] = {}
        untyped = [_is_untyped(port.type) for port in graph.parameters]
        self._untyped = untyped
        self._graph: Graph | None = None
        if any(untyped):  # what is fed says the types
            self._graph = graph.clone()
        else:
            self._sessions[(None,) * len(untyped)] = Session(maker(graph))

    @property
    def session(self) -> Any:
        """The session; that of the first call where inputs have no types."""
        for made in self._sessions.values():
            return made.session
        raise BackendError("there is no session before the first call")

    @property
    def ir_version(self) -> int | None:
        """The IR version it was written with, where that is not the model's own."""
        return self._maker.ir_version

    def __call__(
        self, feeds: Mapping[Key, Any], out: Mapping[Key, Any] | None = None
    ) -> Sequence[Any]:
        """Feeds come checked, in the order of the inputs; results go in their order."""
        del out  # arrays to write to: an offer that need not be taken
        values = list(feeds.values())
        types: _Types = tuple(
            _dtype(value) if untyped else None
            for value, untyped in zip(values, self._untyped, strict=True)
        )
        made = self._sessions.get(types)
        if made is None:
            with self._lock:
                made = self._sessions.get(types) or self._typed(types)
                self._sessions[types] = made
        return made(values)

    def _typed(self, types: _Types) -> Session:
        """A session for inputs of these element types."""
        assert self._graph is not None
        graph = self._graph.clone()
        for port, dtype in zip(graph.parameters, types, strict=True):
            if dtype is not None:
                old = port.type
                shape = old.shape if isinstance(old, TensorType) else None
                port.type = TensorType(dtype, shape)
        return Session(self._maker(graph))


class Session:
    """A session with the kinds of its inputs and outputs."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self._inputs = [Slot(each) for each in session.get_inputs()]
        self._outputs = [Slot(each) for each in session.get_outputs()]
        slots = (*self._inputs, *self._outputs)
        self._plain = all(slot.is_plain for slot in slots)

    def __call__(self, values: Sequence[Any]) -> list[Any]:
        from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

        pairs = list(zip(self._inputs, values, strict=True))
        names = [slot.name for slot in self._outputs]
        try:
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


def _is_untyped(type_: object) -> bool:
    return type_ is None or (isinstance(type_, TensorType) and type_.dtype is unknown)


def _dtype(value: Any) -> DType:
    import numpy as np

    return DType.of(value if hasattr(value, "dtype") else np.asarray(value))
