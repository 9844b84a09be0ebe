"""Definitions of ops, run on tensors of PyTorch.

Composites are replaced by their definitions when a graph is compiled. One whose
definition depends on what is known only at run time stays whole, and is run here: its
function gets tensors as `TorchArray`, with the operators and methods of arrays, and
calls the kernels of other ops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, NoReturn

import numpy as np
import torch

from amanda.errors import BackendError, Undecided
from amanda.types import DType, TensorType
from amanda_std.backends import NUMPY, ArrayLike, Kernels, Operation, use_kernels
from amanda_std.ops import OPS
from amanda_torch.backend.arrays import numpy_dtype, to_numpy, to_tensor, torch_dtype
from amanda_torch.backend.narrow_types import in_wider_type

__all__ = [
    "TorchArray",
    "by_definition",
    "by_numpy",
    "expect_no_gradient",
    "kernels_of_arrays",
]

Kernel = Callable[..., Any]


class TorchArray(ArrayLike):
    """A tensor of PyTorch with the operators and methods of arrays."""

    __slots__ = ("data",)

    def __init__(self, data: Any) -> None:
        self.data = data

    @property
    def dtype(self) -> Any:
        return numpy_dtype(self.data)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.data.shape)

    @property
    def ndim(self) -> int:
        return int(self.data.ndim)

    @property
    def size(self) -> int:
        return int(self.data.numel())

    @property
    def type(self) -> TensorType:
        return TensorType(DType.of(self.data.dtype), self.shape)

    def _content(self) -> NoReturn:
        raise Undecided("elements of tensors are compared by ops")

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        del copy
        own = dtype if isinstance(dtype, DType) else DType.of(np.dtype(dtype))
        return self._op("astype")(self, dtype=own)

    def tolist(self) -> Any:
        return self.data.tolist()

    item = tolist

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(to_numpy(self.data), dtype, copy=copy)

    def __bool__(self) -> bool:
        return bool(self.data)

    def __int__(self) -> int:
        return int(self.data)

    __index__ = __int__

    def __float__(self) -> float:
        return float(self.data)

    def __len__(self) -> int:
        return len(self.data)

    def __array_namespace__(self) -> Any:
        return _Namespace(self.data.device)


class _Namespace:
    """The functions of the array API that definitions of composites call."""

    def __init__(self, device: Any) -> None:
        self._device = device

    def asarray(self, value: Any, dtype: Any = None) -> TorchArray:
        if isinstance(value, TorchArray):
            return value if dtype is None else value.astype(dtype)
        own = None if dtype is None else torch_dtype(dtype)
        return TorchArray(torch.as_tensor(value, dtype=own, device=self._device))

    def __getattr__(self, name: str) -> Any:
        if name not in OPS:
            raise AttributeError(name)
        return OPS[name]


def _to_array(value: Any) -> Any:
    """Tensors as `TorchArray`, also those in containers and of bodies."""
    if isinstance(value, torch.Tensor):
        return TorchArray(value)
    if isinstance(value, list | tuple):
        return type(value)(map(_to_array, value))
    if callable(value):
        return _Body(value, _to_data, _to_array)
    return value


def _to_data(value: Any) -> Any:
    """The tensors in `TorchArray`s, also those in containers and of bodies."""
    if isinstance(value, TorchArray):
        return value.data
    if isinstance(value, list | tuple):
        return type(value)(map(_to_data, value))
    if callable(value) and not isinstance(value, type):
        return _Body(value, _to_array, _to_data)
    return value


class _Body:
    """A body that is called with, and returns, arrays of another form."""

    def __init__(self, body: Any, before: Kernel, after: Kernel) -> None:
        self._body, self._before, self._after = body, before, after

    @property
    def result_types(self) -> Any:
        return getattr(self._body, "result_types", ())

    def __call__(self, *args: Any) -> Any:
        results = self._body(*map(self._before, args))
        return self._after(results)


def by_definition(operation: Operation) -> Kernel:
    """The definition of an op as a kernel for tensors."""
    function = operation.function

    @wraps(function)
    def kernel(*args: Any, **attrs: Any) -> Any:
        from amanda_torch.backend.kernels import ARRAYS

        with use_kernels(ARRAYS):
            return _to_data(function(*map(_to_array, args), **attrs))

    return kernel


def by_numpy(name: str) -> Kernel:
    """The definition of an op over NumPy as a kernel for tensors; has no gradient."""
    operation = OPS[name]
    function = operation.implementation(NUMPY)

    @wraps(operation.function)
    def kernel(*args: Any, **attrs: Any) -> Any:
        expect_no_gradient(name, args)
        tensors = [a for a in args if isinstance(a, torch.Tensor)]
        device = tensors[0].device if tensors else torch.device("cpu")
        with use_kernels(NUMPY), np.errstate(all="ignore"):
            return to_tensor(function(*map(to_numpy, args), **attrs), device)

    return kernel


def expect_no_gradient(name: str, args: Sequence[Any]) -> None:
    """Raise BackendError if PyTorch would need a gradient of what NumPy computes."""
    if torch.is_grad_enabled() and any(getattr(a, "requires_grad", 0) for a in args):
        raise BackendError(
            f"NumPy computes {name}, so PyTorch has no gradient of it",
            hint="call it inside torch.no_grad(), or differentiate the graph with "
            "amanda.grad",
        )


def kernels_of_arrays(
    kernels: Mapping[str, Kernel], definitions: Mapping[str, Kernel]
) -> Kernels:
    """The kernels for `TorchArray`; for arrays of NumPy, those of NumPy."""
    rows = {name: in_wider_type(OPS[name], kernel) for name, kernel in kernels.items()}
    every = {**rows, **definitions}.items()
    return Kernels("torch", {name: _for_arrays(OPS[name], k) for name, k in every})


def _for_arrays(operation: Operation, kernel: Kernel) -> Kernel:
    library = operation.implementation(NUMPY)

    @wraps(kernel)
    def call(*args: Any, **attrs: Any) -> Any:
        device = _device_of(args)
        if device is None:
            return library(*args, **attrs)
        tensors = [to_tensor(_to_data(each), device) for each in args]
        return _to_array(kernel(*tensors, **attrs))

    return call


def _device_of(values: Any) -> Any:
    """The device of the first tensor, if there is one."""
    for value in values:
        if isinstance(value, TorchArray):
            return value.data.device
        if isinstance(value, list | tuple) and (found := _device_of(value)) is not None:
            return found
    return None
