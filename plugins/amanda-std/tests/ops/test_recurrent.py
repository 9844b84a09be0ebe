"""Recurrent layers and their gradients against other frameworks."""

from __future__ import annotations

import numpy as np
import pytest

from amanda.types import parse_type
from amanda_std import grad, ops, trace
from amanda_std.passes import infer

TIME, BATCH, IN, HIDDEN = 5, 3, 4, 2
GATES = {"rnn": 1, "gru": 3, "lstm": 4}


def weights(kind, directions=1, seed=6, **more):
    """Arguments of a layer: data, weights, both biases."""
    rng = np.random.default_rng(seed)
    rows = GATES[kind] * HIDDEN
    shapes = {
        "x": (TIME, BATCH, IN), "w": (directions, rows, IN),
        "r": (directions, rows, HIDDEN), "bias": (directions, rows),
        "recurrent_bias": (directions, rows), **more,
    }  # fmt: skip
    return {k: rng.uniform(-1, 1, s).astype("float32") for k, s in shapes.items()}


def agree(got, want):
    for a, b in zip(got, want, strict=True):
        assert np.shape(a) == np.shape(b)
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


# -- PyTorch -------------------------------------------------------------------------


def of_torch(kind, given, *, lengths=None, batch_first=False, **options):
    torch = pytest.importorskip("torch", reason="it is what tells the values")
    directions = len(given["w"])
    layer = getattr(torch.nn, kind.upper())(
        IN, HIDDEN, bidirectional=directions == 2, batch_first=batch_first, **options
    )
    names = {"weight_ih": "w", "weight_hh": "r", "bias_ih": "bias",
             "bias_hh": "recurrent_bias"}  # fmt: skip
    with torch.no_grad():
        for name, own in names.items():
            for d, suffix in zip(range(directions), ("", "_reverse"), strict=False):
                value = given[own][d]
                if kind == "gru":  # torch has reset, update, new
                    r, z, n = np.split(value, 3)
                    value = np.concatenate([z, r, n])
                getattr(layer, f"{name}_l0{suffix}").copy_(torch.from_numpy(value))
        x = torch.from_numpy(given["x"])
        if lengths is not None:
            x = torch.nn.utils.rnn.pack_padded_sequence(
                x, lengths, batch_first=batch_first, enforce_sorted=False
            )
        states = [torch.from_numpy(given[k]) for k in ("h0", "c0") if k in given]
        start = None if not states else states[0] if kind != "lstm" else tuple(states)
        y, last = layer(x, start)
        if lengths is not None:
            y, _ = torch.nn.utils.rnn.pad_packed_sequence(
                y, batch_first=batch_first, total_length=TIME
            )
    y = y.numpy().reshape(*y.shape[:2], directions, HIDDEN)
    if not batch_first:
        y = y.transpose(0, 2, 1, 3)
    last = last if kind == "lstm" else (last,)
    return [y, *(v.numpy() for v in last)]


STATES = {"h0": (2, BATCH, HIDDEN), "c0": (2, BATCH, HIDDEN)}


def call(kind, given, **attrs):
    op = ops.OPS[kind]
    names = [p.name for p in op.form.params if p.name in given]
    return op(**{name: given[name] for name in names}, **attrs)


@pytest.mark.parametrize("kind", GATES)
def test_bidirectional_matches_torch(kind):
    given = weights(kind, 2, **STATES)
    if kind != "lstm":
        del given["c0"]
    more = {"reset_after": True} if kind == "gru" else {}
    want = of_torch(kind, given)
    agree(call(kind, given, direction="bidirectional", **more), want)


@pytest.mark.parametrize("kind", GATES)
def test_lengths_match_torch(kind):
    given = weights(kind, 2)
    lengths = [2, 5, 3]
    want = of_torch(kind, given, lengths=lengths)
    more = {"reset_after": True} if kind == "gru" else {}
    given["lengths"] = np.array(lengths)
    agree(call(kind, given, direction="bidirectional", **more), want)


def test_batch_first_matches_torch():
    given = weights("lstm")
    given["x"] = np.ascontiguousarray(given["x"].swapaxes(0, 1))
    agree(
        call("lstm", given, batch_first=True), of_torch("lstm", given, batch_first=True)
    )


def test_relu_matches_torch():
    given = weights("rnn")
    want = of_torch("rnn", given, nonlinearity="relu")
    agree(call("rnn", given, activations=("relu",)), want)


