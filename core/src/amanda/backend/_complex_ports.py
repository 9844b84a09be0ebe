"""Complex feeds and results of executables whose target has no complex numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from amanda.tensors import Tensor, as_array

if TYPE_CHECKING:
    from amanda.backend._protocols import Executable, FeedSlot, Key
    from amanda.mapping.routes.report import ChangedPort

__all__ = ["ComplexPorts", "complex_default"]


class ComplexPorts:
    """An executable of pairs of real numbers, called with complex ones.

    `keys` are those of its results, in order. Everything but calls is left to the
    executable itself."""

    call_again = None

    def __init__(
        self,
        executable: Executable,
        changed: Sequence[ChangedPort],
        inputs: Sequence[Key],
        results: Sequence[Key],
    ) -> None:
        self._on_pairs = executable
        self._inputs = {inputs[p.index]: p for p in changed if p.place == "input"}
        self._results = {results[p.index]: p for p in changed if p.place == "result"}
        self._keys = list(results)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._on_pairs, name)

    def __call__(
        self, feeds: Mapping[Key, Any], out: Mapping[Key, Any] | None = None
    ) -> Mapping[Key, Any]:
        given = _map_some(feeds, self._inputs, _as_pairs)
        real = {k: v for k, v in (out or {}).items() if k not in self._results}
        found = self._on_pairs(given, real)
        if not isinstance(found, Mapping):
            found = dict(zip(self._keys, found, strict=True))
        return _map_some(found, self._results, _as_complex)


def complex_default(slot: FeedSlot, port: ChangedPort) -> Any:
    """The default of an input in complex numbers, of one with pairs in their place."""
    if slot.default is None:
        return None
    return Tensor.of(_as_complex(slot.default.numpy(), port))


def _map_some(
    values: Mapping[Key, Any],
    ports: Mapping[Key, ChangedPort],
    convert: Callable[[Any, ChangedPort], Any],
) -> dict[Key, Any]:
    rows = values.items()
    return {k: convert(v, ports[k]) if k in ports else v for k, v in rows}


def _as_pairs(value: Any, port: ChangedPort) -> Any:
    import numpy as np

    array = np.asarray(as_array(value), port.before.dtype.numpy)  # type: ignore[attr-defined]
    real = port.after.dtype.numpy  # type: ignore[attr-defined]
    return array.reshape(-1).view(real).reshape(*array.shape, 2)


def _as_complex(value: Any, port: ChangedPort) -> Any:
    import numpy as np

    array = np.ascontiguousarray(value)
    whole = port.before.dtype.numpy  # type: ignore[attr-defined]
    return array.reshape(-1).view(whole).reshape(array.shape[:-1])
