"""Programs that PyTorch exports, with everything that files of them can have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import nn


class Case(NamedTuple):
    """A module, the inputs it is exported with, and its dynamic shapes."""

    module: nn.Module
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = MappingProxyType({})
    dynamic_shapes: Any = None

    def export(self) -> torch.export.ExportedProgram:
        torch.manual_seed(0)
        return torch.export.export(
            self.module,
            self.args,
            dict(self.kwargs),
            dynamic_shapes=self.dynamic_shapes,
        )


class Mixed(nn.Module):
    """Mutation of buffers and views, a branch, lists, symbolic and unbacked sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.norm = nn.BatchNorm1d(3)
        self.register_buffer("count", torch.ones(1))
        self.register_buffer("scratch", torch.zeros(()), persistent=False)
        self.k = torch.tensor([2.0])

    def forward(self, x: Any, y: Any, flag: bool = True) -> Any:
        a, b = torch.split(self.linear(x), [1, 2], dim=1)
        self.count.add_(1)
        z = self.norm(torch.cat([b, a], 1)) if flag else b
        z[0] = y.sum() + self.scratch
        n = x.shape[0]
        w = torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x * 2, (x,))
        found = torch.nonzero(x)
        low, _ = x.max(1)
        return {"z": z.view(n * 3), "w": w * self.k, "n": n, "f": found + 1, "m": low}


class Constants(nn.Module):
    """Keyword arguments, dtypes, infinities, None, indices; an output that is none."""

    def forward(self, x: Any, *, mask: Any, mode: str = "up") -> Any:
        i = torch.arange(3, dtype=torch.int64)
        picked = x[:, i, None, 0]
        big = torch.full((2, 3), float("-inf"), dtype=torch.float64)
        kept = x.sum(dim=[1], keepdim=True).to(torch.bfloat16)
        filled = x.masked_fill(mask, float("inf"))
        same = x.contiguous(memory_format=torch.channels_last)
        assert mode == "up"
        return picked, None, big, kept, filled, 7, same


class Tied(nn.Module):
    """Parameters that share storage, and one that is not contiguous."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.second = nn.Linear(3, 3)
        self.second.weight = self.first.weight
        self.turned = nn.Parameter(torch.arange(6.0).reshape(2, 3).t())

    def forward(self, x: Any) -> Any:
        return self.second(self.first(x)) @ self.turned


class Loop(nn.Module):
    """`while_loop`, `scan` and `map`, whose arguments are several lists."""

    def forward(self, x: Any) -> Any:
        from torch._higher_order_ops import map as map_op
        from torch._higher_order_ops import scan, while_loop

        i = torch.tensor(0)
        _, y = while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * 2), (i, x))
        last, every = scan(lambda c, v: (c + v, c * v), x[0], x)
        rows = map_op(lambda row, c: row * c, x, torch.ones(2))
        return y, last, every, rows


class Recurrent(nn.Module):
    """An op with two lists of tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 5, 2)

    def forward(self, x: Any) -> Any:
        return self.lstm(x)


class Numbers(nn.Module):
    """Symbolic numbers as inputs, in lists, as floats, divided and compared."""

    def forward(self, x: Any, n: int) -> Any:
        a, b = x.shape
        y = x.reshape(1, a * b)[:, : (a * b) // 2]
        z = torch.nn.functional.interpolate(x[None, None], scale_factor=(2.0, 1.0))
        total = x.sum().item()
        return (
            torch.zeros(n, a % 3 + 1),
            y,
            z / (a**0.5),
            torch.full((a,), total),
            a + n,
        )


class NoGrad(nn.Module):
    """A region without gradients, and random numbers."""

    def forward(self, x: Any) -> Any:
        with torch.no_grad():
            y = torch.nn.functional.dropout(x, 0.5, training=True)
        return x + y + torch.rand_like(x)


class Mapped(nn.Module):
    """Regions of `torch.vmap`."""

    def forward(self, x: Any, y: Any) -> Any:
        rows = torch.vmap(torch.dot)(x, y)
        return rows, torch.vmap(lambda row: row * row.sum())(x - y)


def cases() -> Mapping[str, Callable[[], Case]]:
    """Every case by name."""
    batch = torch.export.Dim("batch", min=2, max=10)
    auto = torch.export.Dim.AUTO
    x = torch.randn(4, 4)
    return {
        "mixed": lambda: Case(
            Mixed(), (x, torch.randn(2)), {}, {"x": {0: batch}, "y": None}
        ),
        "mapped": lambda: Case(Mapped(), (torch.randn(2, 3), torch.randn(2, 3))),
        "constants": lambda: Case(
            Constants(), (torch.randn(2, 3, 4, 5),),
            {"mask": torch.zeros(2, 3, 4, 5, dtype=torch.bool)},
        ),
        "tied": lambda: Case(Tied(), (torch.randn(2, 3),)),
        "loop": lambda: Case(Loop(), (torch.randn(3, 2),)),
        "recurrent": lambda: Case(Recurrent(), (torch.randn(2, 3, 4),)),
        "numbers": lambda: Case(
            Numbers(), (x, 5), {}, {"x": {0: auto, 1: auto}, "n": auto}
        ),
        "no grad": lambda: Case(NoGrad(), (x,)),
    }  # fmt: skip
