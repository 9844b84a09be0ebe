"""Whole models: exported, read without PyTorch's help, right on every backend."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest

import amanda

torch = pytest.importorskip("torch", reason="makes the models")
transformers = pytest.importorskip("transformers", reason="has the models")

BACKENDS = ["numpy", "jax", "onnxruntime"]


class Block(torch.nn.Module):
    """A residual block with writes in place."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        nn = torch.nn
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm = nn.BatchNorm2d(outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1)
        self.short = nn.Conv2d(inputs, outputs, 1, stride)

    def forward(self, x):
        y = self.second(torch.relu_(self.norm(self.first(x))))
        y += self.short(x)
        return torch.relu_(y)


def resnet():
    nn = torch.nn
    model = nn.Sequential(
        nn.Conv2d(3, 8, 7, 2, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1), Block(8, 8, 1), Block(8, 16, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10),
    )  # fmt: skip
    return model, [], torch.randn(2, 3, 64, 64)


SIZES = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 32,
         "intermediate_size": 64}  # fmt: skip


def bert():
    config = transformers.BertConfig(vocab_size=99, **SIZES)
    ids, mask = torch.randint(0, 99, (2, 7)), torch.ones(2, 7, dtype=torch.long)
    return transformers.BertModel(config), ["input_ids", "attention_mask"], ids, mask


def gpt2():
    config = transformers.GPT2Config(
        n_embd=32, n_layer=2, n_head=4, vocab_size=99, n_positions=64, use_cache=False
    )
    model = transformers.GPT2LMHeadModel(config)
    return model, ["input_ids"], torch.randint(0, 99, (2, 7))


def vit():
    config = transformers.ViTConfig(image_size=32, patch_size=8, **SIZES)
    model = transformers.ViTModel(config)
    return model, ["pixel_values"], torch.randn(2, 3, 32, 32)


class Call(torch.nn.Module):
    """A model with arguments by position, whose results are tensors."""

    def __init__(self, model, names):
        super().__init__()
        self.model = model
        self.names = names

    def forward(self, *args):
        if not self.names:
            return (self.model(*args),)
        found = self.model(**dict(zip(self.names, args, strict=True)))
        return tuple(v for v in found.to_tuple() if isinstance(v, torch.Tensor))


def exported(make, path, *, dynamic):
    torch.manual_seed(1)
    model, names, *args = make()
    call = Call(copy.deepcopy(model).eval(), names)
    shapes = None
    if dynamic:
        batch = torch.export.Dim("batch", min=2, max=64)
        shapes = (tuple({0: batch} for _ in args),)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(
            call, tuple(args), dynamic_shapes=shapes, strict=False
        )
        torch.export.save(program, path)
    return call, args


@pytest.mark.most_cases(2)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("make", [resnet, bert, gpt2, vit])
def test_models(make, dynamic, tmp_path):
    call, args = exported(make, tmp_path / "model.pt2", dynamic=dynamic)
    graph = amanda.load(tmp_path / "model.pt2")
    names = [port.name for port in graph.parameters]
    for backend in BACKENDS:
        run = amanda.compile(graph, backend)
        for more in (0, 1) if dynamic else (0,):
            fed = [torch.cat([a, a[:more]]) for a in args]
            with torch.no_grad():
                wanted = call(*fed)
            feeds = {n: a.numpy() for n, a in zip(names, fed, strict=True)}
            found = list(run(feeds).values())
            assert len(found) == len(wanted)
            for have, want in zip(found, wanted, strict=True):
                np.testing.assert_allclose(have, want.numpy(), rtol=1e-4, atol=1e-4)
