"""Backends of Amanda behind the onnx package's backend API, for its test runner.

    from amanda_onnx_conformance import onnx_backend

    rep = onnx_backend.prepare(model)            # on numpy
    rep = onnx_backend.prepare(model, "jax:cpu")
    outputs = rep.run([x])

A device is `CPU` or `CUDA:0`, as in the onnx package, or a backend of Amanda by name:
`numpy`, `jax:cpu`. For `CPU` and `CUDA`, the environment variable AMANDA_BACKEND names
the backend, by default numpy; `backend_for("jax")` is the API of one backend.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

import onnx
from onnx import helper
from onnx.backend.base import Backend, BackendRep, Device, namedtupledict

import amanda
from amanda.errors import AmandaError
from amanda.host import host_in_use
from amanda_onnx_conformance.cases import to_array

__all__ = [
    "AmandaBackend",
    "AmandaRep",
    "backend_for",
    "is_compatible",
    "prepare",
    "run_model",
    "run_node",
    "supports_device",
]

_DEFAULT: Final = "numpy"
_VARIABLE: Final = "AMANDA_BACKEND"
_CPU, _CUDA = "CPU", "CUDA"
_DEVICES: Final = {_CPU: "cpu", _CUDA: "cuda"}


class AmandaRep(BackendRep):
    """A compiled model; `compiled` is its amanda.Compiled."""

    def __init__(self, compiled: Any) -> None:
        self.compiled = compiled

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs in order; a named tuple where their names are distinct.

        `inputs`: a sequence in the order of the inputs, one array for a model with one
        input, or a mapping by name.
        """
        del kwargs  # part of the interface, unused here
        slots = self.compiled.inputs
        if not isinstance(inputs, Mapping | list | tuple):
            inputs = [inputs]
        if isinstance(inputs, Mapping):
            feeds: Any = {key: to_array(value) for key, value in inputs.items()}
        else:  # the runner may omit trailing inputs that have a default
            given = zip(slots, inputs, strict=False)
            feeds = {slot.key: to_array(value) for slot, value in given}
        found = self.compiled(feeds)
        names = [str(name) for name in found]
        if len(set(names)) == len(names):
            return namedtupledict("Outputs", names)(*found.values())
        return tuple(found.values())


class AmandaBackend(Backend):
    """Models on the backend named `backend`; by default as the module says."""

    backend: str | None = None

    @classmethod
    def is_compatible(cls, model: Any, device: str = _CPU, **kwargs: Any) -> bool:
        """Whether every op is mapped, and the backend supports the result."""
        del kwargs
        try:
            graph = amanda.load(model)
            return bool(
                amanda.plan(graph, cls._target(device).partition(":")[0]).is_clear
            )
        except AmandaError:
            return False

    @classmethod
    def prepare(cls, model: Any, device: str = _CPU, **kwargs: Any) -> AmandaRep:
        """Compile a model; `kwargs` are options of the backend."""
        super().prepare(model, device, **kwargs)  # runs onnx.checker
        return AmandaRep(
            amanda.compile(amanda.load(model), cls._target(device), **kwargs)
        )

    @classmethod
    def run_model(
        cls, model: Any, inputs: Any, device: str = _CPU, **kwargs: Any
    ) -> tuple[Any, ...]:
        """The outputs of a model for these inputs."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: Any,
        inputs: Any,
        device: str = _CPU,
        outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """The outputs of one node, of the newest opset or of `opset_version`."""
        opset = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        given = [to_array(each) for each in inputs]
        names = [name for name in node.input if name]
        feeds = dict(zip(names, given, strict=True))
        parameters = [_info(name, x.dtype, x.shape) for name, x in feeds.items()]
        outputs = [name for name in node.output if name]
        if outputs_info is None:
            results = [helper.make_empty_tensor_value_info(name) for name in outputs]
        else:
            pairs = zip(outputs, outputs_info, strict=True)
            results = [_info(name, *info) for name, info in pairs]
        graph = helper.make_graph([node], "node", parameters, results)
        imports = [helper.make_opsetid(node.domain, opset)]
        model = helper.make_model(graph, opset_imports=imports)
        rep = AmandaRep(amanda.compile(amanda.load(model), cls._target(device)))
        return rep.run(feeds)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether a model can run on a device."""
        host = host_in_use()
        try:
            name, _, place = cls._target(device).partition(":")
            devices = list(host.get("backends", name).devices())
        except AmandaError:
            return False
        return not place or place in devices

    @classmethod
    def _target(cls, device: str) -> str:
        """The backend and device of Amanda for a device of the onnx package."""
        kind = device.partition(":")[0]
        if kind not in _DEVICES:
            return device
        name = cls.backend or os.environ.get(_VARIABLE) or _DEFAULT
        found = Device(device)
        if ":" in name or kind == _CPU:
            return name
        return f"{name}:{_DEVICES[kind]}" + (
            f":{found.device_id}" if found.device_id else ""
        )


def backend_for(name: str) -> type[AmandaBackend]:
    """The onnx package's API on one backend: `backend_for("jax:cpu")`."""
    return type("AmandaBackend", (AmandaBackend,), {"backend": name})


def _info(name: str, dtype: Any, shape: Sequence[int]) -> Any:
    code = helper.np_dtype_to_tensor_dtype(dtype)
    return helper.make_tensor_value_info(name, code, shape)


prepare = AmandaBackend.prepare
run_model = AmandaBackend.run_model
run_node = AmandaBackend.run_node
supports_device = AmandaBackend.supports_device
is_compatible = AmandaBackend.is_compatible
