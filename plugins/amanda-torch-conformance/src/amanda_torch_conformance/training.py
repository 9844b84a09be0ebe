"""One step of stochastic gradient descent (SGD) of a module of PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from amanda.graph import Graph

__all__ = ["sgd_step", "training_function"]

_RATE: Final = 1.0
"""The learning rate: parameters change as much as their gradients are."""


def sgd_step(module: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The loss of one step, which changes the parameters of a module.

    The loss is a weighted sum of the squares of all floating-point outputs: without
    weights, that of a normalized output would hardly depend on the parameters.
    """
    import torch
    from torch.utils import _pytree as pytree

    optimizer = torch.optim.SGD(module.parameters(), _RATE)
    outputs = pytree.tree_leaves(module(*args, **kwargs))
    terms = [_weighted_sum(y.square()) for y in outputs if y.is_floating_point()]
    loss: Any = torch.stack(terms).sum()
    loss.backward()
    optimizer.step()
    return loss.detach()


def _weighted_sum(values: Any) -> Any:
    """The sum of values with weights from 0 to 1."""
    import torch

    weights = torch.linspace(0, 1, values.numel(), dtype=values.dtype)
    return (values * weights.reshape(values.shape)).sum()


def training_function(
    graph: Graph, names: Sequence[str]
) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """A step of SGD of a graph as a module: its loss, and parameters by name.

    Where there are several names, the module has the parameter under one of them.
    """
    import amanda

    compiled: Any = amanda.compile(graph, "torch-export")
    module = compiled.executable.program.module()

    def run(feeds: Sequence[Any]) -> list[Any]:
        args, kwargs = _arguments(module, feeds)
        loss = sgd_step(module, args, kwargs)
        parameters = dict(module.named_parameters())
        found = [_find(parameters, each) for each in names]
        return [loss.numpy(), *(value.detach().numpy() for value in found)]

    return run


def _find(parameters: Mapping[str, Any], names: str) -> Any:
    """The parameter with one of the names, which spaces separate."""
    for name in names.split():
        if name in parameters:
            return parameters[name]
    raise ValueError(f"the module has no parameter {names}")


def _arguments(module: Any, feeds: Sequence[Any]) -> tuple[Any, Any]:
    """Arrays as the arguments of a module."""
    import torch
    from torch.utils import _pytree as pytree

    tensors = [torch.from_numpy(x.copy()) for x in feeds]
    found: tuple[Any, Any] = pytree.tree_unflatten(tensors, module._in_spec)
    return found
