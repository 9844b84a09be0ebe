"""Load, inspect, convert, run and compare a small real model.

    python examples/main_job.py [FOLDER]

The model classifies handwritten digits; examples/digits/train.py trained it with
PyTorch, whose results are stored with it as the reference for every backend.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import amanda
from amanda.dictionary import Dictionary

DIGITS = Path(__file__).resolve().parent / "digits"
BACKENDS = ("numpy", "jax", "onnxruntime")
SHOWN = 6  # digits
TOLERANCE = 1e-4

Array = NDArray[np.float32]


def picture(image: Array) -> list[str]:
    """A picture of an image of 8 by 8 in blocks, two rows of it on each line.

    >>> picture(np.eye(8))[0]
    '▀▄      '
    """
    on = np.asarray(image) > 0.4
    return [
        "".join(" ▄▀█"[2 * a + b] for a, b in zip(*rows, strict=True))
        for rows in zip(on[::2], on[1::2], strict=True)
    ]


def show_digits(images: Array, answers: Mapping[str, Sequence[int]]) -> None:
    """Print pictures beside each other, and the answers below each."""
    width = max(map(len, answers))
    for line in zip(*map(picture, images), strict=True):
        print(" " * width, *(f"{part:8}" for part in line), sep="  ")
    for backend, digits in answers.items():
        print(f"{backend:{width}}", *(f"{digit:^8}" for digit in digits), sep="  ")


def main(folder: Path) -> int:
    graph = amanda.load(DIGITS / "digits.onnx")
    dictionary = Dictionary.of(amanda.namespace("onnx@17"))
    assert dictionary is not None
    faults = dictionary.validate(graph)
    print(f"digits.onnx: {len(graph)} ops of {graph.namespace}, {len(faults)} faults")
    hub = amanda.convert(graph, "amanda/std/1")
    older = amanda.convert(hub, "onnx@13")
    amanda.save(older, folder / "digits13.onnx")
    print(f"converted to {hub.namespace} and to {older.namespace}\n")

    data = np.load(DIGITS / "digits.npz")
    models = {"original": graph, "as onnx 13": amanda.load(folder / "digits13.onnx")}
    found: dict[tuple[str, str], Array] = {}
    for name, model in models.items():
        for backend in BACKENDS:
            results = amanda.run(model, [data["images"]], backend=backend)
            (found[name, backend],) = results.values()
    answers = {b: found["original", b].argmax(1)[:SHOWN].tolist() for b in BACKENDS}
    show_digits(data["images"][:SHOWN, 0], answers)
    print(f"\n{'model':11} {'backend':12} {'digits correct':15} error against PyTorch")
    worst = 0.0
    for (name, backend), chances in found.items():
        error = float(np.max(np.abs(chances - data["chances"])))
        correct = int(np.sum(chances.argmax(1) == data["labels"]))
        score = f"{correct} of {len(chances)}"
        print(f"{name:11} {backend:12} {score:15} {error:.1e}")
        worst = max(worst, error)
    return int(worst > TOLERANCE)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(main(Path(sys.argv[1])))
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(main(Path(folder)))
