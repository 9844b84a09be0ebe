"""What every plug-in and backend must do, on onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx.helper as oh

import amanda
from amanda.testing import BackendSample, BackendSuite, PluginSuite


def softmax() -> BackendSample:
    x, y = (oh.make_tensor_value_info(name, 1, ["n", 2]) for name in "xy")
    nodes = [oh.make_node("Softmax", ["x"], ["y"], axis=1)]
    imports = [oh.make_opsetid("", 13)]
    model = oh.make_model(oh.make_graph(nodes, "g", [x], [y]), opset_imports=imports)
    return BackendSample(
        amanda.load(model), [np.ones((1, 2), "f")], [np.full((1, 2), 0.5, "f")]
    )


class TestPlugin(PluginSuite):
    dist = "amanda-onnxruntime"


class TestBackend(BackendSuite):
    backend = "onnxruntime"
    late = ("numpy", "onnxruntime")

    def samples(self):
        return {"softmax": softmax}
