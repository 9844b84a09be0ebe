"""`torch.compile(backend="amanda")` compared with eager PyTorch and with inductor.

    python benchmarks/torch_compile.py [--models A,B] [--variants "A;B"] [--train]

The forward pass of ResNet-50, BERT-base, GPT-2 and ViT-B with random weights, batch 1,
in `torch.no_grad()`. Each round runs all variants, one after another, so that other
load on the machine affects all; times are medians over the rounds. Of two calls of a
variant the second is timed: threads of the variant before may still wait for work
during the first. `default` is Amanda without options; `frozen` variants have the
weights as constants, as inductor has with its own option. With `--train` it is 20
steps of SGD of a small ViT and GPT-2: the time of a step, and how far its losses are
from those of eager.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

ROUNDS = 15
TOKENS = 128
Case = tuple[torch.nn.Module, Any]


def build_resnet() -> Case:
    from transformers import ResNetConfig, ResNetForImageClassification

    return ResNetForImageClassification(ResNetConfig()), torch.randn(1, 3, 224, 224)


def build_vit() -> Case:
    from transformers import ViTConfig, ViTForImageClassification

    return ViTForImageClassification(ViTConfig()), torch.randn(1, 3, 224, 224)


def build_bert() -> Case:
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig()), torch.randint(0, 30000, (1, TOKENS))


def build_gpt2() -> Case:
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(use_cache=False))
    return model, torch.randint(0, 50000, (1, TOKENS))


MODELS: dict[str, Callable[[], Case]] = {
    "ResNet-50": build_resnet,
    "BERT-base": build_bert,
    "GPT-2": build_gpt2,
    "ViT-B": build_vit,
}


def _amanda(backend: str, **more: Any) -> dict[str, Any]:
    return {"backend": "amanda", "options": {"backend": backend, **more}}


VARIANTS: dict[str, dict[str, Any] | None] = {
    "eager": None,
    "inductor": {"backend": "inductor"},
    "inductor, frozen": {"backend": "inductor", "options": {"freezing": True}},
    "default": {"backend": "amanda"},
    "torch, as inputs": _amanda("torch", freeze=False),
    "jax": _amanda("jax"),
    "onnxruntime": _amanda("onnxruntime"),
    "torch, frozen": _amanda("torch", freeze=True),
    "jax, frozen": _amanda("jax", freeze=True),
    "onnxruntime, frozen": _amanda("onnxruntime", freeze=True),
}
"""Arguments of `torch.compile`; the others are backends of Amanda."""


def compile_variant(model: torch.nn.Module, arguments: dict[str, Any] | None) -> Any:
    return model if arguments is None else torch.compile(model, **arguments)


def measure(model: str, variants: list[str], rounds: int) -> dict[str, float]:
    """Seconds of a call, by variant."""
    torch.manual_seed(0)
    torch.compiler.reset()
    module, feed = MODELS[model]()
    module.eval()
    expected = first_tensor(module(feed))
    calls = {}
    for name in variants:
        call = compile_variant(module, VARIANTS[name])
        start = time.perf_counter()
        error = (first_tensor(call(feed)) - expected).abs().max()
        seconds = time.perf_counter() - start
        print(f"  {name}: first call {seconds:.1f} s, error {error:.1e}", flush=True)
        call(feed)
        calls[name] = call
    times: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(rounds):
        for name, call in calls.items():
            call(feed)  # until the threads of the variant before have come to rest
            start = time.perf_counter()
            call(feed)
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(each) for name, each in times.items()}


def build_small_vit() -> Case:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=192, num_hidden_layers=6, num_attention_heads=3,
        intermediate_size=768, image_size=64, patch_size=8, num_labels=10,
    )  # fmt: skip
    return ViTForImageClassification(config), torch.randn(8, 3, 64, 64)


def build_small_gpt2() -> Case:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        n_embd=256, n_layer=6, n_head=4, vocab_size=4000, use_cache=False,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    )  # fmt: skip
    return GPT2LMHeadModel(config), torch.randint(0, 4000, (4, 64))


TRAINED: dict[str, Callable[[], Case]] = {
    "small ViT": build_small_vit,
    "small GPT-2": build_small_gpt2,
}
STEPS = 20


def measure_training(model: str, variants: list[str]) -> dict[str, float]:
    """Seconds of a step of SGD, by variant; steps take turns."""
    torch.compiler.reset()
    steps = {}
    for name in variants:
        torch.manual_seed(0)
        module, feed = TRAINED[model]()
        steps[name] = make_step(module.train(), feed, VARIANTS[name])
    losses: dict[str, list[float]] = {name: [] for name in variants}
    times: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(STEPS):
        for name, step in steps.items():
            start = time.perf_counter()
            losses[name].append(step())
            times[name].append(time.perf_counter() - start)
    for name, found in losses.items():
        rows = zip(found, losses[variants[0]], strict=True)
        apart = max(abs(a - b) for a, b in rows)
        print(f"  {name}: loss {found[0]:.5f} to {found[-1]:.5f}, apart {apart:.1e}")
    return {name: statistics.median(each) for name, each in times.items()}


def make_step(
    module: torch.nn.Module, feed: Any, arguments: dict[str, Any] | None
) -> Callable[[], float]:
    """A function that trains for one step, and returns the loss."""
    call = compile_variant(module, arguments)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)

    def step() -> float:
        optimizer.zero_grad()
        logits = first_tensor(call(feed))
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, -2), torch.arange(logits[..., 0].numel()) % 10
        )
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return step


def first_tensor(result: Any) -> Any:
    """The logits, or the hidden states, of a model of transformers."""
    return result[0] if not isinstance(result, torch.Tensor) else result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--models", help="split by commas")
    parser.add_argument("--variants", help="split by semicolons")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    torch._dynamo.config.recompile_limit = 2 * len(VARIANTS)
    known = [name for name in VARIANTS if not (given.train and "frozen" in name)]
    variants = given.variants.split(";") if given.variants else known
    models = (
        given.models.split(",") if given.models else TRAINED if given.train else MODELS
    )
    for model in models:
        print(model)
        if given.train:
            show(measure_training(model, variants))
        else:
            with torch.no_grad():
                show(measure(model, variants, given.rounds))


def show(found: dict[str, float]) -> None:
    for name, seconds in found.items():
        ratios = [
            f"{seconds / found[other]:.2f} of {other}"
            for other in ("eager", "inductor") if other in found
        ]  # fmt: skip
        print(f"  {name:20} {seconds * 1e3:8.1f} ms  {', '.join(ratios)}", flush=True)


if __name__ == "__main__":
    main()
