"""Reference recurrent layers, by loops over numbers, and their samples."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from amanda_std.engine.samples import Sample, Samples

_FUNCTIONS: dict[str, Callable[[float, Any, Any], float]] = {
    "sigmoid": lambda x, _a, _b: 1 / (1 + math.exp(-x)),
    "tanh": lambda x, _a, _b: math.tanh(x),
    "relu": lambda x, _a, _b: max(x, 0.0),
    "linear": lambda x, _a, _b: x,
    "affine": lambda x, a, b: a * x + b,
    "leaky_relu": lambda x, a, _b: x if x >= 0 else a * x,
    "thresholded_relu": lambda x, a, _b: x if x > a else 0.0,
    "scaled_tanh": lambda x, a, b: a * math.tanh(b * x),
    "hard_sigmoid": lambda x, a, b: min(max(a * x + b, 0.0), 1.0),
    "elu": lambda x, a, _b: x if x >= 0 else a * (math.exp(x) - 1),
    "softsign": lambda x, _a, _b: x / (1 + abs(x)),
    "softplus": lambda x, _a, _b: math.log(1 + math.exp(x)),
}
_BY_NAME = {
    "leaky_relu": (0.01, 0), "thresholded_relu": (1.0, 0), "elu": (1.0, 0),
    "hard_sigmoid": (0.2, 0.5), "affine": (1.0, 0), "scaled_tanh": (1.0, 1.0),
}  # fmt: skip

Numbers = list[float]


def _row_dot(matrix: Any, row: int, vector: Numbers) -> float:
    return math.fsum(float(m) * v for m, v in zip(matrix[row], vector, strict=True))


def _clip(x: float, clip: float | None) -> float:
    return x if clip is None else min(max(x, -clip), clip)


class _ReferenceCell:
    """One direction of a layer, for one sequence of the batch."""

    def __init__(self, given: dict[str, Any], d: int, n: int, attrs: Any) -> None:
        self.w, self.r = given["w"][d], given["r"][d]
        self.size = self.r.shape[1] if given.get("projection") is None else (
            given["projection"].shape[2])  # fmt: skip
        self.out = given.get("projection")
        self.out = None if self.out is None else self.out[d]
        rows = len(self.w)
        self.b = [float(v) for v in _parameter_of(given, "bias", d, rows)]
        self.rb = [float(v) for v in _parameter_of(given, "recurrent_bias", d, rows)]
        self.p = [float(v) for v in _parameter_of(given, "peepholes", d, 3 * self.size)]
        h, c = given.get("h0"), given.get("c0")
        out = self.r.shape[1]
        self.h = [0.0] * out if h is None else [float(v) for v in h[d, n]]
        self.c = [0.0] * self.size if c is None else [float(v) for v in c[d, n]]
        names = attrs.get("activations")
        per = {1: 1, 3: 2, 4: 3}[rows // self.size]
        names = names or {1: ["tanh"], 2: ["sigmoid", "tanh"],
                          3: ["sigmoid", "tanh", "tanh"]}[per]  # fmt: skip
        first = d * per if len(names) > per else 0
        self.f = [self._function(names[i], i, attrs) for i in range(first, first + per)]
        self.clip, self.attrs = attrs.get("clip"), attrs

    def _function(self, name: str, i: int, attrs: Any) -> Callable[[float], float]:
        own = _BY_NAME.get(name, (0, 0))
        numbers = [
            own[j] if attrs.get(key) is None or attrs[key][i] is None else attrs[key][i]
            for j, key in enumerate(("alphas", "betas"))
        ]
        function = _FUNCTIONS[name]
        return lambda x: float(function(x, *numbers))

    def gate(self, k: int, j: int, x: Numbers, h: Numbers) -> float:
        row: int = k * self.size + j
        own: float = self.b[row] + self.rb[row]
        return _row_dot(self.w, row, x) + _row_dot(self.r, row, h) + own

    def rnn(self, x: Numbers) -> None:
        f, old = self.f[0], self.h
        self.h = [
            f(_clip(self.gate(0, j, x, old), self.clip)) for j in range(self.size)
        ]

    def gru(self, x: Numbers) -> None:
        (f, g), n, old = self.f, range(self.size), self.h
        z = [f(_clip(self.gate(0, j, x, old), self.clip)) for j in n]
        r = [f(_clip(self.gate(1, j, x, old), self.clip)) for j in n]
        new = []
        for j in n:
            row = 2 * self.size + j
            if self.attrs.get("reset_after"):
                own = r[j] * (_row_dot(self.r, row, old) + self.rb[row])
            else:
                own = _row_dot(
                    self.r, row, [a * b for a, b in zip(r, old, strict=True)]
                )
                own += self.rb[row]
            new.append(
                g(_clip(_row_dot(self.w, row, x) + self.b[row] + own, self.clip))
            )
        self.h = [(1 - z[j]) * new[j] + z[j] * old[j] for j in n]

    def lstm(self, x: Numbers) -> None:
        f, g, last = self.f
        n, old, size = range(self.size), self.h, self.size
        i = [f(_clip(self.gate(0, j, x, old) + self.p[j] * self.c[j], self.clip))
             for j in n]  # fmt: skip
        forget = [f(_clip(self.gate(1, j, x, old) + self.p[size + j] * self.c[j],
                          self.clip)) for j in n]  # fmt: skip
        if self.attrs.get("input_forget"):
            forget = [1 - v for v in i]
        new = [g(_clip(self.gate(2, j, x, old), self.clip)) for j in n]
        self.c = [forget[j] * self.c[j] + i[j] * new[j] for j in n]
        o = [f(_clip(self.gate(3, j, x, old) + self.p[2 * size + j] * self.c[j],
                     self.clip)) for j in n]  # fmt: skip
        self.h = [o[j] * last(self.c[j]) for j in n]
        if self.out is not None:
            self.h = [_row_dot(self.out, j, self.h) for j in range(len(self.out))]


def _parameter_of(given: dict[str, Any], name: str, d: int, count: int) -> Any:
    value = given.get(name)
    return [0.0] * count if value is None else value[d]


def _run_by_loops(kind: str, given: dict[str, Any], attrs: dict[str, Any]) -> list[Any]:
    """A layer by loops over directions, sequences, steps and units."""
    x = given["x"]
    steps = np.swapaxes(x, 0, 1) if attrs.get("batch_first") else x
    ways = {"forward": [0], "reverse": [1], "bidirectional": [0, 1]}
    backs = ways[attrs.get("direction", "forward")]
    time, batch = steps.shape[:2]
    out = given["r"].shape[2]
    hidden = out if given.get("projection") is None else given["projection"].shape[2]
    y = np.zeros((time, len(backs), batch, out))
    h = np.zeros((len(backs), batch, out))
    c = np.zeros((len(backs), batch, hidden))
    for d, back in enumerate(backs):
        for n in range(batch):
            case = _ReferenceCell(given, d, n, attrs)
            end = time if given.get("lengths") is None else int(given["lengths"][n])
            for t in reversed(range(end)) if back else range(end):
                getattr(case, kind)([float(v) for v in steps[t, n]])
                y[t, d, n] = case.h
            h[d, n], c[d, n] = case.h, case.c
    if attrs.get("batch_first"):
        y = y.transpose(2, 0, 1, 3)
    outputs = [y, h, c] if kind == "lstm" else [y, h]
    return [v.astype(x.dtype) for v in outputs]


_GATES = {"rnn": 1, "gru": 3, "lstm": 4}
_ORDER = ["x", "w", "r", "bias", "recurrent_bias", "lengths", "h0", "c0", "peepholes",
          "projection"]  # fmt: skip


def _layer_arguments(
    kind: str, used: str, *, time: int = 3, batch: int = 2, directions: int = 1,
    dtype: str = "float64", lengths: Any = None, out: int = 2,
) -> dict[str, Any]:  # fmt: skip
    """Arguments of a layer, input size 3 and hidden size 2; `used`: optional ones."""
    rng = np.random.default_rng(5)
    rows = _GATES[kind] * 2
    shapes = {
        "x": (time, batch, 3), "w": (directions, rows, 3), "r": (directions, rows, out),
        "bias": (directions, rows), "recurrent_bias": (directions, rows),
        "h0": (directions, batch, out), "c0": (directions, batch, 2),
        "peepholes": (directions, 6), "projection": (directions, out, 2),
    }  # fmt: skip
    given: dict[str, Any] = {}
    for name, shape in shapes.items():
        value = rng.uniform(-1, 1, shape).astype(dtype)
        if name in ("x", "w", "r") or name in used.split():
            given[name] = value
    if lengths is not None:
        given["lengths"] = np.array(lengths, "int32")
    return given


def _sample(kind: str, given: dict[str, Any], **attrs: Any) -> Sample:
    if attrs.get("batch_first"):
        given["x"] = np.ascontiguousarray(np.swapaxes(given["x"], 0, 1))
    args = [given.get(name) for name in _ORDER]
    while args[-1] is None:
        args.pop()
    smooth = given["x"].size > 0
    return Sample(tuple(args), _run_by_loops(kind, given, attrs), attrs, smooth=smooth)


def _common_samples(kind: str) -> Samples:
    """Samples shared by all kinds of layers."""
    yield _sample(kind, _layer_arguments(kind, ""))
    cell = " c0" if kind == "lstm" else ""
    yield _sample(kind, _layer_arguments(kind, "bias recurrent_bias h0" + cell))
    single = _layer_arguments(kind, "bias", dtype="float32")
    yield _sample(kind, single, direction="reverse")
    both = _layer_arguments(kind, "bias h0", directions=2)
    yield _sample(kind, both, direction="bidirectional", batch_first=True)
    for direction in ("forward", "reverse"):
        short = _layer_arguments(kind, "recurrent_bias h0", lengths=(1, 3))
        yield _sample(kind, short, direction=direction)
    yield _sample(kind, _layer_arguments(kind, "bias"), clip=0.4)
    yield _sample(kind, _layer_arguments(kind, "h0", time=0))
    yield _sample(kind, _layer_arguments(kind, "", batch=0))


def rnn_samples() -> Samples:
    yield from _common_samples("rnn")
    for name in _FUNCTIONS:
        yield _sample("rnn", _layer_arguments("rnn", "h0"), activations=(name,))
    settings = {"activations": ("affine", "scaled_tanh"), "alphas": (0.5, 1.5),
                "betas": (0.25, 0.75)}  # fmt: skip
    two = _layer_arguments("rnn", "", directions=2)
    yield _sample("rnn", two, direction="bidirectional", **settings)


def gru_samples() -> Samples:
    yield from _common_samples("gru")
    after = _layer_arguments("gru", "bias recurrent_bias h0")
    yield _sample("gru", after, reset_after=True)
    short = _layer_arguments("gru", "recurrent_bias", lengths=(2, 0))
    yield _sample("gru", short, reset_after=True, activations=("sigmoid", "softsign"))


def lstm_samples() -> Samples:
    yield from _common_samples("lstm")
    yield _sample("lstm", _layer_arguments("lstm", "bias peepholes h0 c0"))
    yield _sample("lstm", _layer_arguments("lstm", "bias"), input_forget=True)
    narrow = _layer_arguments("lstm", "bias h0 projection", out=1)
    yield _sample("lstm", narrow)
    settings = {"activations": ("hard_sigmoid", "tanh", "elu"),
                "alphas": (0.25, None, 0.5), "betas": (0.4, None, None)}  # fmt: skip
    yield _sample("lstm", _layer_arguments("lstm", "c0"), **settings)


# -- 8-bit weights -------------------------------------------------------------------


def _quantized_dot(x: Any, w: Any, scale: Any, zero: Any) -> Any:
    """x @ w with x rounded to 256 steps over its range, in double precision."""
    low, high = min(float(x.min()), 0.0), max(float(x.max()), 0.0)
    step = np.float32((high - low) / 255) or np.float32(1)
    middle = np.clip(np.rint(-low / step), 0, 255)
    rounded = np.clip(np.rint(x / step) + middle, 0, 255) - middle
    return rounded @ (w.astype("float64") - zero) * (float(step) * scale)


def _quantized_lstm_by_loops(given: dict[str, Any], back: bool) -> list[Any]:
    """One direction, with numpy: gates in the order input, forget, cell, output."""
    x = given["x"].astype("float64")
    zeros = [0 if given.get(n) is None else given[n][0].astype("float64")
             for n in ("w_zero", "r_zero")]  # fmt: skip
    size = given["r"].shape[1]
    bias = 0 if given.get("bias") is None else given["bias"][0]
    rows = _quantized_dot(x, given["w"][0], given["w_scale"][0], zeros[0]) + bias
    h, c = (np.zeros((x.shape[1], size)) if given.get(name) is None
            else given[name][0].astype("float64") for name in ("h0", "c0"))  # fmt: skip
    y = np.zeros((len(x), *h.shape))
    for t in reversed(range(len(x))) if back else range(len(x)):
        total = rows[t] + _quantized_dot(
            h, given["r"][0], given["r_scale"][0], zeros[1]
        )
        i, forget, new, out = np.split(total, 4, axis=1)
        i, forget, out = (1 / (1 + np.exp(-v)) for v in (i, forget, out))
        c = forget * c + i * np.tanh(new)
        h = out * np.tanh(c)
        y[t] = h
    outputs = y[:, None], h[None], c[None]
    return [v.astype(given["x"].dtype) for v in outputs]


def quantized_lstm_samples() -> Samples:
    rng = np.random.default_rng(11)
    for dtype, scales, used in (
        ("uint8", (1,), "w_zero r_zero bias"), ("int8", (1, 8), "h0 c0"),
    ):  # fmt: skip
        for direction in ("forward", "reverse"):
            info = np.iinfo(dtype)
            given: dict[str, Any] = {
                "x": rng.uniform(-1, 2, (3, 2, 3)).astype("float32"),
                "w": rng.integers(info.min, info.max, (1, 3, 8), dtype, endpoint=True),
                "r": rng.integers(info.min, info.max, (1, 2, 8), dtype, endpoint=True),
                "w_scale": rng.uniform(0.005, 0.01, scales).astype("float32"),
                "r_scale": rng.uniform(0.005, 0.01, scales).astype("float32"),
                "w_zero": np.full(scales, 130).astype(dtype),
                "r_zero": np.full(scales, 120).astype(dtype),
                "bias": rng.uniform(-1, 1, (1, 8)).astype("float32"),
                "h0": rng.uniform(-1, 1, (1, 2, 2)).astype("float32"),
                "c0": rng.uniform(-1, 1, (1, 2, 2)).astype("float32"),
            }
            optional = ("w_zero", "r_zero", "bias", "h0", "c0")
            given |= {name: None for name in optional if name not in used.split()}
            args = [*given.values()]
            args.insert(8, None)  # lengths
            while args[-1] is None:
                args.pop()
            y = _quantized_lstm_by_loops(given, direction == "reverse")
            yield Sample(tuple(args), y, {"direction": direction}, smooth=False)
