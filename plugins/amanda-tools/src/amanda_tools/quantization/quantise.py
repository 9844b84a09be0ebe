"""The tool `quantise`: weights and activations of 8 bits or fewer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from amanda import improve, run
from amanda.errors import UsageError
from amanda.graph import Graph, InputPort, Op, OutputPort
from amanda.instrument import Instrumentation, Report, Site, Tool
from amanda.tensors import Tensor
from amanda.types import DType
from amanda_std import Value, ops
from amanda_tools.analysis.layouts import expand_layout
from amanda_tools.analysis.selection import is_float_tensor
from amanda_tools.pictures import Bar, draw_bars
from amanda_tools.quantization.correction import mean_errors
from amanda_tools.quantization.equalization import equalize
from amanda_tools.quantization.ranges import Levels, calibrate, weight_levels

__all__ = ["Quantise", "signal_to_noise"]

Array = np.ndarray[Any, Any]

MODES: Final = ("static", "dynamic", "weights", "training")
_LAYERS: Final = ("conv", "matmul", "linear")
"""Ops with weights whose products are computed on integers."""
_ALSO: Final = ("add", "multiply", "concat", "relu", "clip", "avg_pool", "sigmoid",
                "leaky_relu", "mean", "softmax")  # fmt: skip
"""Ops that run on integers between them, where a runtime has such kernels."""
_SAME_RANGE: Final = ("max_pool", "reshape", "flatten", "transpose", "squeeze",
                      "expand_dims", "slice", "gather")  # fmt: skip
"""Ops whose results have the levels of their first argument."""
_FOLDED: Final = ("relu", "clip")
"""Ops that a runtime folds into the levels of the op before."""


class Quantise(Tool):
    """Quantize a model after training, as pairs of quantize and dequantize.

    - `mode`: `static`, with ranges from example inputs (`data=`); `dynamic`, with
      ranges of each run; `weights`, where only weights are stored in few bits;
      `training`, with fake quantization whose gradient passes through
    - `calibration`: minmax, percentile, entropy or mse
    - `bits`: of weights; `block`: how many consecutive weights share a scale (0: all of
      an output channel)
    - `per_channel`, `symmetric` (activations), `percentile`
    - `equalize`: give the channels of consecutive layers similar ranges first, which
      changes nothing else (for `per_channel=False`, above all)
    - `correct_bias`: with example inputs, take back how far rounded weights move the
      mean of each channel
    - `types`: the ops with weights to quantize; `skip`: names of ops to leave
    - `backend`: what calibration runs on

    The report has the signal-to-noise ratio of each weight, and, with example inputs,
    of each op's output and of the results, in decibels.
    """

    name = "quantise"

    def __init__(
        self,
        *,
        mode: str = "static",
        calibration: str = "minmax",
        bits: int = 8,
        block: int = 0,
        per_channel: bool = True,
        symmetric: bool = False,
        percentile: float = 99.99,
        equalize: bool = False,
        correct_bias: bool = True,
        types: Sequence[str] = _LAYERS,
        skip: Sequence[str] = (),
        backend: str = "numpy",
    ) -> None:
        if mode not in MODES:
            raise UsageError(f"there is no mode {mode!r}", expected=" or ".join(MODES))
        if not 2 <= bits <= 8:
            raise UsageError("weights have 2 to 8 bits", got=bits)
        self.mode, self.calibration = mode, calibration
        self.bits, self.block, self.per_channel = bits, block, per_channel
        self.symmetric, self.percentile = symmetric, percentile
        self.equalize, self.correct_bias = equalize, correct_bias
        self.types, self.skip, self.backend = tuple(types), frozenset(skip), backend

    def instrument(self, instrumentation: Instrumentation) -> None:
        """Quantize the graph, and report the errors."""
        graph = instrumentation.graph
        improve(graph, "fold", "fold_norms", "fuse", "drop")
        if self.equalize:
            instrumentation.report.summary["equalized pairs"] = equalize(graph)
        before: dict[Any, Any] = {}
        original = graph.clone(memo=before)
        sites = [
            site
            for site in instrumentation.sites()
            if site.type in self.types and site.label not in self.skip
            and site.graph is graph and _weight_of(site.op) is not None
        ]  # fmt: skip
        outputs = [site.op.outputs[0] for site in sites]
        if self.correct_bias and instrumentation.data and self.mode != "training":
            self._correct_biases(instrumentation, sites)
        if self.mode in ("static", "training"):
            self._quantize_activations(instrumentation, sites)
        for site in sites:
            if self.mode == "dynamic":
                site.insert_before(_dynamic)
            self._quantize_weight(site)
        if instrumentation.data:
            pairs = [
                (site, before[port]) for site, port in zip(sites, outputs, strict=True)
            ]
            self._report_errors(instrumentation, original, pairs, outputs)
        improve(graph, "drop")
        instrumentation.report.summary["quantized layers"] = len(sites)

    def picture(self, report: Report) -> str | None:
        """The signal-to-noise ratio of each layer's output, or of its weight."""
        rows = report.select("output SNR (dB)", tool=self.name)
        rows = rows or report.select("weight SNR (dB)", tool=self.name)
        return draw_bars([
            Bar(row.op, float(row.value), f"{row.value:.1f} dB") for row in rows
        ])  # fmt: skip

    # -- activations ----------------------------------------------------------------

    def _quantize_activations(
        self, instrumentation: Instrumentation, sites: Sequence[Site]
    ) -> None:
        """Insert pairs behind the values that ops on integers read and write."""
        graph = instrumentation.graph
        ports = _integer_values(graph, [site.op for site in sites])
        own = list(dict.fromkeys(map(_range_source, ports)))
        found = calibrate(
            graph, own, instrumentation.data, self.calibration, self.backend,
            symmetric=self.symmetric, percentile=self.percentile,
        )  # fmt: skip
        known = dict(zip(own, found, strict=True))
        levels = {port: known[_range_source(port)] for port in ports}
        for site in sites:
            source = site.op.inputs[0]
            if self.mode == "static" and source in levels:
                self._quantize_bias(site, levels[source])
        for port in ports:
            self._insert_pair(instrumentation, port, levels[port])

    def _insert_pair(
        self, instrumentation: Instrumentation, port: OutputPort, levels: Levels
    ) -> None:
        """Let all users of a value read it quantized and dequantized."""
        graph = instrumentation.graph
        users = list(port.users)
        is_input = port.op is graph
        first = next(iter(graph), None)
        following = first if is_input else instrumentation.op_after(port.op)
        with graph.before(following):
            if self.mode == "training":
                zero = np.asarray(levels.zero_point, "float32")
                bounds = (-127, 127) if self.symmetric else (0, 255)
                value = ops.fake_quantize(
                    Value(port), levels.scale, zero, low=bounds[0], high=bounds[1]
                )
            else:
                value = _pair(Value(port), levels)
        for user in users:
            if user.op is not graph:
                user.connect(value.port)

    # -- weights --------------------------------------------------------------------

    def _levels_of(self, op: Op) -> Levels:
        """The levels of an op's weight."""
        weight = _weight_of(op)
        assert weight is not None
        axis = _reduced_axis(op) if self.block else self._channel_axis(op)
        return weight_levels(weight.numpy().astype("float32"), axis, self.bits,
                             self.block)  # fmt: skip

    def _correct_biases(
        self, instrumentation: Instrumentation, sites: Sequence[Site]
    ) -> None:
        """Subtract from each bias the mean error that rounded weights make."""
        errors: dict[Op, tuple[Array, int]] = {}
        for site in sites:
            weight, levels = _weight_of(site.op), self._levels_of(site.op)
            assert weight is not None
            array = weight.numpy().astype("float32")
            rounded = _dequantize(
                _integers(array, levels, self.bits, self.block), levels, self.block
            )
            if _bias_of(site.op) is None:
                instrumentation.not_observed(site, "bias correction", "it has no bias")
            else:
                errors[site.op] = (rounded - array, _result_axis(site.op))
        found = mean_errors(
            instrumentation.graph, errors, instrumentation.data, self.backend
        )
        for op, moved in found.items():
            bias = _bias_of(op)
            assert bias is not None
            assert bias.source is not None
            old = bias.source.op.attrs["value"].numpy()
            new = (old - moved.reshape(old.shape)).astype(old.dtype)
            with instrumentation.graph.before(bias.op):
                bias.connect(instrumentation.graph.constant(Tensor.of(new)).output)

    def _quantize_weight(self, site: Site) -> None:
        """Store the weight of an op in few bits; dequantized where it is read."""
        weight = _weight_of(site.op)
        assert weight is not None
        array = weight.numpy().astype("float32")
        levels = self._levels_of(site.op)
        integers = _integers(array, levels, self.bits, self.block)
        site.record("weight SNR (dB)", signal_to_noise(
            array, _dequantize(integers, levels, self.block)))  # fmt: skip
        if self.mode == "training":
            site.insert_before(partial(_fake, levels=levels, bits=self.bits), 1)
            return
        if self.mode == "weights" and self.block and _is_matrix_product(site.op):
            site.graph.imports.setdefault("com.microsoft", 1)  # of ONNX: MatMulNBits
            site.replace(partial(_packed_product, integers, levels, self))
            return
        kind = DType("int4" if self.bits <= 4 else "int8")
        stored = Tensor.of(integers.astype(kind.numpy))
        with site.graph.before(site.op):
            constant = site.graph.constant(stored).output
            zeros = levels.zero_point.astype(kind.numpy)  # which QGemm asks for
            value = ops.dequantize(
                Value(constant), levels.scale, zeros, axis=levels.axis, block=self.block
            )
        site.op.input_ports[1].connect(value.port)

    def _quantize_bias(self, site: Site, data: Levels) -> None:
        """Store a bias as int32, in the levels of the products that it is added to."""
        found = _bias_of(site.op)
        weight = _weight_of(site.op)
        if found is None or weight is None or not self.per_channel:
            return
        array = weight.numpy().astype("float32")
        levels = weight_levels(array, _output_axis(site.op), self.bits)
        bias = found.source.op.attrs["value"].numpy() if found.source else None
        if bias is None or bias.size != levels.scale.size:
            return
        scale = (levels.scale * data.scale).astype("float32")
        limit = 2**31 - 1
        steps = np.clip(np.round(bias.reshape(-1) / scale), -limit, limit)
        axis = bias.ndim - 1 if bias.ndim else None
        with site.graph.before(found.op):
            constant = site.graph.constant(steps.astype("int32").reshape(bias.shape))
            value = ops.dequantize(Value(constant.output), scale, None, axis=axis)
        found.connect(value.port)

    def _channel_axis(self, op: Op) -> int | None:
        """The axis of a weight along which outputs are, if it has its own scales."""
        return _output_axis(op) if self.per_channel else None

    # -- the report -----------------------------------------------------------------

    def _report_errors(
        self,
        instrumentation: Instrumentation,
        original: Graph,
        pairs: Sequence[tuple[Site, OutputPort]],
        outputs: Sequence[OutputPort],
    ) -> None:
        """Record the error of each op's output, and of the results."""
        feeds = instrumentation.data[0]
        results = [port for port in original.results if port is not None]
        wanted = [*(port for _, port in pairs), *results]
        exact = run(original, feeds, wanted, backend=self.backend)
        ours = [port.resolve() for port in outputs]
        after = [port for port in instrumentation.graph.results if port is not None]
        found = run(instrumentation.graph, feeds, [*ours, *after], backend=self.backend)
        for (site, port), own in zip(pairs, ours, strict=True):
            site.record("output SNR (dB)", signal_to_noise(exact[port], found[own]))
        names = [port.name for port in instrumentation.graph.outputs]
        for name, port, own in zip(names, results, after, strict=False):
            ratio = signal_to_noise(exact[port], found[own])
            instrumentation.report.summary[f"SNR of {name} (dB)"] = ratio


