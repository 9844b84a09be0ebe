"""The structs of one call: made once for dtypes and shapes, and used again."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Mapping, Sequence
from ctypes import byref, pointer, sizeof
from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from amanda.errors import PluginBrokenError
from amanda.types import DType, TensorType
from amanda_native import c_interface as c
from amanda_native.library import NativeLibrary, new_error
from amanda_native.weights import address_of, code_of_array

if TYPE_CHECKING:
    from amanda.types import Type
    from amanda_native.executable import GraphPorts

__all__ = ["CallFrame", "InvalidResult", "new_array"]

_MOST_AXES: Final = 64  # as in numpy
_MOST_BYTES: Final = 1 << 46
_CPU: Final = 1


class InvalidResult(Exception):
    """A result that no library may return."""

    def __init__(self, index: int, got: str, expected: str = "") -> None:
        self.index = index
        self.got = got
        self.expected = expected

    def error(self, what: str, ports: GraphPorts) -> PluginBrokenError:
        known = 0 <= self.index < len(ports.keys)
        type_ = ports.outputs[self.index] if known else None
        return PluginBrokenError(
            f"{what} returned an invalid result",
            where=f"result {ports.keys[self.index]!r}" if known else None,
            expected=self.expected or ("a tensor" if type_ is None else type_),
            got=self.got,
            hint="report this to the authors of the library",
        )


class _Static(NamedTuple):
    """A result whose dtype and shape are known before the call."""

    dtype: Any
    shape: tuple[int, ...]


def new_array(dtype: Any, shape: Sequence[int]) -> Any:
    import numpy as np

    return np.empty(shape, dtype)


class CallFrame:
    """The structs of calls with arrays of given dtypes and shapes, one at a time."""

    def __init__(
        self,
        library: NativeLibrary,
        ports: GraphPorts,
        arrays: Sequence[Any],
        allocate: Callable[[Any, Sequence[int]], Any],
    ) -> None:
        self.error = new_error()
        self.fault: InvalidResult | None = None
        self.is_cancelled = False
        self._run = library.table.run
        self._types = ports.outputs
        self._allocate_array = allocate
        self._static = [_static_form(type_) for type_ in ports.outputs]
        self._results: list[Any] = [None] * len(ports.outputs)
        self._given: Mapping[int, Any] = {}
        self._inputs = (c.DLTensor * max(len(arrays), 1))()
        self._outputs = (c.RunOutput * max(len(ports.outputs), 1))()
        self._kept = [
            c.fill_tensor(self._inputs[i], code_of_array(array), array.shape, None)
            for i, array in enumerate(arrays)
        ]
        self._input_list = list(self._inputs)[: len(arrays)]
        self._output_list = [each.tensor for each in self._outputs][
            : len(ports.outputs)
        ]
        for tensor, static in zip(self._output_list, self._static, strict=True):
            if static is not None:
                code = code_of_array(new_array(static.dtype, (0,)))
                self._kept.append(c.fill_tensor(tensor, code, static.shape, None))
        callbacks = c.ALLOCATE(self._allocate), c.IS_CANCELLED(self._answer_cancelled)
        self._host = library.new_host()
        self._host.allocate, self._host.cancelled = callbacks
        self._args = c.RunArgs(
            sizeof(c.RunArgs), pointer(self._host), self._inputs, len(arrays),
            self._outputs, len(ports.outputs), None,
        )  # fmt: skip
        self._pointers = byref(self._args), byref(self.error)

    def fill(self, arrays: Sequence[Any], out: Mapping[int, Any]) -> None:
        """Point to the feeds, and to arrays for results of known shape."""
        for tensor, array in zip(self._input_list, arrays, strict=True):
            tensor.data = address_of(array)
        self._given = out
        for i, static in enumerate(self._static):
            if static is not None:
                array = self._array_for(i, static.dtype, static.shape)
                self._results[i] = array
                self._output_list[i].data = address_of(array)

    def run(self, executable: int) -> int:
        return int(self._run(executable, *self._pointers))

    def take_results(self) -> list[Any]:
        """The results, which no frame holds any more."""
        for i, result in enumerate(self._results):
            if result is None:
                self._results[i] = self._managed_array(i)
            elif self._outputs[i].managed:
                raise InvalidResult(i, "memory of its own, beside that of the caller")
        results, self._results = self._results, [None] * len(self._results)
        return results

    def clear(self) -> None:
        """Forget the arrays of a call."""
        self._results = [None] * len(self._results)
        self.fault, self.is_cancelled = None, False
        for output in self._outputs:
            if output.managed:
                output.managed = None
        self._given = {}

    def _array_for(self, index: int, dtype: Any, shape: Sequence[int]) -> Any:
        """The caller's array for a result if it fits, or a new one."""
        given = self._given.get(index)
        if (
            given is not None
            and given.shape == tuple(shape)
            and given.dtype == dtype
            and given.flags.c_contiguous
        ):
            return given
        return self._allocate_array(dtype, shape)

    def _allocate(
        self, context: int | None, index: int, dtype: Any, ndim: int, shape: Any
    ) -> int | None:
        """Memory for a result; NULL, and `fault`, where it is invalid."""
        del context
        try:
            if not 0 <= index < len(self._results):
                raise InvalidResult(index, f"a result number {index}")
            if self._results[index] is not None:
                raise InvalidResult(index, "memory was asked for twice")
            form = _checked_form(index, dtype, ndim, shape, self._types[index])
            array = self._array_for(index, form.dtype.numpy, form.shape)
        except InvalidResult as fault:
            self.fault = fault
            return None
        except MemoryError:
            self.fault = InvalidResult(index, "more memory than there is")
            return None
        self._results[index] = array
        return address_of(array)

    def _answer_cancelled(self, context: int | None) -> int:
        del context
        return int(self.is_cancelled)

    def _managed_array(self, index: int) -> Any:
        """An array over memory of the library, which is released with the array."""
        import numpy as np

        if not self._outputs[index].managed:
            raise InvalidResult(index, "nothing: neither memory nor a tensor")
        managed = self._outputs[index].managed.contents
        self._outputs[index].managed = None
        tensor = managed.dl_tensor
        form = _checked_form(
            index, tensor.dtype, tensor.ndim, tensor.shape, self._types[index]
        )
        if tensor.device.device_type != _CPU or tensor.strides:
            raise InvalidResult(index, "a tensor with strides, or on another device")
        size = prod(form.shape) * form.dtype.numpy.itemsize
        if size and not tensor.data:
            raise InvalidResult(index, "a tensor without memory")
        if not size:
            return np.empty(form.shape, form.dtype.numpy)
        memory = (ctypes.c_char * size).from_address(tensor.data + tensor.byte_offset)
        if managed.deleter:
            weakref.finalize(memory, managed.deleter, pointer(managed))
        return np.frombuffer(memoryview(memory), form.dtype.numpy).reshape(form.shape)


