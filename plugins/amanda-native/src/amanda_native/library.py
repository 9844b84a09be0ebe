"""A native library: loaded, checked, and its functions as methods."""

from __future__ import annotations

import ctypes
import json
import logging
from collections.abc import Mapping, Sequence
from ctypes import POINTER, byref, c_void_p, sizeof
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from amanda.errors import (
    BackendError,
    PluginBrokenError,
    PluginIncompatibleError,
    PluginMissingError,
)
from amanda_native import c_interface as c

if TYPE_CHECKING:
    from amanda.tensors import Tensor

__all__ = ["LibraryInfo", "NativeLibrary", "library_error"]

_log = logging.getLogger("amanda.native")

OPEN: Final = "amanda_backend_open"
_READ_ONLY: Final = 1
_MOST_DEVICES: Final = 64


class LibraryInfo(NamedTuple):
    """What a library tells about itself."""

    name: str
    library: str
    """Name and version of what computes."""
    namespace: str
    devices: tuple[str, ...]


class NativeLibrary:
    """A library in this process. Thread-safe, as the interface demands of libraries."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._library, self.table = _open(path)
        self.info = _read_info(self.table, path)
        self.what = f"the native library {self.info.name!r}, {path},"
        self._log = c.LOG(self._write_log)
        self._weights: dict[int, tuple[Any, ...]] = {}
        """What weights point to, until their deleter is called."""
        self._deleter = c.DELETER(self._release_weight)

    def takes(self, text: str) -> Literal[True] | str:
        """True, or the reason why the op in a graph's JSON is not supported."""
        data, error = text.encode(), new_error()
        if self.table.takes(data, len(data), byref(error)) == 1:
            return True
        reason = error.text("message")
        return (
            f"{self.info.name}: {reason}" if reason else f"{self.info.name} refuses it"
        )

    def compile(
        self,
        device: str,
        text: str,
        weights: Sequence[Tensor],
        options: Mapping[str, Any],
    ) -> int:
        """The address of an executable; `free` it once."""
        from amanda_native.weights import array_of_weight

        arrays = [array_of_weight(tensor) for tensor in weights]
        managed = (POINTER(c.DLManagedTensor) * max(len(arrays), 1))()
        for i, array in enumerate(arrays):
            managed[i] = self._lend(array)
        host = self.new_host()
        graph, given = text.encode(), json.dumps(dict(options)).encode()
        args = c.CompileArgs(
            sizeof(c.CompileArgs), ctypes.pointer(host), device.encode(), graph,
            len(graph), given, len(given), managed, len(arrays),
        )  # fmt: skip
        found, error = c_void_p(), new_error()
        status = self.table.compile(byref(args), byref(found), byref(error))
        if status != c.OK or not found.value:
            for i in range(len(arrays)):
                self._release_weight(managed[i])
            raise library_error(self.what, "compiling a graph", error)
        return found.value

    def new_host(self) -> c.HostTable:
        """A table of callbacks, without those of a run."""
        return c.HostTable(
            sizeof(c.HostTable), c.VERSION, None, c.ALLOCATE(), self._log
        )

    def free(self, executable: int) -> None:
        self.table.free_executable(executable)

    def _lend(self, array: Any) -> Any:
        """A managed tensor of an array, which lives until the library releases it."""
        from amanda_native.weights import address_of, code_of_array

        managed = c.DLManagedTensor(1, 0, None, self._deleter, _READ_ONLY)
        shape = c.fill_tensor(
            managed.dl_tensor, code_of_array(array), array.shape, address_of(array)
        )
        key = ctypes.addressof(managed)
        managed.manager_ctx = key
        self._weights[key] = (managed, shape, array)
        return ctypes.pointer(managed)

    def _release_weight(self, managed: Any) -> None:
        self._weights.pop(ctypes.addressof(managed.contents), None)

    def _write_log(self, context: int | None, level: int, text: bytes | None) -> None:
        del context
        _log.log(
            level, "%s: %s", self.info.name, (text or b"").decode("utf-8", "replace")
        )

    @property
    def lent_weights(self) -> int:
        """How many weights libraries hold now."""
        return len(self._weights)