def signal_to_noise(exact: Any, found: Any) -> float:
    """The ratio of the energies of a value and of its error, in decibels."""
    exact, found = np.asarray(exact, "float64"), np.asarray(found, "float64")
    noise = float(np.sum((exact - found) ** 2))
    signal = float(np.sum(exact**2))
    if noise == 0:
        return float("inf")
    return 10 * float(np.log10(max(signal, 1e-300) / noise))


class _Place(NamedTuple):
    """Where a weight has its output channels, and what its products sum over."""

    outputs: int
    inputs: int


def _place(op: Op) -> _Place:
    weight = _weight_of(op)
    assert weight is not None
    if op.type == "conv":
        layout = str(op.attrs.get("kernel_layout", "OI*"))
        axes = expand_layout(layout, len(weight.shape))
        return _Place(axes.index("O"), axes.index("I"))
    return _Place(len(weight.shape) - 1, len(weight.shape) - 2)


def _output_axis(op: Op) -> int:
    return _place(op).outputs


def _result_axis(op: Op) -> int:
    """The axis of an op's result along which its output channels are."""
    if op.type != "conv":
        return -1
    layout = str(op.attrs.get("layout", "NC*"))
    return 1 if layout == "NC*" else -1


def _reduced_axis(op: Op) -> int:
    return _place(op).inputs