class _Form(NamedTuple):
    dtype: DType
    shape: tuple[int, ...]


def _checked_form(
    index: int, dtype: Any, ndim: int, shape: Any, type_: Type | None
) -> _Form:
    """The dtype and shape of a result, if they can be those of the graph's."""
    if not 0 <= ndim <= _MOST_AXES or (ndim and not shape):
        raise InvalidResult(index, f"a tensor with {ndim} axes")
    dims = tuple(shape[i] for i in range(ndim))
    found = c.dtype_of_code(dtype.code, dtype.bits) if dtype.lanes == 1 else None
    got = f"{found or 'an unknown dtype'}[{', '.join(map(str, dims))}]"
    if found is None or any(n < 0 for n in dims) or prod(dims) > _MOST_BYTES:
        raise InvalidResult(index, got)
    if isinstance(type_, TensorType) and not _matches(type_, found, dims):
        raise InvalidResult(index, got)
    return _Form(found, dims)


def _matches(type_: TensorType, dtype: DType, dims: Sequence[int]) -> bool:
    if type_.dtype.kind != "unknown" and type_.dtype != dtype:
        return False
    if not type_.shape.has_rank:
        return True
    wanted = type_.shape.dims
    return len(wanted) == len(dims) and all(
        not isinstance(w, int) or w == n for w, n in zip(wanted, dims, strict=True)
    )


def _static_form(type_: Type | None) -> _Static | None:
    """The dtype and shape of a result, where its type has them."""
    if not isinstance(type_, TensorType) or not isinstance(type_.dtype, DType):
        return None
    if not type_.shape.has_rank:
        return None
    dims = tuple(dim for dim in type_.shape.dims if isinstance(dim, int))
    if len(dims) < len(type_.shape.dims):
        return None
    if type_.dtype.kind == "unknown" or c.code_of_dtype(type_.dtype) is None:
        return None
    return _Static(type_.dtype.numpy, dims)