def new_error() -> c.ErrorText:
    return c.ErrorText(sizeof(c.ErrorText))


def library_error(
    what: str, doing: str, error: c.ErrorText, where: str | None = None
) -> BackendError:
    """The error that a library reports."""
    message = error.text("message") or "it gives no reason"
    return BackendError(
        f"{what} failed while {doing}: {message}",
        where=where or error.text("where") or None,
        expected=error.text("expected") or None,
        got=error.text("got") or None,
        hint="run the graph on another backend, such as numpy, to compare",
    )


def _open(path: Path) -> tuple[ctypes.CDLL, c.BackendTable]:
    """Load a library, and check that this package can call it."""
    if not path.is_file():
        raise PluginMissingError(
            "there is no native library here",
            where=path,
            hint="build it, or name one that `amanda backends --load` lists",
        )
    try:
        library = ctypes.CDLL(str(path.resolve()))
    except OSError as error:
        raise PluginBrokenError(
            f"{path} is no shared library that loads here",
            expected="a library for this system, with all that it needs",
            got=error,
            hint="`ldd` lists what a library needs",
        ) from error
    try:
        open_backend = getattr(library, OPEN)
    except AttributeError as error:
        raise PluginBrokenError(
            f"{path} is no native backend",
            expected=f"a function {OPEN}",
            got="none of this name",
            hint="export it, as amanda_backend.h declares it",
        ) from error
    open_backend.argtypes = [ctypes.c_uint32]
    open_backend.restype = POINTER(c.BackendTable)
    found = open_backend(c.VERSION)
    if not found:
        raise PluginIncompatibleError(
            f"the native library {path} does not serve version {c.VERSION} of the C "
            "interface",
            got=f"NULL from {OPEN}({c.VERSION})",
            hint="upgrade the library, or amanda-native",
        )
    _expect_version(found.contents, path)
    return library, found.contents


def _expect_version(table: c.BackendTable, path: Path) -> None:
    if table.version > c.VERSION:
        raise PluginIncompatibleError(
            f"the native library {path} is made for a newer version of the C interface",
            expected=f"version {c.VERSION} or older",
            got=f"version {table.version}",
            hint="pip install --upgrade amanda-native, or build the library with the "
            "header of the installed one",
        )
    least = c.BackendTable.free_executable.offset + sizeof(c_void_p)
    if table.version < 1 or table.size < least:
        raise PluginBrokenError(
            f"the native library {path} has an incomplete table",
            expected=f"version 1 to {c.VERSION}, and at least {least} bytes",
            got=f"version {table.version}, and {table.size} bytes",
        )
    names = ("takes", "compile", "run", "free_executable")
    if missing := [name for name in names if not getattr(table, name)]:
        raise PluginBrokenError(
            f"the native library {path} has an incomplete table",
            expected=f"the functions {', '.join(names)}",
            got=f"no {', no '.join(missing)}",
        )


def _read_info(table: c.BackendTable, path: Path) -> LibraryInfo:
    devices = []
    for i in range(_MOST_DEVICES if table.devices else 0):
        name = table.devices[i]
        if name is None:
            break
        devices.append(name.decode("utf-8", "replace"))
    texts = [
        (text or b"").decode("utf-8", "replace")
        for text in (table.name, table.library, table.graph_namespace)
    ]
    if not (texts[0] and texts[2] and devices):
        raise PluginBrokenError(
            f"the native library {path} does not say what it is",
            expected="a name, a namespace and a device",
            got=f"name {texts[0]!r}, namespace {texts[2]!r}, {len(devices)} devices",
        )
    return LibraryInfo(texts[0], texts[1], texts[2], tuple(devices))
