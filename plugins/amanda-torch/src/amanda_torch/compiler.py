"""`torch.compile(model, backend="amanda", options={"backend": "jax"})`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

from amanda.errors import AmandaError, AmandaWarning, UsageError

__all__ = ["compile_module"]


def compile_module(
    module: Any, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """Entry `amanda` of `torch_dynamo_backends`: compile one graph of a model.

    `options`: `backend`, by default `torch`, and the options of that backend. Forward
    and backward are compiled; a graph that is not supported is run by PyTorch, with a
    warning that has the reason."""
    from torch._decomp import core_aten_decompositions
    from torch._dynamo.backends.common import aot_autograd

    settings = dict(options or {})
    name = settings.pop("backend", "torch")
    if not isinstance(name, str):
        raise UsageError(
            "option 'backend' is the name of a backend of Amanda", got=repr(name)
        )

    def compile_part(part: Any, examples: Sequence[Any]) -> Any:
        from functorch.compile import make_boxed_func

        try:
            return make_boxed_func(_compile_part(part, examples, name, settings))
        except AmandaError as error:
            warnings.warn(
                AmandaWarning(f"PyTorch runs a graph that Amanda cannot: {error}"),
                stacklevel=2,
            )
            return make_boxed_func(part.forward)

    compiler: Callable[..., Any] = aot_autograd(
        fw_compiler=compile_part,
        bw_compiler=compile_part,
        decompositions=core_aten_decompositions(),
    )
    run: Callable[..., Any] = compiler(module, inputs)
    return run


def _compile_part(
    part: Any, examples: Sequence[Any], backend: str, options: Mapping[str, Any]
) -> Callable[..., Any]:
    """A graph of ATen ops as a function of tensors that returns a list of them."""
    import torch
    from torch._guards import tracing
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    import amanda

    if not all(isinstance(each, torch.Tensor) for each in examples):
        raise UsageError(
            "a graph has inputs that are no tensors, such as symbolic sizes",
            hint="torch.compile(model, backend='amanda', dynamic=False)",
        )
    with tracing(None), unset_fake_temporarily(), torch.no_grad():
        program, kept = _export(part, examples)
        graph = amanda.convert(amanda.load(program), "std")
        compiled = amanda.compile(graph, backend, **options)

    def call(*args: Any) -> list[Any]:
        results = iter(compiled([each.detach() for each in args]).values())
        return [_to_tensor(next(results)) if flag else None for flag in kept]

    return call


def _export(part: Any, examples: Sequence[Any]) -> tuple[Any, list[bool]]:
    """The exported program of a graph, and which of its results are tensors."""
    import torch

    tensors = torch.fx.GraphModule(part, deepcopy(part.graph))
    (output,) = tensors.graph.find_nodes(op="output")
    kept = [node is not None for node in output.args[0]]
    output.args = (tuple(node for node in output.args[0] if node is not None),)
    tensors.recompile()
    real = [
        torch.empty_strided(e.shape, e.stride(), dtype=e.dtype, device=e.device)
        for e in examples
    ]
    return torch.export.export(tensors, tuple(real), strict=False), kept


def _to_tensor(value: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        return value
    if hasattr(value, "__dlpack__"):
        return torch.from_dlpack(value)
    return torch.as_tensor(value)
