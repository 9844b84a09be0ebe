"""Ops of `quantized_decomposed`: quantization in exported programs.

A Python module of PyTorch defines them when a quantizer imports it, so that the
operator registry may lack them. Each row has the releases that introduced and removed a
schema, according to that module in their packages.
"""

from __future__ import annotations

from typing import NamedTuple

from amanda.dictionary import OpDef, version_key
from amanda_dictionaries_dev.torch.releases import parse_schema
from amanda_dictionaries_dev.torch.schemas import op_def_of_row, overload_name

__all__ = ["op_defs_of_quantization"]

_SPACE = "quantized_decomposed"
_RANGE = "int quant_min, int quant_max"
_PER_TENSOR = f"Tensor input, float scale, int zero_point, {_RANGE}, ScalarType dtype"
_OF_TENSORS = (
    f"Tensor input, Tensor scale, Tensor zero_point, {_RANGE}, ScalarType dtype"
)
_OF_LIMITS = (
    "Tensor input, Tensor scale, Tensor zero_point, Tensor quant_min, "
    "Tensor quant_max, ScalarType dtype"
)
_PER_CHANNEL = (
    f"Tensor input, Tensor scales, Tensor zero_points, int axis, {_RANGE}, "
    "ScalarType dtype"
)
_PER_TOKEN = (
    f"Tensor input, Tensor scales, Tensor zero_points, {_RANGE}, ScalarType dtype"
)
_OUT = "*, ScalarType? out_dtype=None"
_PAIR = "(Tensor, Tensor)"


class _Row(NamedTuple):
    """A schema and the releases that have it, until exclusive."""

    since: str
    until: str | None
    name: str
    arguments: str
    result: str = "Tensor"

    def is_in(self, version: str) -> bool:
        at = version_key(version)
        return version_key(self.since) <= at and (
            self.until is None or at < version_key(self.until)
        )

    def op_def(self) -> OpDef:
        name = overload_name(f"{_SPACE}::{self.name}")
        row = parse_schema(f"{self.name}({self.arguments}) -> {self.result}")
        return op_def_of_row(name, row)


_CHOICE = f"Tensor input, {_RANGE}, float eps, ScalarType dtype"
_OLD_CHOICE = f"Tensor input, {_RANGE}, ScalarType dtype"
_TYPED = "Tensor input, ScalarType dtype"
_ROWS = (
    _Row("2.0.0", None, "quantize_per_tensor", _PER_TENSOR),
    _Row("2.0.0", None, "quantize_per_tensor.tensor", _OF_TENSORS),
    _Row("2.1.0", None, "quantize_per_tensor.tensor2", _OF_LIMITS),
    _Row("2.0.0", "2.4.0", "dequantize_per_tensor", _PER_TENSOR),
    _Row("2.4.0", None, "dequantize_per_tensor", f"{_PER_TENSOR}, {_OUT}"),
    _Row("2.0.0", "2.4.0", "dequantize_per_tensor.tensor", _OF_TENSORS),
    _Row("2.4.0", None, "dequantize_per_tensor.tensor", f"{_OF_TENSORS}, {_OUT}"),
    _Row("2.1.0", "2.4.0", "dequantize_per_tensor.tensor2", _OF_LIMITS),
    _Row("2.4.0", None, "dequantize_per_tensor.tensor2", f"{_OF_LIMITS}, {_OUT}"),
    _Row("2.0.0", None, "quantize_per_channel", _PER_CHANNEL),
    _Row("2.0.0", "2.4.0", "dequantize_per_channel", _PER_CHANNEL),
    _Row(
        "2.4.0", None, "dequantize_per_channel",
        f"Tensor input, Tensor scales, Tensor? zero_points, int axis, {_RANGE}, "
        f"ScalarType dtype, {_OUT}",
    ),
    _Row("2.0.0", "2.1.0", "choose_qparams.tensor", _OLD_CHOICE, _PAIR),
    _Row("2.1.0", None, "choose_qparams.tensor", _CHOICE, _PAIR),
    _Row("2.0.0", "2.1.0", "choose_qparams_symmetric.tensor", _OLD_CHOICE, _PAIR),
    _Row("2.1.0", None, "choose_qparams_symmetric.tensor", _CHOICE, _PAIR),
    _Row("2.3.0", None, "choose_qparams_per_token", _TYPED, _PAIR),
    _Row("2.3.0", None, "choose_qparams_per_token_asymmetric", _TYPED, _PAIR),
    _Row("2.4.0", None, "_choose_qparams_per_token_asymmetric_impl", _TYPED, _PAIR),
    _Row("2.3.0", None, "quantize_per_token", _PER_TOKEN),
    _Row(
        "2.3.0", None, "dequantize_per_token", f"{_PER_TOKEN}, ScalarType output_dtype"
    ),
    _Row(
        "2.3.0", None, "quantize_per_channel_group", f"{_PER_TOKEN}, int group_size"
    ),
    _Row(
        "2.3.0", None, "dequantize_per_channel_group",
        f"Tensor input, Tensor scales, Tensor? zero_points, {_RANGE}, "
        "ScalarType dtype, int group_size, ScalarType output_dtype",
    ),
    _Row(
        "2.3.0", None, "fake_quant_per_channel",
        f"Tensor input, Tensor scales, Tensor zero_points, int axis, {_RANGE}",
    ),
    _Row("2.6.0", None, "convert_element_type.no_fuse", _TYPED),
)  # fmt: skip


def op_defs_of_quantization(version: str) -> list[OpDef]:
    """The definitions that a release has.

    >>> len(op_defs_of_quantization("2.13.0")), op_defs_of_quantization("1.13.0")
    (19, [])
    """
    return [row.op_def() for row in _ROWS if row.is_in(version)]
