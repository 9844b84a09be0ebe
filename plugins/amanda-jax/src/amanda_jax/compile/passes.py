"""A copy of a graph, made ready to be compiled."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import prod
from typing import Final

from amanda.graph import Graph, Op, OutputPort, Provenance
from amanda.tensors import Tensor
from amanda.types import TensorType
from amanda_jax.cpu_tuning import few_row_products
from amanda_jax.weights.device_weights import is_weight
from amanda_jax.weights.layout import in_order, layout_in_tiles, lies_in_file
from amanda_std import passes
from amanda_std.backends import (
    MAX_FOLDED_BYTES,
    full_permutation,
    infer,
    is_std,
    lower,
    op_arguments,
)

LONG: Final = 4096
VECTOR: Final = 16
_HIDING: Final = ("range",)
"""Composites that make a host argument inside of a tensor outside: expanded first, so
that it can be seen."""


_SCALING: Final = ("batch_norm", "multiply", "divide")
"""What `fold_norms` puts into the weight of a product."""
_FIRST: Final = (passes.canonical, passes.simplify)
_THEN: Final = (passes.fold, passes.share, passes.drop)


def prepared(
    graph: Graph, platform: str = "cpu", without: Collection[str] = ()
) -> Graph:
    """A copy with types, host arguments in sight, and the weights of bodies outside.

    What is done for speed is listed in `settings.STEPS`."""
    copy = _typed(graph)
    by_rows = "products" in without  # else by Eigen, which is slow for turned weights
    turning = "weights" not in without and by_rows and platform == "cpu"
    if "algebra" not in without:
        _improve(copy, *_FIRST, *[_products_as_they_lie] * turning)
        _improve(copy, _turned_when_moved, *_THEN)
    if "norms" not in without and passes.fold_norms(copy):
        _improve(copy, passes.fold, passes.drop)
    if "layout" not in without and platform == "cpu" and _has_layouts(copy):
        passes.channels_last(copy)
        for part in copy.graphs():
            kernels_last(part, in_tiles=part is copy and "tiles" not in without)
        _improve(copy, passes.fold, passes.drop)
    if turning:
        turned: dict[int, tuple[Tensor, Tensor]] = {}
        for part in copy.graphs():
            _products_turned(part, turned)
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


def _products_turned(graph: Graph, turned: dict[int, tuple[Tensor, Tensor]]) -> None:
    """Large weights of products turned, where XLA's library reads them faster then.

    Those for few rows, see `kernels.products`; and those whose rows are no whole number
    of vectors: a row then begins anywhere, and XLA reads columns instead where the
    product says so. A weight that something else reads as it was is held both ways.

    `turned`: what was turned for other parts, with what it was, by that."""
    here: dict[int, OutputPort] = {}
    for op in list(graph):
        weight = op.inputs[1] if op.type == "matmul" and is_std(op) else None
        if weight is None or not weight.op.is_constant:
            continue
        tensor = weight.op.attrs["value"]
        if not _reads_turned(op, str(tensor.dtype), tensor.shape):
            continue
        if id(tensor) not in turned:
            turned[id(tensor)] = tensor, in_order(tensor, (1, 0))
        if id(tensor) not in here:
            here[id(tensor)] = _laid(graph, op, weight, turned[id(tensor)][1])
        _read_turned(graph, op, here[id(tensor)])
        home = weight.graph  # a part may read what lies around it
        if home is not None and not weight.user_ops:
            home.remove(weight.op)


def _products_as_they_lie(graph: Graph) -> int:
    """Products with weights that the graph turns, where they are read as they lie.

    Before these are folded: they would be turned twice, and held once more if something
    else reads them, as where words are looked up and told by one weight."""
    found = [
        (part, op, weight)
        for part in graph.graphs()
        for op in part
        if (weight := _turned_in_graph(op)) is not None
        and not any(user.type in _SCALING for user in op.output.user_ops)
    ]
    for part, op, weight in found:
        _read_turned(part, op, weight)
    return len(found)


def _turned_in_graph(op: Op) -> OutputPort | None:
    """The constant that a product reads turned, if it is better as it lies."""
    right = op.inputs[1] if op.type == "matmul" and is_std(op) else None
    weight = None if right is None else _transposed(right.op)
    if right is None or weight is None or weight.graph is not op.graph:
        return None
    tensor = weight.op.attrs["value"]
    if _order(right.op, tensor) != (1, 0):
        return None
    is_better = _reads_turned(op, str(tensor.dtype), tensor.shape[::-1])
    return weight if is_better else None


def _transposed(op: Op) -> OutputPort | None:
    """The constant that this op gives with its axes in another order."""
    weight = op.inputs[0] if op.type == "transpose" and is_std(op) else None
    return weight if weight is not None and weight.op.is_constant else None


def _order(op: Op, tensor: Tensor) -> tuple[int, ...]:
    perm = op_arguments(op, lambda port: port)[1]["perm"]
    return full_permutation(perm, len(tensor.shape))


def _turned_when_moved(graph: Graph) -> int:
    """Weights in files that the graph turns: they are turned when they move.

    `fold` would turn them now, and hold them once more."""
    turned: dict[tuple[int, tuple[int, ...]], tuple[Tensor, Tensor]] = {}
    count = 0
    for part in graph.graphs():
        for op in list(part):
            weight = _transposed(op)
            if weight is None:
                continue
            tensor: Tensor = weight.op.attrs["value"]
            if tensor.nbytes <= MAX_FOLDED_BYTES or not lies_in_file(tensor):
                continue
            key = id(tensor), _order(op, tensor)
            if key not in turned:
                turned[key] = tensor, in_order(tensor, key[1])
            made, name = _laid(part, op, weight, turned[key][1]), op.name
            made.name = op.output.name
            part.replace(op, [made], "layout")
            if name is not None:
                part.rename(made.op, name)
            count += 1
    return count


def _read_turned(graph: Graph, op: Op, turned: OutputPort) -> None:
    """This product, with a weight that lies turned."""
    read = [op.inputs[0], turned]
    with graph.before(op):
        made = graph.add("einsum", read, {"equation": few_row_products.EQUATION}).output
    made.type = op.output.type
    graph.replace(op, [made], "weights")


def _reads_turned(op: Op, dtype: str, shape: Sequence[int]) -> bool:
    """Whether a product with a weight like this is better with it turned."""
    if len(shape) != 2:
        return False
    is_uneven = shape[1] >= LONG and shape[1] % VECTOR != 0
    return is_uneven or _has_few_rows(op, dtype, shape)


def _has_few_rows(op: Op, dtype: str, shape: Sequence[int]) -> bool:
    """Whether its type tells how many rows there are, and they are few."""
    rows = op.output.type
    if not isinstance(rows, TensorType) or not rows.shape.is_static:
        return False
    if {dtype, str(rows.dtype)} != {"float32"}:
        return False
    return few_row_products.is_worth(prod(map(int, rows.shape[:-1])), *shape)


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
        attrs = op_arguments(op, lambda port: port)[1]
        if kernel is None or not kernel.op.is_constant:
            continue
        if attrs["layout"] != "N*C" or attrs["kernel_layout"] != "OI*":
            continue
        if in_tiles and layout_in_tiles(kernel.op, symbolic=symbolic) is not None:
            continue
        tensor = kernel.op.attrs["value"]
        if id(tensor) not in turned:
            behind = (*range(2, len(tensor.shape)), 1, 0)
            turned[id(tensor)] = _laid(graph, op, kernel, in_order(tensor, behind))
        op.input_ports[1].connect(turned[id(tensor)])
        op.attrs["kernel_layout"] = "*IO"


def _laid(graph: Graph, op: Op, weight: OutputPort, turned: Tensor) -> OutputPort:
    """A weight as another constant, which lies in another order."""
    with graph.before(op):
        made = graph.constant(turned)
    made.provenance = Provenance((weight.op.name or "a weight",), "layout")
    made.output.type = turned.type_with_content()
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
