"""`flex_attention` of live programs, which PyTorch does not save, as ops of ATen."""

from __future__ import annotations

from typing import Any

__all__ = ["expand_flex_attention"]


def expand_flex_attention(torch: Any, program: Any) -> Any:
    """A program in which attention with functions of scores and masks is dense.

    The ops are those of PyTorch's own definition, on all pairs of positions. A program
    without `flex_attention` is returned as it is.
    """
    flex = torch.ops.higher_order.flex_attention
    if not _uses(program.graph_module, flex):
        return program
    program = program.run_decompositions({})
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            for node in module.graph.find_nodes(op="call_function", target=flex):
                old = _expand(torch, module, node)
                for name, value in old.items():
                    program.graph_signature.replace_all_uses(name, value)
            module.graph.eliminate_dead_code()
            module.recompile()
    return program


def _uses(module: Any, op: Any) -> bool:
    return any(
        part.graph.find_nodes(op="call_function", target=op)
        for part in module.modules()
        if hasattr(part, "graph")
    )


def _expand(torch: Any, module: Any, node: Any) -> dict[str, str]:
    """Replace a node by the ops that PyTorch's definition runs; returns new names."""
    from torch._higher_order_ops.flex_attention import math_attention
    from torch.fx.experimental.proxy_tensor import make_fx

    leaves, tree = torch.utils._pytree.tree_flatten((node.args, dict(node.kwargs)))
    inputs = [leaf for leaf in leaves if _has_value(torch, leaf)]

    def attend(*values: Any) -> Any:
        given = iter(values)
        filled = [_fill(torch, module, leaf, given) for leaf in leaves]
        args, kwargs = torch.utils._pytree.tree_unflatten(filled, tree)
        return [math_attention(*args, **kwargs)[0]]

    examples = [leaf.meta["val"] for leaf in inputs]
    with examples[0].fake_mode:
        traced = make_fx(attend)(*examples)
    _write_constants(torch, traced)
    places = dict(zip(traced.graph.find_nodes(op="placeholder"), inputs, strict=True))
    with module.graph.inserting_before(node):
        [found] = module.graph.graph_copy(traced.graph, places)
    first = [user for user in node.users if user.args[1] == 0]
    for user in first:
        user.replace_all_uses_with(found)
    return {user.name: found.name for user in first}


def _has_value(torch: Any, leaf: Any) -> bool:
    return isinstance(leaf, torch.fx.Node) and leaf.op != "get_attr"


def _fill(torch: Any, module: Any, leaf: Any, given: Any) -> Any:
    if not isinstance(leaf, torch.fx.Node):
        return leaf
    return next(given) if _has_value(torch, leaf) else getattr(module, leaf.target)


def _write_constants(torch: Any, traced: Any) -> None:
    """Scalar constants as ops `full`, since the program has no place for constants."""
    for node in list(traced.graph.nodes):
        value = getattr(traced, node.target) if node.op == "get_attr" else None
        if isinstance(value, torch.Tensor) and value.dim() == 0:
            with traced.graph.inserting_before(node):
                new = traced.graph.call_function(
                    torch.ops.aten.full.default, ([], value.item()),
                    {"dtype": value.dtype},
                )  # fmt: skip
            new.meta["val"] = node.meta.get("val")
            node.replace_all_uses_with(new)
            traced.graph.erase_node(node)
