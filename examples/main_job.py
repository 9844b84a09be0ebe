"""Load, inspect, validate, convert, run and compare a small real model.

    python examples/main_job.py [FOLDER]

The model classifies handwritten digits; examples/digits/train.py trained it with
PyTorch, whose results are stored with it as the reference for every backend.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

import amanda
import amanda.files.text.readable as readable
from amanda.dictionary import Dictionary

DIGITS = Path(__file__).resolve().parent / "digits"
BACKENDS = ("numpy", "jax", "onnxruntime")
TOLERANCE = 1e-4


def main(folder: Path) -> int:
    graph = amanda.load(DIGITS / "digits.onnx")
    print(readable.dumps(graph, abbreviate=True))
    dictionary = Dictionary.of(amanda.namespace("onnx@17"))
    assert dictionary is not None
    faults = dictionary.validate(graph)
    print(f"{len(graph)} ops of {graph.namespace}, {len(faults)} faults\n")

    hub = amanda.convert(graph, "amanda/std/1")
    older = amanda.convert(hub, "onnx@13")
    amanda.save(older, folder / "digits13.onnx")
    print(f"onnx 17 -> {hub.namespace} -> onnx 13: {len(older)} ops\n")

    data = np.load(DIGITS / "digits.npz")
    models = {"original": graph, "as onnx 13": amanda.load(folder / "digits13.onnx")}
    worst = 0.0
    for name, model in models.items():
        for backend in BACKENDS:
            (probabilities,) = amanda.run(
                model, [data["images"]], backend=backend
            ).values()
            error = float(np.max(np.abs(probabilities - data["chances"])))
            correct = int(np.sum(probabilities.argmax(1) == data["labels"]))
            score = f"{correct} of {len(probabilities)} digits correct"
            print(f"{name:11} {backend:12} {score}, {error:.1e} from PyTorch")
            worst = max(worst, error)
    return int(worst > TOLERANCE)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(main(Path(sys.argv[1])))
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(main(Path(folder)))
