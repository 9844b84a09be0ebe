"""Building much at once, and following handles through change."""

from __future__ import annotations

import gc
from types import TracebackType
from typing import Any

from amanda.graph._port import OutputPort


class bulk:  # noqa: N801  (used as a statement: `with bulk():`)
    """Pause the cyclic collector while much is built; the caller's setting returns.

    Every op that is made lives on, so collections in between find nothing and cost
    a walk over all there is.
    """

    __slots__ = ("_was",)

    def __init__(self) -> None:
        self._was = False

    def __enter__(self) -> None:
        self._was = gc.isenabled()
        gc.disable()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._was:
            gc.enable()


def snap(handles: Any) -> Any:
    """The same lists, tuples and dicts with every value handle resolved."""
    if isinstance(handles, OutputPort):
        return handles.resolve()
    if isinstance(handles, dict):
        return {key: snap(value) for key, value in handles.items()}
    if isinstance(handles, list | tuple):
        return type(handles)([snap(value) for value in handles])
    return handles
