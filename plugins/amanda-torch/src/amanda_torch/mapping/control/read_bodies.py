"""From PyTorch: branches, loops, maps, scans, and regions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amanda_std import ops
from amanda_std.mappings import inline_body, rank_of
from amanda_torch.mapping.calls import torch_functions

__all__ = ["READ"]


def read_cond(
    pred: Any, true_fn: Any, false_fn: Any, operands: Sequence[Any] = ()
) -> Any:
    return tuple(
        ops.if_(
            _truth(pred),
            lambda *v: inline_body(true_fn, v),
            lambda *v: inline_body(false_fn, v),
            *operands,
        )
    )


def _truth(value: Any) -> Any:
    return ops.reshape(value, []) if rank_of(value) else value


def read_while(cond_fn: Any, body_fn: Any, carried: Sequence[Any],
               others: Sequence[Any] = ()) -> Any:  # fmt: skip
    """The other inputs are the same in each iteration."""
    return tuple(
        ops.while_(
            lambda *v: _truth(inline_body(cond_fn, [*v, *others])[0]),
            lambda *v: inline_body(body_fn, [*v, *others]),
            *carried,
        )
    )


def read_scan(combine_fn: Any, init: Sequence[Any], xs: Sequence[Any],
              others: Sequence[Any] = ()) -> Any:  # fmt: skip
    return tuple(
        ops.scan(
            lambda *v: inline_body(combine_fn, [*v, *others]), None, *init, *xs,
            carried=len(init),
        )
    )  # fmt: skip


def read_wrap(body: Any, args: Sequence[Any] = ()) -> Any:
    return tuple(inline_body(body, args))


def read_gradient_region(_enable: bool, body: Any, args: Sequence[Any] = ()) -> Any:
    return tuple(inline_body(body, args))


READ = torch_functions(
    {
        "higher_order.cond": read_cond,
        "higher_order.while_loop": read_while,
        "higher_order.scan": read_scan,
        "higher_order.wrap higher_order.wrap_activation_checkpoint": read_wrap,
        "higher_order.wrap_with_set_grad_enabled": read_gradient_region,
    },
    domain="",
)
