"""Models of keras.applications with random weights: on numpy, and by ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import amanda

keras = pytest.importorskip("keras")
pytestmark = pytest.mark.filterwarnings("ignore")
SCALE = pytest.mark.scale
NAMES = (
    "MobileNetV2",
    pytest.param("ResNet50", marks=SCALE),
    pytest.param("EfficientNetV2B0", marks=SCALE),
    pytest.param("ConvNeXtTiny", marks=SCALE),
)


def with_statistics(model: Any) -> Any:
    """A model whose normalization has statistics, as a trained one."""
    rng = np.random.default_rng(0)
    values = []
    for weight, value in zip(model.weights, model.get_weights(), strict=True):
        if weight.path.endswith(("moving_mean", "beta", "bias")):
            value = rng.normal(0, 0.1, value.shape)
        elif weight.path.endswith(("moving_variance", "gamma")):
            value = rng.uniform(0.5, 1.5, value.shape)
        values.append(value)
    model.set_weights(values)
    return model


@pytest.mark.parametrize("name", NAMES)
def test_an_application_gives_equal_results(name: str, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    build = getattr(keras.applications, name)
    shape = (64, 64, 3)
    model = with_statistics(
        build(weights=None, input_shape=shape, classes=10, classifier_activation=None)
    )
    x = np.random.default_rng(1).random((2, *shape)).astype("float32")
    expected = keras.ops.convert_to_numpy(model(x, training=False))
    assert expected.std() > 1e-3
    model.save(tmp_path / "model.keras")
    graph = amanda.load(tmp_path / "model.keras")
    [found] = amanda.run(graph, [x], backend="numpy").values()
    tolerance = 1e-4 * max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(found, expected, atol=tolerance)
    amanda.save(amanda.convert(graph, "onnx@18"), tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    [found] = session.run(None, {session.get_inputs()[0].name: x})
    np.testing.assert_allclose(found, expected, atol=tolerance)
