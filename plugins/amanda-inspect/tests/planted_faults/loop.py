"""A recurrent ONNX model: a convolution, then a loop with a conditional in its body."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

__all__ = ["build_loop"]

FLOAT, HALF, INT, BOOL = (
    TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT64, TensorProto.BOOL,
)  # fmt: skip


def build_loop(width: int, steps: int) -> Any:
    """A model of [steps, width, width] that is valid ONNX of opset 18.

    In each step the state is multiplied, gated, normalized and rounded to float16;
    even steps and odd ones take the two branches of the conditional.
    """
    random = np.random.default_rng(0)

    def weight(name: str, *shape: int) -> Any:
        scale = 1 / np.sqrt(shape[-1]) if len(shape) > 1 else 1.0
        array = scale * random.normal(size=shape)
        return numpy_helper.from_array(array.astype("float32"), name)

    kernel = numpy_helper.from_array(
        random.normal(size=(steps, steps, 3, 3)).astype("float32"), "kernel"
    )
    weights = [
        kernel,
        weight("recurrent", width, width), weight("input_weight", width, width),
        weight("scale", width), weight("bias", width),
        weight("even_weight", width, width), weight("odd_weight", width, width),
        numpy_helper.from_array(np.int64(2), "two"),
        numpy_helper.from_array(np.int64(0), "zero"),
        numpy_helper.from_array(np.int64(steps), "steps"),
        numpy_helper.from_array(np.bool_(True), "yes"),
        numpy_helper.from_array(np.int64([0]), "first"),
        numpy_helper.from_array(np.zeros((width, width), "float32"), "state_0"),
    ]  # fmt: skip
    nodes = [
        _node("Unsqueeze", ["x", "first"], "batched"),
        _node("Conv", ["batched", "kernel"], "filtered", pads=[1, 1, 1, 1]),
        _node("Squeeze", ["filtered", "first"], "frames"),
        helper.make_node(
            "Loop", ["steps", "yes", "state_0"], ["state", "states"], "loop",
            body=_body(width),
        ),
        _node("LogSoftmax", ["state"], "scores", axis=-1),
        _node("Sub", ["scores", "state"], "y"),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes, "recurrent",
        [helper.make_tensor_value_info("x", FLOAT, [steps, width, width])],
        [helper.make_tensor_value_info("y", FLOAT, [width, width]),
         helper.make_tensor_value_info("states", FLOAT, [steps, width, width])],
        weights,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 9
    model = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    onnx.checker.check_model(model)
    return model


def _node(kind: str, inputs: Sequence[str], output: str, **attributes: Any) -> Any:
    name = f"node_{output}"
    return helper.make_node(kind, inputs, [output], name, **attributes)


def _body(width: int) -> Any:
    square = [width, width]
    nodes = [
        _node("Gather", ["frames", "step"], "frame", axis=0),
        _node("MatMul", ["before", "recurrent"], "turned"),
        _node("MatMul", ["frame", "input_weight"], "fed"),
        _node("Sub", ["fed", "turned"], "gated"),
        _node("LayerNormalization", ["gated", "scale", "bias"], "normal", epsilon=1e-5),
        _node("Softmax", ["normal"], "gate", axis=-1),
        _node("Cast", ["normal"], "half", to=HALF),
        _node("Cast", ["half"], "rounded", to=FLOAT),
        _node("Mod", ["step", "two"], "parity"),
        _node("Equal", ["parity", "zero"], "is_even"),
        helper.make_node(
            "If", ["is_even"], ["chosen"], "conditional",
            then_branch=_branch(width, "even", [
                _node("MatMul", ["rounded", "even_weight"], "even_product"),
                _node("Sub", ["even_product", "gate"], "even_rest"),
                _node("Softmax", ["even_rest"], "even", axis=-1),
            ]),
            else_branch=_branch(width, "odd", [
                _node("MatMul", ["rounded", "odd_weight"], "odd_product"),
                _node("Exp", ["gate"], "odd_scale"),
                _node("Div", ["odd_product", "odd_scale"], "odd"),
            ]),
        ),
        _node("Tanh", ["chosen"], "after"),
        _node("Identity", ["running"], "still"),
        _node("Identity", ["after"], "kept"),
    ]  # fmt: skip
    return helper.make_graph(
        nodes, "body",
        [helper.make_tensor_value_info("step", INT, []),
         helper.make_tensor_value_info("running", BOOL, []),
         helper.make_tensor_value_info("before", FLOAT, square)],
        [helper.make_tensor_value_info("still", BOOL, []),
         helper.make_tensor_value_info("after", FLOAT, square),
         helper.make_tensor_value_info("kept", FLOAT, square)],
    )  # fmt: skip


def _branch(width: int, name: str, nodes: list[Any]) -> Any:
    output = helper.make_tensor_value_info(name, FLOAT, [width, width])
    return helper.make_graph(nodes, name, [], [output])
