"""Four architectures exported by PyTorch, in full size and in a small configuration.

Weights are random with a fixed seed, including those that PyTorch initializes to 0 or
1, so that a missing bias or scale changes the results. The expected outputs are
PyTorch's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

__all__ = [
    "ARCHITECTURES", "Architecture", "Exported", "build_network", "export",
    "make_input",
]  # fmt: skip


class Architecture(NamedTuple):
    """A model class of transformers, with its configurations and its kind of input."""

    model: str
    config: str
    full: Mapping[str, Any]
    small: Mapping[str, Any]
    length: tuple[int, int] | None = None
    """Number of tokens, full and small; None for image models."""


ARCHITECTURES: Final = {
    "ResNet-50": Architecture(
        "ResNetForImageClassification", "ResNetConfig", {"num_labels": 1000},
        {"embedding_size": 8, "hidden_sizes": [16, 32], "depths": [1, 2],
         "num_labels": 5},
    ),
    "BERT-base": Architecture(
        "BertModel", "BertConfig", {},
        {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2,
         "num_attention_heads": 4, "intermediate_size": 64},
        (128, 9),
    ),
    "ViT-B": Architecture(
        "ViTForImageClassification", "ViTConfig", {"num_labels": 1000},
        {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
         "intermediate_size": 64, "image_size": 32, "patch_size": 8, "num_labels": 5},
    ),
    "GPT-2": Architecture(
        "GPT2LMHeadModel", "GPT2Config", {"use_cache": False},
        {"vocab_size": 99, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64,
         "use_cache": False},
        (64, 9),
    ),
}  # fmt: skip


class Exported(NamedTuple):
    """A model file with its inputs and expected outputs."""

    path: Path
    feeds: dict[str, Any]
    expected: Sequence[Any]


def export(
    name: str, folder: Path, *, small: bool, dynamic: bool = False, batch: int = 2
) -> Exported:
    """Build a network, export it, and run it in PyTorch.

    `dynamic` makes batch and length symbolic, and runs with sizes that differ from
    those of the export.
    """
    import torch

    torch.manual_seed(0)
    architecture = ARCHITECTURES[name]
    module, config = _build_module(architecture, small)
    x = _make_input(architecture, config, batch=batch, small=small)
    shapes: Any = None
    if dynamic:
        dims = {0: torch.export.Dim("batch")}
        if architecture.length is not None:
            dims[1] = torch.export.Dim("length", max=32 if small else 512)
        shapes = (dims,)
    program = torch.onnx.export(
        module, (x,), dynamo=True, verbose=False, input_names=["x"],
        dynamic_shapes=shapes,
    )  # fmt: skip
    assert program is not None
    path = folder / f"{name}.onnx"
    program.save(path)
    if dynamic:
        x = _make_input(architecture, config, batch=3, small=small, extra=4)
    with torch.no_grad():
        expected = [y.numpy() for y in module(x)]
    return Exported(path, {"x": x.numpy()}, expected)


def build_network(name: str, *, small: bool) -> Any:
    """Build the PyTorch module, with the same weights as the export."""
    import torch

    torch.manual_seed(0)
    return _build_module(ARCHITECTURES[name], small)[0]


def _build_module(architecture: Architecture, small: bool) -> tuple[Any, Any]:
    """Return a module from one tensor to a tuple of tensors, and its configuration."""
    import torch
    import transformers

    class TupleOutput(torch.nn.Module):
        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Any) -> Any:
            outputs = self.inner(x).values()
            return tuple(y for y in outputs if isinstance(y, torch.Tensor))

    settings = architecture.small if small else architecture.full
    config = getattr(transformers, architecture.config)(**settings)
    inner = getattr(transformers, architecture.model)(config)
    with torch.no_grad():
        for each in inner.parameters():
            if each.ndim == 1:
                each += torch.randn_like(each) / 10
        for key, each in inner.named_buffers():
            if key.endswith("running_mean"):
                each += torch.randn_like(each) / 10
            if key.endswith("running_var"):
                each += torch.rand_like(each) / 10
    return TupleOutput(inner).eval(), config


def make_input(architecture: Architecture, *, batch: int, small: bool) -> Any:
    """A random input of a network in its full or its small configuration."""
    import transformers

    settings = architecture.small if small else architecture.full
    config = getattr(transformers, architecture.config)(**settings)
    return _make_input(architecture, config, batch=batch, small=small)


def _make_input(
    architecture: Architecture, config: Any, *, batch: int, small: bool, extra: int = 0
) -> Any:
    import torch

    if architecture.length is not None:
        shape = (batch, architecture.length[small] + extra)
        return torch.randint(0, config.vocab_size, shape)
    side = getattr(config, "image_size", 64 if small else 224)
    return torch.randn(batch, 3, side, side)
