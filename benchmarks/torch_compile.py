"""`torch.compile(backend="amanda")` compared with eager PyTorch and with inductor.

    python benchmarks/torch_compile.py [--models a,b] [--variants a,b] [--rounds N]

The forward pass of ResNet-50, BERT-base, GPT-2 and ViT-B with random weights, batch 1,
in `torch.no_grad()`. Each round runs all variants, one after another, so that other
load on the machine affects all; times are medians over the rounds. Of two calls of a
variant the second is timed: threads of the variant before may still wait for work during
the first. `frozen` variants have the weights as constants; inductor is shown with its own
option for that too.
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
    "torch": _amanda("torch"),
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


def first_tensor(result: Any) -> Any:
    """The logits, or the hidden states, of a model of transformers."""
    return result[0] if not isinstance(result, torch.Tensor) else result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--variants", default=";".join(VARIANTS), help="split by ;")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    variants = given.variants.split(";")
    torch._dynamo.config.recompile_limit = 2 * len(VARIANTS)
    for model in given.models.split(","):
        print(model)
        with torch.no_grad():
            found = measure(model, variants, given.rounds)
        for name, seconds in found.items():
            ratios = [
                f"{seconds / found[other]:.2f} of {other}"
                for other in ("eager", "inductor") if other in found
            ]  # fmt: skip
            print(f"  {name:20} {seconds * 1e3:8.1f} ms  {', '.join(ratios)}")


if __name__ == "__main__":
    main()
