"""Bulk construction, and resolution of value handles after changes."""

from __future__ import annotations

import gc
from types import TracebackType
from typing import Any

from amanda.errors import GoneError
from amanda.graph._port import OutputPort


class bulk:  # noqa: N801  (used as a statement: `with bulk():`)
    """Pause the cyclic garbage collector while many ops are built.

    New ops stay alive, so collections in between would free nothing and traverse all
    objects. The previous setting is restored at the end.
    """

    __slots__ = ("_was_enabled",)

    def __init__(self) -> None:
        self._was_enabled = False

    def __enter__(self) -> None:
        self._was_enabled = gc.isenabled()
        gc.disable()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._was_enabled:
            gc.enable()


def snap(handles: Any) -> Any:
    """Resolve every value handle in nested lists, tuples and dicts.

    A handle whose op is gone without a replacement is returned as it was;
    `port.resolve()` raises GoneError for it.
    """
    if isinstance(handles, OutputPort):
        try:
            return handles.resolve()
        except GoneError:
            return handles
    if isinstance(handles, dict):
        return {key: snap(value) for key, value in handles.items()}
    if isinstance(handles, list | tuple):
        make = getattr(handles, "_make", type(handles))  # of a named tuple
        return make([snap(value) for value in handles])
    return handles
