"""Train digits.onnx: a small network for 8 x 8 handwritten digits.

    python examples/digits/train.py DIGITS.csv.gz

The data is the test part of "Optical Recognition of Handwritten Digits" (E. Alpaydin
and C. Kaynak, UCI Machine Learning Repository, CC BY 4.0) as distributed with
scikit-learn. Needs torch and onnx; users of the model need neither.
"""

# mypy: ignore-errors
# torch lacks types for much of what is used here

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

HERE = Path(__file__).resolve().parent
TEST_COUNT, SHIPPED = 360, 20


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
    train, test = order[TEST_COUNT:], order[:TEST_COUNT]
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for _ in range(40):
        for batch in train[torch.randperm(len(train))].split(64):
            optimizer.zero_grad()
            probabilities = model(images[batch])
            nn.functional.nll_loss(
                torch.log(probabilities + 1e-9), labels[batch]
            ).backward()
            optimizer.step()
    model.eval()
    accuracy = (model(images[test]).argmax(1) == labels[test]).float().mean().item()
    print(f"{accuracy:.1%} of {TEST_COUNT} test digits correct")
    torch.onnx.export(
        model, (images[:2],), HERE / "digits.onnx", dynamo=False, opset_version=17,
        input_names=["images"], output_names=["chances"],
        dynamic_axes={"images": {0: "batch"}, "chances": {0: "batch"}},
    )  # fmt: skip
    shipped = test[:SHIPPED]
    np.savez_compressed(
        HERE / "digits.npz",
        images=images[shipped].numpy(),
        labels=labels[shipped].numpy(),
        chances=model(images[shipped]).detach().numpy(),
    )


if __name__ == "__main__":
    main(sys.argv[1])
