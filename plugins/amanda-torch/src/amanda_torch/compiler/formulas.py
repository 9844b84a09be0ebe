"""Formulas of activation functions in graphs of Dynamo, replaced by ops of PyTorch.

Libraries on top of PyTorch write GELU out. Its op has one gradient, and the formula has
one for each of its ops. Results change by rounding."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import torch
from torch.nn import functional

__all__ = ["use_activation_ops"]


def _gelu_by_tanh(x: Any) -> Any:
    cubic = x + 0.044715 * torch.pow(x, 3.0)
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * cubic))


def _gelu_by_erf(x: Any) -> Any:
    return x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))


_FORMULAS: Final[list[tuple[Callable[..., Any], Callable[..., Any]]]] = [
    (_gelu_by_tanh, lambda x: functional.gelu(x, approximate="tanh")),
    (_gelu_by_erf, lambda x: functional.gelu(x)),
]


def use_activation_ops(module: Any) -> None:
    """Replace formulas in a graph of Dynamo, unless it computes in mixed precision."""
    from torch.fx.subgraph_rewriter import replace_pattern

    targets = {str(node.target) for node in module.graph.nodes}
    if torch.is_autocast_enabled("cpu") or any("autocast" in each for each in targets):
        return
    for formula, op in _FORMULAS:
        replace_pattern(module, formula, op)
