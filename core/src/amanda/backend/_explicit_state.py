"""Variables of executables whose target has inputs and results in their place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from amanda.backend._state import State

if TYPE_CHECKING:
    from amanda.backend._protocols import Executable, FeedSlot, Key
    from amanda.graph import StatePort

__all__ = ["ExplicitState", "fill_state"]


class ExplicitState:
    """An executable called without the inputs and results that are variables.

    The results of a call are the inputs of the next one. Everything but calls is left
    to the executable itself."""

    call_again = None
    call_consuming = None

    def __init__(
        self,
        executable: Executable,
        ports: Sequence[StatePort],
        inputs: Sequence[FeedSlot],
        results: Sequence[Key],
        state: State | None,
    ) -> None:
        self._of_values = executable
        self.state = State() if state is None else state
        fill_state(self.state, ports, inputs)
        before = {port.input: port.key for port in ports}
        self._before = [(slot.key, before.get(i)) for i, slot in enumerate(inputs)]
        self._after = {results[p.result]: p.key for p in ports if p.result is not None}
        self._results = list(results)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of_values, name)

    def __call__(
        self, feeds: Mapping[Key, Any], out: Mapping[Key, Any] | None = None
    ) -> list[Any]:
        state = self.state
        with state.lock:
            cells = {key: state.cell(key) for _, key in self._before if key is not None}
            given = {
                name: feeds[name] if key is None else cells[key].read()
                for name, key in self._before
            }
            found = self._of_values(given, out)
            if not isinstance(found, Mapping):
                found = dict(zip(self._results, found, strict=True))
            for name, key in self._after.items():
                cells[key].assign(found[name])
        return [found[name] for name in self._results if name not in self._after]


def fill_state(
    state: State, ports: Sequence[StatePort], inputs: Sequence[FeedSlot]
) -> None:
    """Give variables their types and initial values, the defaults of inputs."""
    for port in ports:
        slot = inputs[port.input]
        initial = None if slot.default is None else slot.default.numpy()
        state.cell(port.key, initial, slot.type)
