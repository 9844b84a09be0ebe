"""A copy of a graph, made ready to be compiled."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import prod
from typing import Final

from amanda.graph import Graph, Op, OutputPort, Provenance
from amanda.tensors import Tensor
from amanda.types import TensorType
from amanda_jax.kernels import products
from amanda_jax.lying import layout_in_tiles
from amanda_jax.memory import aligned, let_go
from amanda_jax.weights import is_weight
from amanda_std import passes
from amanda_std.lowering import lower
from amanda_std.passes.infer import infer
from amanda_std.reading import arguments, is_constant, is_std

LONG: Final = 4096
VECTOR: Final = 16
_HIDING: Final = ("range",)
"""Composites that make a host argument inside of a tensor outside: expanded first, so
that it can be seen."""


_ALGEBRA: Final = (
    passes.canonical,
    passes.simplify,
    passes.fold,
    passes.share,
    passes.drop,
)


def prepared(
    graph: Graph, platform: str = "cpu", without: Collection[str] = ()
) -> Graph:
    """A copy with types, host arguments in sight, and the weights of bodies outside.

    What is done for speed is listed in `settings.STEPS`."""
    copy = _typed(graph)
    if "algebra" not in without:
        _improve(copy, *_ALGEBRA)
    if "norms" not in without and passes.fold_norms(copy):
        _improve(copy, passes.fold, passes.drop)
    if "layout" not in without and platform == "cpu" and _has_layouts(copy):
        passes.channels_last(copy)
        for part in copy.graphs():
            kernels_last(part, in_tiles=part is copy and "tiles" not in without)
        _improve(copy, passes.fold, passes.drop)
    by_rows = "products" in without  # else by Eigen, which is slow for turned ones
    if "weights" not in without and by_rows and platform == "cpu":
        for part in copy.graphs():
            _products_turned(part)
    _lift_weights(copy)
    return copy


def plainly(graph: Graph) -> Graph:
    """A copy made ready, with every weight as it was."""
    copy = _typed(graph)
    _lift_weights(copy)
    return copy


def _typed(graph: Graph) -> Graph:
    copy = graph.clone()
    infer(copy)
    lower(copy, lambda op: op.type not in _HIDING)
    return copy


def _improve(graph: Graph, *improve: Callable[[Graph], int]) -> None:
    for each in improve:
        each(graph)


def _has_layouts(graph: Graph) -> bool:
    return any(op.type == "conv" and is_std(op) for op in graph.walk())


def _products_turned(graph: Graph) -> None:
    """Large weights of products turned, where XLA's library reads them faster then.

    Those for few rows, see `kernels.products`; and those whose rows are no whole number
    of vectors: a row then begins anywhere, and XLA reads columns instead where the
    product says so."""
    turned: dict[int, tuple[Tensor, OutputPort]] = {}
    for op in list(graph):
        weight = op.inputs[1] if op.type == "matmul" and is_std(op) else None
        if weight is None or not is_constant(weight.op):
            continue
        tensor = weight.op.attrs["value"]
        shape = tensor.shape
        if len(shape) != 2 or not (_is_uneven(shape) or _has_few_rows(op, tensor)):
            continue
        if id(tensor) not in turned:
            turned[id(tensor)] = tensor, _turned(graph, op, weight, (1, 0))
        read = [op.inputs[0], turned[id(tensor)][1]]
        with graph.before(op):
            made = graph.add("einsum", read, {"equation": products.EQUATION}).output
        made.type = op.output.type
        graph.replace(op, [made], "weights")
        if not weight.user_ops:
            graph.remove(weight.op)


def _is_uneven(shape: Sequence[int]) -> bool:
    return shape[1] >= LONG and shape[1] % VECTOR != 0


def _has_few_rows(op: Op, weight: Tensor) -> bool:
    """Whether its type tells how many rows there are, and they are few."""
    rows = op.output.type
    if not isinstance(rows, TensorType) or not rows.shape.is_static:
        return False
    if {str(weight.dtype), str(rows.dtype)} != {"float32"}:
        return False
    return products.is_worth(prod(map(int, rows.shape[:-1])), *weight.shape)


def kernels_last(graph: Graph, *, in_tiles: bool, symbolic: bool = False) -> None:
    """Constant kernels in the order that XLA's convolutions on the CPU read in one go.

    In another one they would be turned round in every call. Those of convolutions
    `in_tiles` are turned on their way to the device: see `lying`. Those of bodies come
    from outside there, as what any convolution may read."""
    turned: dict[int, OutputPort] = {}
    for op in list(graph):
        if op.type != "conv" or not is_std(op):
            continue
        kernel = op.inputs[1]
        attrs = arguments(op, lambda port: port)[1]
        if kernel is None or not is_constant(kernel.op):
            continue
        if attrs["layout"] != "N*C" or attrs["kernel_layout"] != "OI*":
            continue
        if in_tiles and layout_in_tiles(kernel.op, symbolic=symbolic) is not None:
            continue
        tensor = kernel.op.attrs["value"]
        if id(tensor) not in turned:
            behind = (*range(2, len(tensor.shape)), 1, 0)
            turned[id(tensor)] = _turned(graph, op, kernel, behind)
        op.input_ports[1].connect(turned[id(tensor)])
        op.attrs["kernel_layout"] = "*IO"


def _turned(
    graph: Graph, op: Op, weight: OutputPort, order: tuple[int, ...]
) -> OutputPort:
    """A weight as another constant, with its axes in this order."""
    array = weight.op.attrs["value"].numpy()
    turned = aligned(array.transpose(order))
    let_go(array)
    with graph.before(op):
        made = graph.constant(Tensor.of(turned))
    made.provenance = Provenance((weight.op.name or "a weight",), "layout")
    made.output.type = made.attrs["value"].type_with_content()
    return made.output


def _lift_weights(graph: Graph) -> None:
    """Weights of bodies become captures: what a body holds would be baked in.

    Functions keep theirs, as nothing around them is theirs to read."""
    apart = {graph, *(g for f in graph.functions.values() for g in f.graphs())}
    inner = [part for part in graph.graphs() if part not in apart]
    first = next(iter(graph), None)
    for part in inner:
        for op in [op for op in part if is_weight(op)]:
            with graph.before(first):
                outer = graph.constant(op.attrs["value"]).output
            outer.type = op.output.type
            part.replace_uses(op.output, outer)
