"""Networks of many kinds in small configurations, for tests of gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

__all__ = ["NETWORKS", "WITH_DYNAMIC_SHAPES", "build_network", "export_network"]


def _transformer(model: str, config: str, **settings: Any) -> Callable[[], Any]:
    """A constructor of a model class of transformers with random weights."""

    def construct() -> Any:
        import transformers

        return getattr(transformers, model)(getattr(transformers, config)(**settings))

    return construct


def _build_lstm() -> Any:
    from torch import nn

    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(30, 16)
            self.lstm = nn.LSTM(16, 12, 2, bidirectional=True, batch_first=True)
            self.head = nn.Linear(24, 7)

        def forward(self, x: Any) -> Any:
            return self.head(self.lstm(self.embedding(x))[0])

    return Tagger()


def _build_gru() -> Any:
    from torch import nn

    class Sequence(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gru = nn.GRU(8, 12, 2, batch_first=True)

        def forward(self, x: Any) -> Any:
            return self.gru(x)[0]

    return Sequence()


def _build_unet() -> Any:
    import torch
    from torch import nn

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Sequential(
                nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.SiLU()
            )
            self.down = nn.Conv2d(8, 16, 3, stride=2, padding=1)
            self.middle = nn.Sequential(
                nn.BatchNorm2d(16), nn.Conv2d(16, 16, 3, padding=2, dilation=2),
                nn.GELU(),
            )  # fmt: skip
            self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
            self.average = nn.AvgPool2d(2)
            self.largest = nn.MaxPool2d(3, stride=1, padding=1)
            self.wider = nn.Upsample(scale_factor=2, mode="bilinear")
            self.head = nn.Conv2d(24, 4, 1)

        def forward(self, x: Any) -> Any:
            first = self.first(x)
            middle = self.middle(self.down(first))
            small = self.wider(self.largest(self.average(first)))
            parts = torch.cat([first, self.up(middle), small], 1)
            return torch.softmax(self.head(parts), 1)

    return UNet()


_TEXT: Final = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2,
                "num_attention_heads": 4, "intermediate_size": 48}  # fmt: skip
_VISION: Final = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
                  "intermediate_size": 64, "num_labels": 5}  # fmt: skip

NETWORKS: Final[Mapping[str, tuple[Callable[[], Any], tuple[int, ...], int | None]]] = {
    "llama": (_transformer("LlamaForCausalLM", "LlamaConfig", use_cache=False,
                           num_key_value_heads=2, **_TEXT), (2, 9), 99),
    "swin": (_transformer("SwinForImageClassification", "SwinConfig", image_size=32,
                          patch_size=2, embed_dim=8, depths=[2, 2], num_heads=[2, 4],
                          window_size=4, num_labels=5), (2, 3, 32, 32), None),
    "mamba": (_transformer("MambaForCausalLM", "MambaConfig", vocab_size=50,
                           hidden_size=16, state_size=4, num_hidden_layers=2,
                           use_cache=False), (2, 6), 50),
    "wav2vec2": (_transformer("Wav2Vec2ForCTC", "Wav2Vec2Config",
                              conv_dim=(16, 16, 16), conv_stride=(5, 2, 2),
                              conv_kernel=(10, 3, 2), num_feat_extract_layers=3,
                              num_conv_pos_embeddings=8,
                              num_conv_pos_embedding_groups=2, **_TEXT),
                 (2, 400), None),
    "LSTM": (_build_lstm, (2, 7), 30),
    "GRU": (_build_gru, (2, 7, 8), None),
    "U-Net": (_build_unet, (2, 3, 16, 16), None),
    "ConvNeXt": (_transformer("ConvNextForImageClassification", "ConvNextConfig",
                              hidden_sizes=[8, 16], depths=[1, 2], num_stages=2,
                              num_labels=5, image_size=32,
                              layer_scale_init_value=0.5), (2, 3, 32, 32), None),
    "MobileNetV2": (_transformer("MobileNetV2ForImageClassification",
                                 "MobileNetV2Config", image_size=32,
                                 depth_multiplier=0.25, num_labels=5),
                    (2, 3, 64, 64), None),
    "T5": (_transformer("T5EncoderModel", "T5Config", vocab_size=50, d_model=32,
                        d_kv=8, d_ff=48, num_layers=2, num_heads=4), (2, 9), 50),
    "SegFormer": (_transformer("SegformerForSemanticSegmentation", "SegformerConfig",
                               num_encoder_blocks=2, depths=[1, 1], sr_ratios=[2, 1],
                               hidden_sizes=[8, 16], patch_sizes=[3, 3],
                               strides=[2, 2], num_attention_heads=[1, 2],
                               mlp_ratios=[2, 2], decoder_hidden_size=16,
                               num_labels=4), (2, 3, 32, 32), None),
    "BERT": (_transformer("BertModel", "BertConfig", **_TEXT), (2, 9), 99),
    "ViT": (_transformer("ViTForImageClassification", "ViTConfig", image_size=32,
                         patch_size=8, **_VISION), (2, 3, 32, 32), None),
    "ResNet": (_transformer("ResNetForImageClassification", "ResNetConfig",
                            embedding_size=8, hidden_sizes=[16, 32], depths=[1, 2],
                            num_labels=5), (2, 3, 32, 32), None),
    "GPT-2": (_transformer("GPT2LMHeadModel", "GPT2Config", vocab_size=99, n_embd=32,
                           n_layer=2, n_head=4, n_positions=64, use_cache=False),
              (2, 9), 99),
}  # fmt: skip
"""Constructor, input shape, and size of the vocabulary where the input is tokens."""

WITH_DYNAMIC_SHAPES: Final = ("llama", "U-Net", "ResNet")


def build_network(name: str) -> tuple[Any, Any]:
    """A module from one tensor to one tensor, and its input.

    Weights are random, also those that PyTorch initializes to 0 or 1. Tokens avoid 0
    and 1, which may be padding: PyTorch gives embeddings of padding no gradient."""
    import torch

    class FirstOutput(torch.nn.Module):
        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Any) -> Any:
            y = self.inner(x)
            if isinstance(y, torch.Tensor):
                return y
            return next(v for v in y.values() if isinstance(v, torch.Tensor))

    construct, shape, vocabulary = NETWORKS[name]
    torch.manual_seed(0)
    module = construct()
    with torch.no_grad():
        for each in module.parameters():
            if each.ndim == 1:
                each += torch.randn_like(each) / 10
    if vocabulary is not None:
        return FirstOutput(module).eval(), torch.randint(2, vocabulary, shape)
    return FirstOutput(module).eval(), torch.randn(shape)


def export_network(module: Any, x: Any, path: Path, *, dynamic: bool) -> None:
    """Export to ONNX as traced: constants and weights stay as PyTorch has them."""
    import torch

    shapes = None
    if dynamic:
        free = [0, 1] if x.ndim == 2 else [0, *range(2, x.ndim)]
        shapes = (dict.fromkeys(free, torch.export.Dim.DYNAMIC),)
    with torch.no_grad():
        program = torch.onnx.export(
            module, (x,), dynamo=True, verbose=False, optimize=False,
            dynamic_shapes=shapes,
        )  # fmt: skip
    assert program is not None
    program.save(path)