def _weight_of(op: Op) -> Tensor | None:
    """The constant weight of floats of an op: its second argument, of two dims or
    more."""
    port = op.inputs[1] if len(op.inputs) > 1 else None
    if port is None or not port.op.is_constant or not is_float_tensor(port):
        return None
    tensor: Tensor = port.op.attrs["value"]
    return tensor if len(tensor.shape) > 1 else None


def _bias_of(op: Op) -> InputPort | None:
    """Where the constant bias of an op is read: by itself, or by an addition after
    it."""
    if len(op.inputs) > 2:
        port = op.inputs[2]
        return op.input_ports[2] if port is not None and port.op.is_constant else None
    add = _bias_addition(op)
    if add is None:
        return None
    return next(p for p in add.input_ports if p.source and p.source.op.is_constant)


def _bias_addition(op: Op) -> Op | None:
    """The only user of a matrix product, if that adds a vector of constants."""
    users = op.outputs[0].user_ops
    if op.type not in _LAYERS or len(users) != 1 or users[0].type != "add":
        return None
    others = [p for p in users[0].inputs if p is not None and p is not op.outputs[0]]
    if len(others) != 1 or not others[0].op.is_constant:
        return None
    return users[0] if len(others[0].op.attrs["value"].shape) == 1 else None


def _integers(array: Array, levels: Levels, bits: int, block: int) -> Array:
    highest = 2 ** (bits - 1) - 1
    steps = np.round(array / _broadcast(levels, array, block))
    return np.clip(steps, -highest, highest).astype("int8")


