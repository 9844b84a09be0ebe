"""Graphs with ops that have no rule: PyTorch runs these, and Amanda the rest."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch

import amanda
from amanda.errors import AmandaWarning
from amanda.graph import Graph, Op
from amanda_torch.backend.eager_ops import is_kept, keep_eager
from amanda_torch.compiler.calls import CompiledPart, computed_results
from amanda_torch.compiler.options import CompilerOptions
from amanda_torch.compiler.programs import copy_module, output_node, read_module

__all__ = ["compile_pieces"]


def compile_pieces(
    module: Any, options: CompilerOptions, frozen: frozenset[int] = frozenset(),
    *, trains: bool = False,
) -> Callable[..., Any]:  # fmt: skip
    """A module of ATen ops as a function of a list of its inputs, which it clears.

    `trains`: it is a forward or backward of a graph that needs gradients."""
    keeps = trains and options.runs_on_torch
    graph, unmapped = convert_module(module, keeps)
    if not unmapped:
        return CompiledPart(module, graph, options, frozen)
    split = split_module(module, unmapped)
    pieces = [name for name, _ in split.named_children() if name.startswith("fused_")]
    warnings.warn(_describe(module, unmapped, len(pieces)), stacklevel=2)
    for name in pieces:
        part = getattr(split, name)
        run = compile_pieces(part, options, trains=trains)
        setattr(split, name, _Piece(part, run))

    def run_split(args: list[Any]) -> Any:
        values = tuple(args)
        args.clear()
        return split.forward(*values)

    return run_split


def convert_module(module: Any, keeps_gradients: bool) -> tuple[Graph, dict[str, str]]:
    """The graph of the hub of a module, and the reasons by node that has no rule.

    `keeps_gradients`: gradients of layers stay ops of PyTorch."""
    graph = read_module(module, computed_results(module))
    for op in graph if keeps_gradients else ():
        if is_kept(op):
            keep_eager(op)
    reports: list[Any] = []
    converted = amanda.convert(graph, "std", keep_foreign=True, reports=reports)
    reasons = {gap.op: "; ".join(gap.why) for each in reports for gap in each.gaps}
    return converted, {
        outermost(op).name or "": reasons.get(op.type or "") or "no rule maps it"
        for op in converted.walk()
        if (op.own_namespace or "").startswith("amanda/torch/")
    }


def outermost(op: Op) -> Op:
    """The op of the root graph that has this one in a body, or itself."""
    while op.graph is not None and op.graph.holder is not None:
        op = op.graph.holder
    return op


def split_module(module: Any, unmapped: Mapping[str, str]) -> Any:
    """A copy of a module in which children compute what Amanda can."""
    from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
    from torch.fx.passes.operator_support import OperatorSupportBase

    class Support(OperatorSupportBase):  # type: ignore[misc]
        def is_node_supported(self, _: Any, node: Any) -> bool:
            source = node.args[0] if node.target is operator.getitem else node
            return node.op == "call_function" and source.name not in unmapped

    partitioner = CapabilityBasedPartitioner(
        copy_module(module), Support(), allows_single_node_partition=True
    )
    return partitioner.partition_and_fuse()


class _Piece(torch.nn.Module):  # type: ignore[misc]
    """A child of a split module, which Amanda runs."""

    def __init__(self, module: Any, run: Callable[..., Any]) -> None:
        super().__init__()
        self._run = run
        self._has_one_result = isinstance(output_node(module).args[0], torch.fx.Node)

    def forward(self, *args: Any) -> Any:
        results = self._run([*args])
        return results[0] if self._has_one_result else results


def _describe(module: Any, unmapped: Mapping[str, str], pieces: int) -> AmandaWarning:
    """The warning that names each op, its place in the source, and the reason."""
    nodes = {node.name: node for node in module.graph.nodes}
    lines = [
        f"{nodes[name].target}{source_line(nodes[name])}: {why}"
        for name, why in unmapped.items()
    ]
    count = "1 op" if len(lines) == 1 else f"{len(lines)} ops"
    rest = f"Amanda runs the other ops in {pieces} pieces" if pieces else "no other ops"
    return AmandaWarning(
        f"PyTorch runs {count} of a compiled graph, for lack of a rule; {rest}"
        + "".join(f"\n  {line}" for line in lines)
        + "\nto do: map them by an @amanda.custom_op, or write them with other ops"
    )


def source_line(node: Any) -> str:
    """Where the source calls the op of a node: ` at model.py:12, in forward (...)`."""
    lines = (node.meta.get("stack_trace") or "").strip().splitlines()
    places = [i for i, line in enumerate(lines) if line.lstrip().startswith("File ")]
    if not places:
        return ""
    place = lines[places[-1]].strip().removeprefix("File ").replace('"', "")
    path, _, rest = place.partition(", line ")
    number, _, function = rest.partition(", ")
    code = lines[places[-1] + 1].strip() if places[-1] + 1 < len(lines) else ""
    return f" at {path}:{number}, {function} `{code}`"
