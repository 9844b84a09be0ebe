"""The main job on a small real model: load, look, validate, convert, run, compare.

    python examples/main_job.py [FOLDER]

The model reads handwritten digits; examples/digits/train.py made it with PyTorch, whose
own results stand beside it and judge every backend.
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
NEAR = 1e-4


def main(folder: Path) -> int:
    graph = amanda.load(DIGITS / "digits.onnx")
    print(readable.dumps(graph, abbreviate=True))
    words = Dictionary.of(amanda.namespace("onnx@17"))
    assert words is not None
    faults = words.validate(graph)
    print(f"{len(graph)} ops of {graph.namespace}, {len(faults)} faults\n")

    hub = amanda.convert(graph, "amanda/std/1")
    older = amanda.convert(hub, "onnx@13")
    amanda.save(older, folder / "digits13.onnx")
    print(f"onnx 17 -> {hub.namespace} -> onnx 13: {len(older)} ops\n")

    given = np.load(DIGITS / "digits.npz")
    models = {"as it is": graph, "in onnx 13": amanda.load(folder / "digits13.onnx")}
    worst = 0.0
    for name, model in models.items():
        for backend in BACKENDS:
            (chances,) = amanda.run(model, [given["images"]], backend=backend).values()
            far = float(np.max(np.abs(chances - given["chances"])))
            right = int(np.sum(chances.argmax(1) == given["labels"]))
            read = f"{right} of {len(chances)} digits read right"
            print(f"{name:11} {backend:12} {read}, {far:.1e} from PyTorch")
            worst = max(worst, far)
    return int(worst > NEAR)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(main(Path(sys.argv[1])))
    with tempfile.TemporaryDirectory() as made:
        sys.exit(main(Path(made)))
