"""Results that PyTorch returns itself: inputs, their views, and sizes.

They are not copied, whatever the backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from amanda_torch.compiler.programs import is_symbolic

__all__ = ["find_passed", "passed_results"]


def find_passed(module: Any) -> set[Any]:
    """The nodes that PyTorch computes from inputs without reading their elements."""
    found: set[Any] = set()
    for node in module.graph.nodes:
        if node.op == "placeholder" or (
            node.op == "call_function"
            and (is_symbolic(node) or getattr(node.target, "is_view", False))
            and found.issuperset(node.all_input_nodes)
        ):
            found.add(node)
    return found


def passed_results(module: Any, nodes: Sequence[Any]) -> Callable[..., Sequence[Any]]:
    """A function of the inputs of a module that returns the values of some nodes."""
    graph = torch.fx.Graph()
    copies: dict[Any, Any] = {}
    needed, waiting = set(), list(nodes)
    while waiting:
        node = waiting.pop()
        if node not in needed:
            needed.add(node)
            waiting += node.all_input_nodes
    for node in module.graph.nodes:
        if node.op == "placeholder" or node in needed:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output([copies[node] for node in nodes])
    run: Callable[..., Sequence[Any]] = torch.fx.GraphModule(module, graph).forward
    return run
