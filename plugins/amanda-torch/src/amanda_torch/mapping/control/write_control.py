"""To PyTorch: branches and loops, whose bodies are graphs."""

from __future__ import annotations

from typing import Any

from amanda.mapping import Decline
from amanda_torch.records import PROGRAM_RECORDS

__all__ = ["WRITE"]


def write_if(o: Any, condition: Any, *xs: Any, then: Any, otherwise: Any) -> Any:
    return o.op(
        "higher_order.cond", condition, list(xs), true_fn=then, false_fn=otherwise,
        outputs=len(o.source.outputs),
    )  # fmt: skip


def write_while(o: Any, *xs: Any, condition: Any, body: Any,
                max_trips: int | None = None) -> Any:  # fmt: skip
    if max_trips is not None:
        raise Decline("while_loop has no limit of iterations")
    PROGRAM_RECORDS.add(condition, single=True)
    return o.op(
        "higher_order.while_loop", list(xs), cond_fn=condition, body_fn=body,
        outputs=len(xs),
    )  # fmt: skip


WRITE: dict[str, Any] = {"if": write_if, "while": write_while}
