"""Backends of Amanda as one of the onnx package, which its own test runner can run.

    from amanda_onnx import backend

    rep = backend.prepare(model)            # on numpy
    rep = backend.prepare(model, "jax:cpu")
    outputs = rep.run([x])

A device is `CPU` or `CUDA:0`, as the package has them, or a backend of Amanda by name,
`numpy` or `jax:cpu`. For devices of the first kind AMANDA_BACKEND says which backend
runs, and numpy does where it says nothing; `backend_for("jax")` is the API on one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

import onnx
from onnx import helper, numpy_helper
from onnx.backend.base import Backend, BackendRep, Device, namedtupledict

import amanda
from amanda.errors import AmandaError
from amanda.host import host_in_use

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

_NAME: Final = "numpy"
_VARIABLE: Final = "AMANDA_BACKEND"
_CPU, _CUDA = "CPU", "CUDA"
_OURS: Final = {_CPU: "cpu", _CUDA: "cuda"}


class AmandaRep(BackendRep):
    """A model that is compiled. `compiled` is the amanda.Compiled behind it."""

    def __init__(self, compiled: Any) -> None:
        self.compiled = compiled

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs in their order; they have their names, too, where they can.

        `inputs` are a sequence in the order of the inputs, one array for a model with
        one input, or a mapping by name.
        """
        del kwargs  # what other backends are told
        slots = self.compiled.inputs
        if not isinstance(inputs, Mapping | list | tuple):
            inputs = [inputs]
        if isinstance(inputs, Mapping):
            fed: Any = {key: _array(value) for key, value in inputs.items()}
        else:  # the runner may leave out inputs at the end that have a default
            given = zip(slots, inputs, strict=False)
            fed = {slot.key: _array(value) for slot, value in given}
        found = self.compiled(fed)
        names = [str(name) for name in found]
        if len(set(names)) == len(names):
            return namedtupledict("Outputs", names)(*found.values())
        return tuple(found.values())


class AmandaBackend(Backend):
    """Models on the backend called `backend`; without one, as the module says."""

    backend: str | None = None

    @classmethod
    def is_compatible(cls, model: Any, device: str = _CPU, **kwargs: Any) -> bool:
        """Is there a rule for every op, and does the backend take what comes out?"""
        del kwargs
        try:
            graph = amanda.load(model)
            return bool(
                amanda.plan(graph, cls._target(device).partition(":")[0]).is_clear
            )
        except AmandaError:
            return False  # which is what is asked

    @classmethod
    def prepare(cls, model: Any, device: str = _CPU, **kwargs: Any) -> AmandaRep:
        """The model compiled; `kwargs` are options of the backend."""
        super().prepare(model, device, **kwargs)  # looks at it with onnx.checker
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
        """The outputs of one node, in the newest opset, or that of `opset_version`."""
        opset = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        given = [_array(each) for each in inputs]
        names = [name for name in node.input if name]
        ends = [_info(*pair) for pair in zip(names, given, strict=True)]
        made = [
            helper.make_empty_tensor_value_info(name) for name in node.output if name
        ]
        if outputs_info is not None:
            told = zip([e.name for e in made], outputs_info, strict=True)
            made = [
                helper.make_tensor_value_info(
                    name, helper.np_dtype_to_tensor_dtype(dtype), shape
                )
                for name, (dtype, shape) in told
            ]
        graph = helper.make_graph([node], "node", ends, made)
        imports = [helper.make_opsetid(node.domain, opset)]
        model = helper.make_model(graph, opset_imports=imports)
        rep = AmandaRep(amanda.compile(amanda.load(model), cls._target(device)))
        return rep.run(dict(zip(names, given, strict=True)))

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Can a model run there?"""
        host = host_in_use()
        try:
            name, _, place = cls._target(device).partition(":")
            devices = list(host.get("backends", name).devices())
        except AmandaError:
            return False  # which is what is asked
        return not place or place in devices

    @classmethod
    def _target(cls, device: str) -> str:
        """A device of the onnx package as a backend of ours, and where it runs."""
        kind = device.partition(":")[0]
        if kind not in _OURS:
            return device
        name = cls.backend or os.environ.get(_VARIABLE) or _NAME
        found = Device(device)
        if ":" in name or kind == _CPU:
            return name
        return f"{name}:{_OURS[kind]}" + (
            f":{found.device_id}" if found.device_id else ""
        )


def backend_for(name: str) -> type[AmandaBackend]:
    """The API of the onnx package on one backend: `backend_for("jax:cpu")`."""
    return type("AmandaBackend", (AmandaBackend,), {"backend": name})


def _info(name: str, value: Any) -> Any:
    code = helper.np_dtype_to_tensor_dtype(value.dtype)
    return helper.make_tensor_value_info(name, code, value.shape)


def _array(value: Any) -> Any:
    """What a backend is fed: arrays, and lists of them."""
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return value


prepare = AmandaBackend.prepare
run_model = AmandaBackend.run_model
run_node = AmandaBackend.run_node
supports_device = AmandaBackend.supports_device
is_compatible = AmandaBackend.is_compatible
