"""Models of three namespaces for the tests: ONNX, TensorFlow and PyTorch."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import amanda
from amanda.graph import Graph
from amanda.testing import ToolSample

ROOT = Path(__file__).resolve().parents[3]
DIGITS = ROOT / "examples" / "digits" / "digits.onnx"
NAMESPACES = ("onnx", "tensorflow", "torch")
BACKENDS = ("numpy", "jax", "onnxruntime")


@cache
def _digits(namespace: str) -> Graph:
    graph = amanda.load(DIGITS)
    return graph if namespace == "onnx" else amanda.convert(graph, namespace)


def digits(namespace: str = "onnx") -> Graph:
    """The network that reads digits, as a graph of a framework."""
    return _digits(namespace).clone()


def images(count: int = 4) -> np.ndarray[Any, Any]:
    """The first images of the data set that the network was trained on."""
    data = np.load(ROOT / "examples" / "digits" / "digits.npz")
    return data["images"][:count].reshape(count, 1, 8, 8).astype("float32")


def samples() -> dict[str, Any]:
    """Samples for a `ToolSuite`, one of each namespace."""

    def sample(namespace: str) -> ToolSample:
        return ToolSample(digits(namespace), [images()])

    return {name: (lambda name=name: sample(name)) for name in NAMESPACES}
