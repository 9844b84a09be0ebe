"""The tables of docs/building.md are those of the code, and its example trains."""

from __future__ import annotations

import re
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "building.md").read_text(encoding="utf-8")

pytestmark = pytest.mark.skipif(
    find_spec("amanda_std") is None, reason="amanda-std is not installed"
)


def test_the_page_has_the_table_of_the_code() -> None:
    from amanda_std.engine.literals import DEFAULT_DTYPES, NUMBER_KINDS

    kinds = {
        "bool": "bools",
        "int": "integers",
        "float": "floats",
        "complex": "complex",
    }
    for kind, taken in NUMBER_KINDS.items():
        (row,) = re.findall(
            rf"^\| `{kind.__name__}` \| (.*) \| (\w+) \|$", PAGE, re.MULTILINE
        )
        assert row[1] == DEFAULT_DTYPES[kind]
        for name, word in kinds.items():
            assert (word in row[0]) == (name in taken)


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = spec_from_file_location("train_small", ROOT / "examples" / "train_small.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_example_trains(example: ModuleType) -> None:
    """The loss is that of the same training written by hand, in numpy alone."""
    import numpy as np

    x, labels = example.spirals()
    trained = example.parameters()
    graph = example.step.graph(x, labels, np.float32(0), np.int64(0), *trained * 3)
    assert graph.check() == []
    losses, found = example.train(graph, "numpy")
    by_hand, same = trained_by_hand(example)
    np.testing.assert_allclose(losses[:50], by_hand[:50], rtol=1e-3)
    assert losses[-1] == pytest.approx(by_hand[-1], rel=0.05)
    assert losses[-1] < 0.05
    for got, want in zip(found, same, strict=True):
        np.testing.assert_allclose(got, want, rtol=0.05, atol=0.02)


def trained_by_hand(example: ModuleType):  # type: ignore[no-untyped-def]
    """Backward and Adam as textbooks have them, in float64."""
    import numpy as np

    x, labels = example.spirals()
    state = [p.astype("float64") for p in example.parameters()]
    first, second = ([np.zeros_like(p) for p in state] for _ in range(2))
    losses = []
    for number in range(1, example.STEPS + 1):
        w1, b1, w2, b2 = state
        h = np.tanh(x @ w1 + b1)
        z = h @ w2 + b2
        p = np.exp(z - z.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        losses.append(-np.log(p[np.arange(len(x)), labels]).mean())
        dz = (p - np.eye(2)[labels]) / len(x)
        dh = dz @ w2.T * (1 - h * h)
        slopes = [x.T @ dh, dh.sum(0), h.T @ dz, dz.sum(0)]
        for i, g in enumerate(slopes):
            first[i] = 0.9 * first[i] + 0.1 * g
            second[i] = 0.999 * second[i] + 0.001 * g * g
            mean, square = first[i] / (1 - 0.9**number), second[i] / (1 - 0.999**number)
            state[i] = state[i] - 0.03 * mean / (np.sqrt(square) + 1e-8)
    return losses, state


def test_the_example_trains_to_the_same_loss_on_two_backends(
    example: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    if find_spec("amanda_jax") is None or find_spec("jax") is None:
        pytest.skip("amanda-jax and jax are not installed")
    example.main(["numpy", "jax"])
    told = capsys.readouterr().out
    assert told.count("100% correct") == 2
    assert "the same loss" in told
