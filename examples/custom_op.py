"""An op of your own, told once: checked, run, converted, compared.

    python examples/custom_op.py

The signature says what the op takes, the function what it means. With that the op can
be built and validated, and runs where Python can be called. One rule more, and it is
made of ops that every backend has.
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
    """x times the logistic function of beta x."""
    return x / (1 + np.exp(-beta * x))


def model() -> amanda.Graph:
    """A model of ONNX with the op in it."""
    onnx: Any = amanda.namespace("onnx@18")
    graph = amanda.Graph(onnx.name, name="small")
    graph.imports.update({"": 18, "com.acme": 1})
    x = graph.parameter(amanda.parse_type("float32[2, 3]"), "x")
    y = swish.add(graph, onnx.build(graph).Neg(x), beta=2.0, name="swish")
    graph.result(onnx.build(graph).Abs(y), "y")
    return graph


def main() -> None:
    graph = model()
    onnx: Any = amanda.namespace("onnx@18")
    problems = onnx.validate(graph, amanda.namespace)
    print(f"{len(problems)} faults, {graph.ops['swish'].definition}")

    x = np.linspace(-3, 3, 6, dtype=np.float32).reshape(2, 3)
    due = np.abs(swish(-x, beta=2.0))
    called = amanda.run(graph, {"x": x}, backend="numpy")["y"]
    print("called as Python:", np.allclose(called, due))

    @swish.to("amanda/std/1")
    def _(o: Any, x: Any, *, beta: float) -> Any:
        return o.multiply(x, o.sigmoid(o.multiply(x, beta)))

    made = amanda.convert(graph, "std")
    print("made of", *(op.type for op in made if op.type != "constant"))
    run = amanda.run(graph, {"x": x}, backend="numpy")["y"]
    print("run as ops:", np.allclose(run, due))
    swish.check(x, beta=0.5)
    print("and as its function says")


if __name__ == "__main__":
    main()
