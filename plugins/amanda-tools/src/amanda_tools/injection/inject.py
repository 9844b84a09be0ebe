"""The tool `inject`: faults in weights and activations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from amanda import improve
from amanda.errors import UsageError
from amanda.graph import Op
from amanda.instrument import Instrumentation, Site, Tool
from amanda.tensors import Tensor
from amanda.types import TensorType
from amanda_std import ops
from amanda_tools.analysis.selection import chosen_sites, is_float_tensor

__all__ = ["Inject"]

FAULTS: Final = ("bitflip", "gaussian", "uniform")
TARGETS: Final = ("weights", "activations")
Array = np.ndarray[Any, Any]


class Inject(Tool):
    """Faults in the weights or the outputs of chosen ops.

    - `target`: weights or activations (float32)
    - `fault`: bitflip, of `count` elements or a share of them (`rate`), in a random
      `bit` or the one given (0 is the lowest, 31 the sign); gaussian or uniform noise
      of all elements, with a standard deviation or bound of `scale` times the standard
      deviation of the weight or the output
    - `seed`: faults are the same for a seed, on every backend
    - `types`, `names`, `scope`: the ops

    The faults of an activation are the same for all examples of a batch. The report
    has the places of bit flips.
    """

    name = "inject"

    def __init__(
        self,
        *,
        target: str = "weights",
        fault: str = "bitflip",
        count: int = 1,
        rate: float | None = None,
        bit: int | None = None,
        scale: float = 0.1,
        seed: int = 0,
        types: Sequence[str] | str = ("conv", "matmul", "linear"),
        names: Sequence[str] | str | None = None,
        scope: str | None = None,
    ) -> None:
        if target not in TARGETS or fault not in FAULTS:
            known = f"target: {' or '.join(TARGETS)}; fault: {' or '.join(FAULTS)}"
            raise UsageError(
                "there is no such fault",
                expected=known,
                got=f"target={target}, fault={fault}",
            )
        if bit is not None and not 0 <= bit < 32:
            raise UsageError("a bit of float32 is 0 to 31", got=bit)
        if rate is not None and not 0 < rate <= 1:
            raise UsageError("the rate is above 0 and up to 1", got=rate)
        self.target, self.fault, self.count = target, fault, count
        self.rate = rate
        self.bit, self.scale, self.seed = bit, scale, seed
        self.types, self.names, self.scope = types, names, scope

    def instrument(self, instrumentation: Instrumentation) -> None:
        """Insert the faults."""
        random = np.random.default_rng(self.seed)
        done = 0
        for site in self.sites(instrumentation):
            change = (
                self._fault_weight if self.target == "weights" else self._fault_output
            )
            done += change(instrumentation, site, random)
        if not done:
            raise UsageError(
                "no op is chosen that faults can be injected in",
                got=f"types={self.types}, names={self.names}, scope={self.scope}",
            )
        instrumentation.report.summary["faulty ops"] = done

    def sites(self, instrumentation: Instrumentation) -> list[Site]:
        """The ops that faults are injected in.

        Weights that are computed from constants are computed first."""
        if self.target == "weights":
            improve(instrumentation.graph, "fold")
        found = chosen_sites(instrumentation, self.types, self.names, self.scope)
        return [s for s in found if self.target != "weights" or _has_weight(s.op)]

    def _fault_weight(
        self, instrumentation: Instrumentation, site: Site, random: Any
    ) -> bool:
        del instrumentation
        port = site.op.inputs[1]
        assert port is not None
        old = port.op.attrs["value"].numpy()
        if self.fault == "bitflip":
            mask, places = self._mask(old.shape, random)
            new = (old.view("int32") ^ mask).view("float32")
            site.record("flipped", places)
        else:
            new = old + self._noise(old.shape, random) * np.float32(old.std() or 1.0)
        with site.graph.before(site.op):
            constant = site.graph.constant(Tensor.of(new.astype(old.dtype))).output
        constant.type = port.type
        site.op.input_ports[1].connect(constant)
        return True

    def _fault_output(
        self, instrumentation: Instrumentation, site: Site, random: Any
    ) -> bool:
        port = site.op.outputs[0]
        shape = _shape_of_example(port.type)
        if shape is None:
            reason = "its output is no float32 tensor with static sizes after the first"
            instrumentation.not_observed(site, "fault", reason)
            return False
        if self.fault == "bitflip":
            mask, places = self._mask(shape, random)
            site.record("flipped", places)

            def change(x: Any) -> Any:
                flipped = ops.bitwise_xor(ops.bitcast(x, dtype="int32"), mask)
                return ops.bitcast(flipped, dtype="float32")
        else:
            noise = self._noise(shape, random)

            def change(x: Any) -> Any:
                return ops.add(x, ops.multiply(ops.sqrt(ops.var(x)), noise))

        site.insert_after(change)
        return True

    def _mask(self, shape: Sequence[int], random: Any) -> tuple[Array, list[list[int]]]:
        """Bits to flip, and their places: [element, bit]."""
        size = int(np.prod(shape))
        count = self.count if self.rate is None else max(round(self.rate * size), 1)
        chosen = random.choice(size, min(count, size), replace=False)
        drawn: list[int] = random.integers(0, 32, len(chosen)).tolist()
        bits = drawn if self.bit is None else [self.bit] * len(chosen)
        mask = np.zeros(size, "uint32")
        for element, bit in zip(chosen, bits, strict=True):
            mask[element] |= np.uint32(1 << bit)
        rows = [[int(e), int(b)] for e, b in zip(chosen, bits, strict=True)]
        return mask.view("int32").reshape(shape), rows

    def _noise(self, shape: Sequence[int], random: Any) -> Array:
        if self.fault == "gaussian":
            made = random.normal(0, self.scale, shape)
        else:
            made = random.uniform(-self.scale, self.scale, shape)
        return np.asarray(made, "float32")


def _has_weight(op: Op) -> bool:
    port = op.inputs[1] if len(op.inputs) > 1 else None
    return port is not None and port.op.is_constant and is_float_tensor(port)


def _shape_of_example(type_: object) -> tuple[int, ...] | None:
    """The shape of a value for one example: 1 for the first dim."""
    if not isinstance(type_, TensorType) or str(type_.dtype) != "float32":
        return None
    if not type_.shape.has_rank or not type_.shape.dims:
        return None
    rest = type_.shape.dims[1:]
    if not all(isinstance(dim, int) for dim in rest):
        return None
    return (1, *(int(dim) for dim in rest))