def _dequantize(integers: Array, levels: Levels, block: int) -> Array:
    return integers * _broadcast(levels, integers, block)


def _broadcast(levels: Levels, like: Array, block: int) -> Array:
    """The scales of a weight, in its shape."""
    if levels.axis is None:
        return levels.scale
    if block:
        repeated = np.repeat(levels.scale, block, axis=levels.axis)
        cut = [slice(None)] * like.ndim
        cut[levels.axis] = slice(like.shape[levels.axis])
        return repeated[tuple(cut)]
    shape = [1] * like.ndim
    shape[levels.axis] = -1
    return levels.scale.reshape(shape)


def _is_matrix_product(op: Op) -> bool:
    """Whether an op multiplies by a matrix, as the hub's products of packed weights
    do."""
    weight = _weight_of(op)
    is_product = op.type in ("matmul", "linear")
    return is_product and weight is not None and len(weight.shape) == 2


def _packed_product(
    integers: Array, levels: Levels, tool: Quantise, *inputs: Any
) -> Any:
    """x times a weight whose rows are packed in blocks of unsigned integers."""
    if tool.bits not in (2, 4, 8):
        raise UsageError("packed weights have 2, 4 or 8 bits", got=tool.bits)
    rows, scale = integers.T, levels.scale.T
    middle = 1 << (tool.bits - 1)
    unsigned = np.pad(rows.astype("int16") + middle,
                      [(0, 0), (0, -rows.shape[1] % tool.block)],
                      constant_values=middle)  # fmt: skip
    kind = DType(f"uint{tool.bits}").numpy
    packed = Tensor.of(unsigned.astype(kind))
    scales = np.ascontiguousarray(scale)
    bias = inputs[2] if len(inputs) > 2 else None
    zeros = np.full(scales.shape, middle, "uint8").astype(kind)
    return ops.quantized_linear(
        inputs[0], packed, scales, Tensor.of(zeros), bias, block=tool.block
    )


def _pair(x: Any, levels: Levels) -> Any:
    integers = ops.quantize(x, levels.scale, levels.zero_point)
    return ops.dequantize(integers, levels.scale, levels.zero_point)


def _fake(weight: Any, levels: Levels, bits: int) -> Any:
    highest = 2 ** (bits - 1) - 1
    return ops.fake_quantize(
        weight, levels.scale, None, low=-highest, high=highest, axis=levels.axis
    )


def _dynamic(x: Any) -> Any:
    integers, scale, zero_point = ops.dynamic_quantize(x)
    return ops.dequantize(integers, scale, zero_point)


def _integer_values(graph: Graph, layers: Sequence[Op]) -> list[OutputPort]:
    """The values between ops on integers, in the order of the graph.

    Inputs and outputs of layers, and of what runs on integers between them. A value
    that only an activation reads, which a runtime folds, has no levels of its own."""
    chosen: dict[OutputPort, None] = {}
    kinds = {*_ALSO, *_SAME_RANGE}
    near = set(layers)
    for op in graph:
        reads = [port for port in op.inputs if port is not None]
        is_fed = any(port in chosen or port.op in near for port in reads)
        touches = op in near or (op.type in kinds and is_fed)
        if not touches:
            continue
        for port in (*(reads[:1] if op in near else reads), *op.outputs):
            if is_float_tensor(port) and not port.op.is_constant:
                chosen[port] = None
    return [port for port in chosen if not _is_folded(port)]


def _is_folded(port: OutputPort) -> bool:
    users = port.user_ops
    if _bias_addition(port.op) is not None:
        return True
    return len(users) == 1 and users[0].type in _FOLDED and port.op.type in (
        *_LAYERS, "add",
    )  # fmt: skip


def _range_source(port: OutputPort) -> OutputPort:
    """The value whose levels a value has: itself, or what its op moves."""
    while port.op.type in _SAME_RANGE:
        source = port.op.inputs[0]
        if source is None or source.op.is_constant:
            break
        port = source
    return port
