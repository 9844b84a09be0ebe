"""The tool `lora`: low-rank adapters, trained alone and merged back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from amanda import improve
from amanda.errors import UsageError
from amanda.graph import Graph, Op
from amanda.instrument import Instrumentation, Tool
from amanda.tensors import Tensor
from amanda_std import Value, ops
from amanda_tools.analysis.selection import chosen_sites, is_float_tensor

__all__ = ["LowRankAdapters", "merge_adapters"]

DOWN: Final = ".lora_down"
UP: Final = ".lora_up"
_SCALE: Final = ".lora_scale"


class LowRankAdapters(Tool):
    """Adds a product of two small matrices to chosen weights: w + alpha / rank * (u d).

    The model computes what it did, as one factor starts at zero. The factors are
    constants named after the weight: `amanda.train(graph, ..., weights=["*.lora_*"])`
    trains them alone, and `merge_adapters` adds them to the weights. A weight of a
    convolution is a matrix with a row for each output channel. `types`, `names` and
    `scope` choose the ops.
    """

    name = "lora"

    def __init__(
        self,
        *,
        rank: int = 4,
        alpha: float = 8.0,
        seed: int = 0,
        types: Sequence[str] | str = ("matmul", "linear", "conv"),
        names: Sequence[str] | str | None = None,
        scope: str | None = None,
    ) -> None:
        if rank < 1:
            raise UsageError("the rank is at least 1", got=rank)
        self.rank, self.alpha, self.seed = rank, alpha, seed
        self.types, self.names, self.scope = types, names, scope

    def instrument(self, instrumentation: Instrumentation) -> None:
        """Insert the adapters."""
        improve(instrumentation.graph, "fold")  # transposed weights are constants
        random = np.random.default_rng(self.seed)
        trained = frozen = 0
        done: set[Op] = set()
        for site in chosen_sites(instrumentation, self.types, self.names, self.scope):
            port = site.op.inputs[1] if len(site.op.inputs) > 1 else None
            if port is None or not port.op.is_constant or port.op in done:
                continue
            tensor = port.op.attrs["value"]
            if len(tensor.shape) < 2 or not is_float_tensor(port):
                continue
            done.add(port.op)
            trained += self._adapt(instrumentation.graph, port.op, random)
            frozen += tensor.size
            site.record("rank", self.rank)
        if not done:
            raise UsageError(
                "no op with a constant weight is chosen",
                got=f"types={self.types}, names={self.names}, scope={self.scope}",
            )
        instrumentation.report.summary |= {
            "adapted weights": len(done), "trained": trained, "frozen": frozen,
        }  # fmt: skip

    def _adapt(self, graph: Graph, constant: Op, random: Any) -> int:
        """Let all users of a weight read it adapted; returns the elements added."""
        if constant.name is None:
            graph.rename(constant, graph.fresh_name("weight"))
        weight: Tensor = constant.attrs["value"]
        rows, columns = weight.shape[0], int(np.prod(weight.shape[1:]))
        dtype = weight.dtype.numpy
        users = list(constant.output.users)
        down = random.normal(0, columns**-0.5, (self.rank, columns)).astype(dtype)
        up = np.zeros((rows, self.rank), dtype)
        with graph.before(_first_user(graph, constant)):
            factors = [
                Value(graph.constant(array, f"{constant.name}{suffix}").output)
                for array, suffix in ((up, UP), (down, DOWN))
            ]
            scale = np.asarray(self.alpha / self.rank, dtype)
            held = graph.constant(scale, f"{constant.name}{_SCALE}").output
            product = ops.reshape(ops.matmul(*factors), weight.shape)
            adapted = ops.add(
                Value(constant.output), ops.multiply(product, Value(held))
            )
        for user in users:
            user.connect(adapted.port)
        return int(up.size + down.size)


def _first_user(graph: Graph, constant: Op) -> Op | None:
    """The op after a constant."""
    found = False
    for op in graph:
        if found:
            return op
        found = op is constant
    return None


def merge_adapters(graph: Graph) -> int:
    """Add the adapters of a graph to its weights, in place; returns how many there
    were."""
    count = 0
    for up in [op for op in graph if op.is_constant and (op.name or "").endswith(UP)]:
        name = str(up.name).removesuffix(UP)
        if any(
            part not in graph for part in (name, f"{name}{DOWN}", f"{name}{_SCALE}")
        ):
            continue
        weight, down = graph.ops[name], graph.ops[f"{name}{DOWN}"]
        scale = graph.ops[f"{name}{_SCALE}"]
        old = weight.attrs["value"].numpy()
        product = _array(up) @ _array(down)
        merged = old + (product * _array(scale)).reshape(old.shape).astype(old.dtype)
        [adapted] = [op for op in weight.output.user_ops if op.type == "add"]
        weight.attrs["value"] = Tensor.of(merged)
        graph.replace(adapted, [weight.output], "merge_adapters")
        count += 1
    improve(graph, "drop")
    return count


def _array(op: Op) -> Any:
    return op.attrs["value"].numpy()
