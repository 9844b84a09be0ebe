"""To ONNX: control flow."""

from __future__ import annotations

from typing import Any

from amanda.mapping import Decline

__all__ = ["DEFINITIONS"]


def if_without_arguments(condition: Any, then: Any, otherwise: Any, *xs: Any) -> Any:
    """`if` whose branches capture their arguments: If of ONNX has no others."""
    if not xs:
        raise Decline("its branches have no arguments")
    from amanda_std import ops
    from amanda_std.mappings import inline_body

    return ops.if_(
        condition, lambda: inline_body(then, xs), lambda: inline_body(otherwise, xs)
    )


DEFINITIONS = {"if": if_without_arguments}
