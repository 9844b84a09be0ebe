"""How digits.onnx came about: a small network for 8 x 8 handwritten digits.

    python examples/digits/train.py DIGITS.csv.gz

The data is the test part of "Optical Recognition of Handwritten Digits" (E. Alpaydin
and C. Kaynak, UCI Machine Learning Repository, CC BY 4.0) as scikit-learn ships it.
Needs torch and onnx; what uses the model needs neither.
"""

# mypy: ignore-errors
# torch has no types for half of what is used here

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

HERE = Path(__file__).resolve().parent
HELD_BACK, SHIPPED = 360, 20


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(16 * 4 * 4, 32), nn.ReLU(), nn.Linear(32, 10),
        nn.Softmax(dim=1),
    )  # fmt: skip


def main(source: str) -> None:
    torch.manual_seed(0)
    rows = np.loadtxt(source, delimiter=",", dtype=np.float32)
    images = torch.from_numpy(rows[:, :64].reshape(-1, 1, 8, 8) / 16)
    labels = torch.from_numpy(rows[:, 64].astype(np.int64))
    order = torch.randperm(len(images))
    train, test = order[HELD_BACK:], order[:HELD_BACK]
    model = network()
    steps = torch.optim.Adam(model.parameters(), lr=2e-3)
    for _ in range(40):
        for part in train[torch.randperm(len(train))].split(64):
            steps.zero_grad()
            chances = model(images[part])
            nn.functional.nll_loss(torch.log(chances + 1e-9), labels[part]).backward()
            steps.step()
    model.eval()
    right = (model(images[test]).argmax(1) == labels[test]).float().mean().item()
    print(f"{right:.1%} of {HELD_BACK} digits that were held back are read right")
    torch.onnx.export(
        model, (images[:2],), HERE / "digits.onnx", dynamo=False, opset_version=17,
        input_names=["images"], output_names=["chances"],
        dynamic_axes={"images": {0: "batch"}, "chances": {0: "batch"}},
    )  # fmt: skip
    some = test[:SHIPPED]
    np.savez_compressed(
        HERE / "digits.npz",
        images=images[some].numpy(),
        labels=labels[some].numpy(),
        chances=model(images[some]).detach().numpy(),
    )


if __name__ == "__main__":
    main(sys.argv[1])
