"""Files of four networks in several formats: the models in which faults are planted.

ResNet-50, BERT-base and GPT-2 are exported by PyTorch with random weights; parts of
them are rounded to float16, so that there are casts that matter. The fourth is an ONNX
model with a loop whose body has a conditional.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

__all__ = ["FORMS", "LOOP", "NETWORKS", "Network", "make_file", "make_network"]

LOOP: Final = "If and Loop"
NETWORKS: Final = ("ResNet-50", "BERT-base", "GPT-2", LOOP)
FORMS: Final = {
    "pt2": ("", "{}.pt2", ""),
    "onnx": ("", "{}.onnx", ""),
    "onnx of pt2": ("pt2", "{}.of_pt2.onnx", "amanda/onnx/18"),
    "pt2 of onnx": ("onnx", "{}.of_onnx.pt2", "torch"),
    "std of pt2": ("pt2", "{}.of_pt2.amanda", "amanda/std/1"),
    "std of onnx": ("onnx", "{}.of_onnx.amanda", "amanda/std/1"),
    "SavedModel of pt2": ("pt2", "{} of_pt2", "tensorflow"),
    "SavedModel of onnx": ("onnx", "{} of_onnx", "tensorflow"),
}
"""The form that Amanda converts, the name of the file, and the namespace of it; the
first two are written by PyTorch and onnx."""
ROUNDED: Final = {
    "ResNet-50": "ResNetBottleNeckLayer",
    "BERT-base": "BertOutput",
    "GPT-2": "GPT2MLP",
}
"""Modules whose outputs are rounded to float16."""


class Network(NamedTuple):
    """A network in a folder, with what it is fed."""

    name: str
    folder: Path
    feeds: list[Any]

    def file(self, form: str) -> Path:
        """The file of a form, which is made where it is missing."""
        return make_file(self.name, form, self.folder)


def make_network(name: str, folder: Path, *, small: bool) -> Network:
    """Make the files of a network that PyTorch and onnx write, if they are missing."""
    feeds = folder / f"{name}.npz"
    if not feeds.exists():
        folder.mkdir(parents=True, exist_ok=True)
        found = _loop(folder, small) if name == LOOP else _export(name, folder, small)
        np.savez(feeds, *found)
    with np.load(feeds) as arrays:
        return Network(name, folder, list(arrays.values()))


def make_file(name: str, form: str, folder: Path) -> Path:
    """The file of a network in a form; converted from another, if it is missing."""
    import amanda

    source, pattern, namespace = FORMS[form]
    file = folder / pattern.format(name)
    if not file.exists():
        graph = amanda.load(make_file(name, source, folder))
        amanda.save(amanda.convert(graph, namespace), file, format_of(form))
    return file


def format_of(form: str) -> str | None:
    """The format that has no suffix to find it by."""
    return "tensorflow" if form.startswith("SavedModel") else None


def _export(name: str, folder: Path, small: bool) -> list[Any]:
    """Write a network as an exported program and as ONNX; returns its feeds."""
    import torch
    from models.architectures import ARCHITECTURES, build_network, make_input

    module = build_network(name, small=small)
    for each in module.modules():
        if type(each).__name__ == ROUNDED[name]:
            each.register_forward_hook(lambda _m, _x, y: y.half().float())
    if name == "ResNet-50":
        module = torch.nn.Sequential(module, _probabilities()).eval()
    x = make_input(ARCHITECTURES[name], small=small, batch=2 if small else 1)
    torch.export.save(torch.export.export(module, (x,)), folder / f"{name}.pt2")
    program = torch.onnx.export(
        module, (x,), dynamo=True, verbose=False, input_names=["x"]
    )
    assert program is not None
    program.save(folder / f"{name}.onnx")
    return [x.numpy()]


def _probabilities() -> Any:
    """A module that adds the softmax of the first output of a network."""
    import torch

    class Probabilities(torch.nn.Module):
        def forward(self, outputs: Any) -> Any:
            return outputs[0], outputs[0].softmax(-1)

    return Probabilities()


def _loop(folder: Path, small: bool) -> list[Any]:
    """Write a recurrent network as ONNX; returns its feeds."""
    import onnx

    from planted_faults.loop import build_loop

    model = build_loop(width=8 if small else 512, steps=4 if small else 12)
    onnx.save(model, folder / f"{LOOP}.onnx")
    shape = [each.dim_value for each in model.graph.input[0].type.tensor_type.shape.dim]
    return [np.random.default_rng(1).normal(size=shape).astype("float32")]
