"""The tool `inject`: faults in weights and activations, and campaigns of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from amanda import apply, run
from amanda.errors import UsageError
from amanda.graph import Graph
from amanda.instrument import Instrumentation, Site, Tool
from amanda.tensors import Tensor
from amanda.types import TensorType
from amanda_std import ops
from amanda_tools.analysis.selection import chosen_sites, is_float_tensor

__all__ = ["Inject", "Trial", "run_campaign"]

FAULTS: Final = ("bitflip", "gaussian", "uniform")
TARGETS: Final = ("weights", "activations")
Array = np.ndarray[Any, Any]


class Inject(Tool):
    """Faults in the weights or the outputs of chosen ops.

    - `target`: weights or activations (float32)
    - `fault`: bitflip, of `count` elements, in a random `bit` or the one given (0 is
      the lowest, 31 the sign); gaussian or uniform noise of all elements, with a
      standard deviation or bound of `scale` times that of the weight, or times 1
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
        self.target, self.fault, self.count = target, fault, count
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
        """The ops that faults are injected in."""
        return chosen_sites(instrumentation, self.types, self.names, self.scope)

    def _fault_weight(
        self, instrumentation: Instrumentation, site: Site, random: Any
    ) -> bool:
        del instrumentation
        port = site.op.inputs[1] if len(site.op.inputs) > 1 else None
        if port is None or not port.op.is_constant or not is_float_tensor(port):
            return False
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
                return ops.add(x, noise)

        site.insert_after(change)
        return True

    def _mask(self, shape: Sequence[int], random: Any) -> tuple[Array, list[list[int]]]:
        """Bits to flip, and their places: [element, bit]."""
        size = int(np.prod(shape))
        chosen = random.choice(size, min(self.count, size), replace=False)
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


# -- campaigns -------------------------------------------------------------------------


class Trial(NamedTuple):
    """One faulty run of a campaign."""

    op: str
    seed: int
    error: float
    """The largest difference of a result, relative to the largest value expected."""
    changed: float
    """The share of examples whose largest result is another one."""


def run_campaign(
    graph: Graph,
    feeds: Mapping[str, Any] | Sequence[Any],
    *,
    file: str | Path | None = None,
    seeds: Sequence[int] = (0,),
    backend: str = "numpy",
    **options: Any,
) -> list[Trial]:
    """Inject faults in one op after the other, with each seed, and compare the results.

    `options` are those of `Inject`. Trials are appended to `file`, a JSON object in
    each line; a campaign that is started again continues where it stopped.
    """
    known = {(trial.op, trial.seed): trial for trial in _read_trials(file)}
    expected = list(run(graph, feeds, backend=backend).values())
    found = []
    for label in _ops_of(graph, options):
        for seed in seeds:
            trial = known.get((label, seed))
            if trial is None:
                tool = _InjectInOne(label, **{**options, "seed": seed})
                results = apply(graph, tool).run(feeds, backend)
                trial = Trial(label, seed, *_compare(list(results.values()), expected))
                _append_trial(file, trial)
            found.append(trial)
    return found


class _InjectInOne(Inject):
    """Injects faults in one of the chosen ops: ops without a name have a label too."""

    def __init__(self, op: str, **options: Any) -> None:
        super().__init__(**options)
        self.op = op

    def sites(self, instrumentation: Instrumentation) -> list[Site]:
        """The chosen op of this label."""
        found = super().sites(instrumentation)
        return [site for site in found if site.label == self.op]


def _ops_of(graph: Graph, options: Mapping[str, Any]) -> list[str]:
    """The labels of the ops that an injection would choose."""
    labels: list[str] = []

    class Collector(Inject):
        """Collects the ops, and changes nothing."""

        def instrument(self, instrumentation: Instrumentation) -> None:
            labels.extend(site.label for site in self.sites(instrumentation))

    apply(graph, Collector(**options))
    return labels


def _compare(found: Sequence[Any], expected: Sequence[Any]) -> tuple[float, float]:
    first, exact = np.asarray(found[0]), np.asarray(expected[0])
    difference = np.abs(first.astype("float64") - exact)
    error = float(np.max(np.nan_to_num(difference, nan=np.inf, posinf=np.inf)))
    scale = float(np.max(np.abs(exact))) or 1.0
    if first.ndim < 2:
        return error / scale, float(error > 0)
    changed = np.nan_to_num(first).argmax(-1) != exact.argmax(-1)
    return error / scale, float(np.mean(changed))


def _read_trials(file: str | Path | None) -> Iterator[Trial]:
    if file is None or not Path(file).exists():
        return
    for line in Path(file).read_text(encoding="utf-8").splitlines():
        try:
            yield Trial(**json.loads(line))
        except (ValueError, TypeError):
            continue  # the last line of a campaign that was interrupted


def _append_trial(file: str | Path | None, trial: Trial) -> None:
    if file is not None:
        text = Path(file)
        is_cut = text.exists() and not text.read_bytes().endswith(b"\n")
        with text.open("a", encoding="utf-8") as target:
            target.write("\n" * is_cut + json.dumps(trial._asdict()) + "\n")
