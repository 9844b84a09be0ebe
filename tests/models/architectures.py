"""Four networks as PyTorch exports them: full size, and the same in small.

Their weights are random, from a fixed seed, and so are those that PyTorch would begin
with at 0 or 1: what forgets a bias gives other numbers. What has to come out is what
PyTorch computes itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

__all__ = ["ARCHITECTURES", "Architecture", "Exported", "exported", "network"]


class Architecture(NamedTuple):
    """A class of transformers, what makes it small, and what it is fed."""

    model: str
    config: str
    full: Mapping[str, Any]
    small: Mapping[str, Any]
    length: tuple[int, int] | None = None
    """Tokens, in full and in small; without it, it is fed images."""


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
    """A model in a file, with what goes in and what has to come out."""

    path: Path
    feeds: dict[str, Any]
    expected: Sequence[Any]


def exported(
    name: str, folder: Path, *, small: bool, dynamic: bool = False, batch: int = 2
) -> Exported:
    """Make a network, export it, and run it where it comes from.

    `dynamic` leaves batch and length open, and runs with others than were exported.
    """
    import torch

    torch.manual_seed(0)
    chosen = ARCHITECTURES[name]
    module, config = _module(chosen, small)
    x = _input(chosen, config, batch=batch, small=small)
    shapes: Any = None
    if dynamic:
        dims = {0: torch.export.Dim("batch")}
        if chosen.length is not None:
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
        x = _input(chosen, config, batch=3, small=small, longer=4)
    with torch.no_grad():
        expected = [y.numpy() for y in module(x)]
    return Exported(path, {"x": x.numpy()}, expected)


def network(name: str, *, small: bool) -> Any:
    """The network itself, with the weights that are exported."""
    import torch

    torch.manual_seed(0)
    return _module(ARCHITECTURES[name], small)[0]


def _module(chosen: Architecture, small: bool) -> tuple[Any, Any]:
    """The network, called with one tensor and giving a tuple of them; its settings."""
    import torch
    import transformers

    class Plain(torch.nn.Module):
        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Any) -> Any:
            found = self.inner(x).values()
            return tuple(y for y in found if isinstance(y, torch.Tensor))

    settings = chosen.small if small else chosen.full
    config = getattr(transformers, chosen.config)(**settings)
    inner = getattr(transformers, chosen.model)(config)
    with torch.no_grad():
        for each in inner.parameters():
            if each.ndim == 1:
                each += torch.randn_like(each) / 10
        for key, each in inner.named_buffers():
            if key.endswith("running_mean"):
                each += torch.randn_like(each) / 10
            if key.endswith("running_var"):
                each += torch.rand_like(each) / 10
    return Plain(inner).eval(), config


def _input(
    chosen: Architecture, config: Any, *, batch: int, small: bool, longer: int = 0
) -> Any:
    import torch

    if chosen.length is not None:
        shape = (batch, chosen.length[small] + longer)
        return torch.randint(0, config.vocab_size, shape)
    side = getattr(config, "image_size", 64 if small else 224)
    return torch.randn(batch, 3, side, side)