@pytest.mark.filterwarnings("ignore:LSTM with projections")
def test_projections_match_torch():
    torch = pytest.importorskip("torch", reason="it is what tells the values")
    layer = torch.nn.LSTM(IN, 3, proj_size=2)
    x = torch.randn(TIME, BATCH, IN, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        y, (h, c) = layer(x)
    parts = [
        p.detach().numpy()[None] for p in layer.parameters()
    ]  # input, state, their biases, projection
    w, r, bias, recurrent, out = parts
    got = ops.lstm(x.numpy(), w, r, bias, recurrent, projection=out)
    agree(got, [y.numpy()[:, None], h.numpy(), c.numpy()])


# -- Keras ---------------------------------------------------------------------------


def keras():
    return pytest.importorskip("keras", reason="it is what tells the values")


def of_keras(kind, **options):
    """A layer of Keras with other weights, and these as arguments of ours."""
    rng = np.random.default_rng(8)
    layer = getattr(keras().layers, {"rnn": "SimpleRNN"}.get(kind, kind.upper()))(
        HIDDEN, return_sequences=True, return_state=True, **options
    )
    x = rng.uniform(-1, 1, (BATCH, TIME, IN)).astype("float32")
    layer.build(x.shape)
    held = [rng.uniform(-1, 1, v.shape).astype("float32") for v in layer.get_weights()]
    layer.set_weights(held)
    y, *last = (np.asarray(v) for v in layer(x))
    w, r, b = held
    given = {"x": x, "w": w.T[None], "r": r.T[None]}
    given |= (
        {"bias": b[:1], "recurrent_bias": b[1:]} if b.ndim == 2 else {"bias": b[None]}
    )
    return given, [y[:, :, None], *(v[None] for v in last)]


@pytest.mark.parametrize(
    ("kind", "options", "attrs"),
    [
        ("rnn", {}, {}),
        ("gru", {"reset_after": True}, {"reset_after": True}),
        ("gru", {"reset_after": False}, {}),
        ("lstm", {}, {}),
        (
            "lstm",
            {"recurrent_activation": "hard_sigmoid", "activation": "relu"},
            {"activations": ("hard_sigmoid", "relu", "relu"),
             "alphas": (1 / 6, None, None), "betas": (0.5, None, None)},
        ),
        ("lstm", {"go_backwards": True}, {"direction": "reverse"}),
    ],
)  # fmt: skip
def test_gate_order_matches_keras(kind, options, attrs):
    given, (y, *last) = of_keras(kind, **options)
    got = list(call(kind, given, batch_first=True, **attrs))
    if attrs.get("direction"):  # Keras gives the outputs as they were made
        y = y[:, ::-1]
    agree(got, [y, *last])


# -- types and gradients --------------------------------------------------------------


def test_symbolic_time_and_batch():
    types = ["float32[t, n, 4]", "float32[1, 8, 4]", "float32[1, 8, 2]"]
    graph = trace(lambda *v: ops.lstm(*v), [parse_type(t) for t in types])
    assert [str(v.type) for v in graph.results] == [
        "float32[t, 1, n, 2]",
        "float32[1, n, 2]",
        "float32[1, n, 2]",
    ]
    for port in grad(graph, graph.results[0], graph.parameters):
        graph.result(port)
    infer(graph)
    assert [str(v.type) for v in graph.results[3:]] == types


def test_training_step_matches_torch(run):
    """Gradients of all weights, over sequences that end early."""
    torch = pytest.importorskip("torch", reason="it is what tells the values")
    given = {k: v.astype("float64") for k, v in weights("lstm").items()}
    layer = torch.nn.LSTM(IN, HIDDEN).double()
    x = torch.from_numpy(given["x"])
    with torch.no_grad():
        for p, name in zip(layer.parameters(), ("w", "r", "bias", "recurrent_bias"),
                           strict=True):  # fmt: skip
            p.copy_(torch.from_numpy(given[name][0]))
    y, _ = layer(x)
    torch.sum(torch.sin(y)).backward()
    want = [p.grad.numpy()[None] for p in layer.parameters()]

    graph = trace(
        lambda *v: ops.sum(ops.sin(ops.lstm(*v)[0])),
        [
            parse_type(f"float64[{', '.join(map(str, v.shape))}]")
            for v in given.values()
        ],
    )
    for port in grad(graph, graph.results[0], graph.parameters[1:]):
        graph.result(port)
    for got, expected in zip(run(graph, *given.values())[1:], want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)
