"""Programs that torchao quantizes, with their inputs and outputs.

    python -m amanda_torch_conformance.making.quantized_programs FOLDER

Weights and activations are quantized by the quantizers of `pt2e`, for each tensor or
channel, with scales that are known or computed in the program; or weights only, for
each channel or group, by `quantize_`. In FOLDER, `NAME.pt2` has a program and
`NAME.npz` its input `x` and output `y`.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import nn

__all__ = ["QUANTIZED", "make_quantized_files"]

_PT2E: Final = "torchao.quantization.pt2e"
_CALIBRATIONS: Final = 4


class Convolutions(nn.Module):  # type: ignore[misc,unused-ignore]
    """A convolution, normalization, pooling and a layer."""

    shape = (2, 3, 8, 8)

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.last = nn.Linear(32, 5)

    def forward(self, x: torch.Tensor) -> Any:
        y = nn.functional.avg_pool2d(torch.relu(self.norm(self.conv(x))), 4)
        return self.last(y.flatten(1))


class Layers(nn.Module):  # type: ignore[misc,unused-ignore]
    """Two fully connected layers."""

    shape = (4, 16)

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(16, 32)
        self.last = nn.Linear(32, 8)

    def forward(self, x: torch.Tensor) -> Any:
        return self.last(nn.functional.gelu(self.first(x)))


def _x86(**options: Any) -> Any:
    module = import_module(f"{_PT2E}.quantizer.x86_inductor_quantizer")
    config = module.get_default_x86_inductor_quantization_config(**options)
    return module.X86InductorQuantizer().set_global(config)


def _xnnpack(**options: Any) -> Any:
    module = import_module("torchao.testing.pt2e._xnnpack_quantizer")
    config = module.get_symmetric_quantization_config(**options)
    return module.XNNPACKQuantizer().set_global(config)


def _prepare_program(
    kind: Any, quantizer: Callable[..., Any], **options: Any
) -> Callable[[], Any]:
    """A program that a quantizer has annotated, calibrated by random inputs."""

    def make() -> Any:
        pt2e = import_module(f"{_PT2E}.quantize_pt2e")
        x = torch.randn(kind.shape)
        program = torch.export.export(kind().eval(), (x,))
        module = pt2e.prepare_pt2e(program.module(), quantizer(**options))
        for _ in range(_CALIBRATIONS):
            module(torch.randn(kind.shape))
        module = pt2e.convert_pt2e(module)
        return module, x, torch.export.export(module, (x,))

    return make


def _weights(name: str, **options: Any) -> Callable[[], Any]:
    """A program whose weights, and maybe rows of data, a config quantizes."""

    def make() -> Any:
        torchao = import_module("torchao.quantization")
        given = dict(options)
        for key in [key for key in given if key.endswith("granularity")]:
            given[key] = torchao.PerGroup(given[key])
        module = Layers().eval()
        torchao.quantize_(module, getattr(torchao, name)(**given))
        x = torch.randn(Layers.shape)
        program = torch.export.export(module, (x,))
        return module, x, program.run_decompositions({})

    return make


QUANTIZED: Final[Mapping[str, Callable[[], Any]]] = {
    "x86-static": _prepare_program(Convolutions, _x86),
    "x86-dynamic": _prepare_program(Layers, _x86, is_dynamic=True),
    "xnnpack-channels": _prepare_program(Convolutions, _xnnpack, is_per_channel=True),
    "xnnpack-tensors": _prepare_program(Convolutions, _xnnpack, is_per_channel=False),
    "xnnpack-dynamic": _prepare_program(
        Layers, _xnnpack, is_per_channel=True, is_dynamic=True
    ),
    "int8-weights": _weights("Int8WeightOnlyConfig"),
    "int8-rows": _weights("Int8DynamicActivationInt8WeightConfig"),
    "int4-groups": _weights(
        "IntxWeightOnlyConfig", weight_dtype=torch.int4, granularity=16
    ),
    "int4-groups-int8-rows": _weights(
        "Int8DynamicActivationIntxWeightConfig", weight_dtype=torch.int4,
        weight_granularity=16,
    ),
}  # fmt: skip
"""What makes a module, its input, and its program."""


def make_quantized_files(folder: Path) -> None:
    """Make the files of all programs."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in QUANTIZED.items():
        torch.manual_seed(0)
        module, x, program = make()
        torch.export.save(program, folder / f"{name}.pt2")
        y = module(x).detach().numpy()
        np.savez(folder / f"{name}.npz", x=x.numpy(), y=y)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    make_quantized_files(Path(sys.argv[1]))
