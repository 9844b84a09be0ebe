"""Vector-Jacobian products of functions of the hub's ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amanda.graph import Graph
from amanda.tensors import Tensor
from amanda_std import ops
from amanda_std.autodiff.gradients import backpropagate
from amanda_std.engine.values import Value

__all__ = ["gradient_of", "gradients_of"]


def gradients_of(forward: Callable[..., Any], xs: tuple[Any, ...], g: Any) -> Any:
    """The gradients of each of xs, from the gradient of forward(*xs)."""
    g = Value(ops.identity(g).port)  # in the graph of a branch that g is captured by
    graph = g.port.graph
    own = [_new_value(x, graph) for x in xs]  # so that no other path leads to them
    y = forward(*own)
    found = backpropagate(graph, {y.port: g}, [x.port for x in own])
    return tuple(
        ops.zeros_like(x) if each is None else each
        for x, each in zip(own, found, strict=True)
    )


def gradient_of(forward: Callable[[Any], Any], x: Any, g: Any) -> Any:
    """The gradient of x, from that of forward(x)."""
    return gradients_of(forward, (x,), g)[0]


def _new_value(x: Any, graph: Graph) -> Value:
    """A value of the graph that no other op reads."""
    if isinstance(x, Value):
        return Value(ops.identity(x).port)
    tensor = Tensor.of(x)
    port = graph.constant(tensor).output
    port.type = tensor.type_with_content()
    return Value(port)
