"""Calls of functions of PyTorch as modules that it exports."""

from __future__ import annotations

import torch


class Call(torch.nn.Module):
    """A call whose results are its tensors."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return tuple(torch.utils._pytree.tree_leaves(self.function(*args)))


def normal(*shape, dtype=torch.float32):
    """Random numbers, the same for the same shape."""
    generator = torch.Generator().manual_seed(sum(shape) + 5)
    return torch.randn(shape, generator=generator, dtype=dtype)
