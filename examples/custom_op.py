"""Define a custom op once; validate, run and convert it.

    python examples/custom_op.py

The signature declares the op, the function its semantics. With these the op can be
built, validated and run by calling Python. One additional rule expresses it with std
ops, which every backend supports.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import amanda


@amanda.custom_op(
    "onnx/com.acme@1",
    "Swish(x: T, *, beta: float = 1.0) -> (y: T)  T in {f32, f64}",
    like="x",
)
def swish(x: Any, *, beta: float) -> Any:
    """x * sigmoid(beta * x)."""
    return x / (1 + np.exp(-beta * x))


def build_model() -> amanda.Graph:
    """Build an ONNX model that uses the op."""
    onnx: Any = amanda.namespace("onnx@18")
    graph = amanda.Graph(onnx.name, name="small")
    graph.imports.update({"": 18, "com.acme": 1})
    x = graph.parameter(amanda.parse_type("float32[2, 3]"), "x")
    y = swish.add(graph, onnx.build(graph).Neg(x), beta=2.0, name="swish")
    graph.result(onnx.build(graph).Abs(y), "y")
    return graph


def main() -> None:
    graph = build_model()
    onnx: Any = amanda.namespace("onnx@18")
    problems = onnx.validate(graph, amanda.namespace)
    print(f"{len(problems)} faults, {graph.ops['swish'].definition}")

    x = np.linspace(-3, 3, 6, dtype=np.float32).reshape(2, 3)
    expected = np.abs(swish(-x, beta=2.0))
    called = amanda.run(graph, {"x": x}, backend="numpy")["y"]
    print("run by calling Python:", np.allclose(called, expected))

    @swish.to("amanda/std/1")
    def _(o: Any, x: Any, *, beta: float) -> Any:
        return o.multiply(x, o.sigmoid(o.multiply(x, beta)))

    converted = amanda.convert(graph, "std")
    print("converted to", *(op.type for op in converted if op.type != "constant"))
    run = amanda.run(graph, {"x": x}, backend="numpy")["y"]
    print("run as std ops:", np.allclose(run, expected))
    swish.check(x, beta=0.5)
    print("the rule agrees with the function")


if __name__ == "__main__":
    main()
