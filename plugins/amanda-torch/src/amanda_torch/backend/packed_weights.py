"""Layers with constant weights on a CPU, which MKL or oneDNN reads packed.

A weight is packed in the first call, into the layout of its library. Calls that need
gradients, and products with another number of rows, read the weight as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, Final, Literal, NamedTuple

import torch

from amanda.graph import Op, OutputPort
from amanda.types import DType, TensorType
from amanda_std.backends import UnscheduledStep, op_arguments
from amanda_torch.backend.kernels.windows import conv, permute_to_channels_first

__all__ = ["bind_packed", "fuse_into_convolutions", "is_packed_product"]

_FLOAT: Final = DType("float32")
Library = Literal["mkl", "onednn"]


class _Packed(NamedTuple):
    """A weight in the layout of a library."""

    source: Any
    """The tensor that was packed."""
    weight: Any
    rows: int = 0


class PackedProduct:
    """`x @ weight + bias` by oneDNN, or by MKL, equal to the last bit."""

    def __init__(self, plain: Callable[..., Any], library: Library) -> None:
        self._plain = plain
        self._library = library
        self._packed: _Packed | None = None

    def __call__(self, x: Any, weight: Any, *bias: Any) -> Any:
        rows = x.numel() // x.shape[-1] if x.numel() else 0
        if not rows or _needs_gradient(x, *bias):
            return self._plain(x, weight, *bias)
        packed = self._packed
        if packed is None or packed.source is not weight:
            packed = self._packed = _pack_factor(weight, rows, self._library)
        if packed.rows != rows:
            return self._plain(x, weight, *bias)
        added = bias[0] if bias else None
        if self._library == "onednn":
            call = torch.ops.mkldnn._linear_pointwise
            return call(x, packed.weight, added, "none", [], "")
        return torch.ops.mkl._mkl_linear(x, packed.weight, weight.mT, added, rows)


def _pack_factor(weight: Any, rows: int, library: Library) -> _Packed:
    transposed = weight.detach().mT.contiguous()
    if library == "onednn":
        packed = torch.ops.mkldnn._reorder_linear_weight(transposed, rows)
    else:
        packed = torch.ops.mkl._mkl_reorder_linear_weight(transposed, rows)
    return _Packed(weight, packed, rows)


@cache
def find_product_library() -> Library | None:
    """The library that packs factors of products on this CPU.

    MKL has kernels for AVX-512 on processors of Intel alone: on those of AMD oneDNN is
    1.2 to 2 times as fast, and the result differs by rounding."""
    mkl, mkldnn = torch.backends.mkl, torch.backends.mkldnn
    name = str(torch.cpu.get_capabilities().get("cpu_name", ""))
    if mkl.is_available() and "Intel" in name:
        return "mkl"
    if mkldnn.is_available() and mkldnn.enabled:
        return "onednn"
    return "mkl" if mkl.is_available() else None


class PackedConvolution:
    """A convolution by oneDNN with channels last in memory, then a sum, then ReLU."""

    def __init__(
        self, attrs: Mapping[str, Any], *, adds: bool = False, rectifies: bool = False
    ) -> None:
        self.attrs = attrs
        self.adds = adds
        """Whether the last argument is added to the result."""
        self.rectifies = rectifies
        self._packed: _Packed | None = None

    def __call__(self, x: Any, weight: Any, bias: Any = None, *added: Any) -> Any:
        if not x.numel() or _needs_gradient(x, bias, *added):
            y = sum(added, conv(x, weight, bias, **self.attrs))
            return torch.relu(y) if self.rectifies else y
        layout = self.attrs["layout"]
        beside = [permute_to_channels_first(each, layout) for each in added]
        convolve = partial(self._convolve, weight, beside)
        y = conv(x, weight, bias, convolve=convolve, **self.attrs)
        return torch.relu_(y) if self.rectifies else y  # that of oneDNN drops NaN

    def _convolve(
        self, source: Any, added: Sequence[Any], x: Any, weight: Any, bias: Any,
        strides: Any, pads: Any, dilations: Any, groups: int,
    ) -> Any:  # fmt: skip
        x = x.contiguous(memory_format=torch.channels_last)
        geometry = (pads, strides, dilations, groups)
        packed = self._packed
        if packed is None or packed.source is not source:
            pack = torch.ops.mkldnn._reorder_convolution_weight
            packed = _Packed(source, pack(weight.detach(), *geometry, [*x.shape]))
            self._packed = packed
        call = torch.ops.mkldnn._convolution_pointwise
        if not added:
            return call(x, packed.weight, bias, *geometry, "none", [], "")
        beside = added[0].contiguous(memory_format=torch.channels_last)
        return call.binary(
            x, beside, packed.weight, bias, *geometry, "add", 1.0, None, [], None
        )


def _needs_gradient(*values: Any) -> bool:
    if not torch.is_grad_enabled():
        return False
    return any(value is not None and value.requires_grad for value in values)


# -- which ops -------------------------------------------------------------------------


def bind_packed(op: Op, call: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel of an op on a CPU, with a packed weight if that is constant."""
    library = find_product_library()
    if library is not None and is_packed_product(op):
        return PackedProduct(call, library)
    if _is_packed_convolution(op):
        return PackedConvolution(op_arguments(op, lambda port: port)[1])
    return call


def is_packed_product(op: Op) -> bool:
    """Whether a library computes an op with a packed second factor."""
    if op.type not in ("linear", "matmul") or find_product_library() is None:
        return False
    x, weight, bias = _operands(op)
    if x is None or x.shape.rank < 2 or not _is_constant_weight(op, 2):
        return False
    sizes = weight.shape[1:] if weight is not None else None
    return len(op.inputs) < 3 or (bias is not None and bias.shape == sizes)


def _is_packed_convolution(op: Op) -> bool:
    mkldnn = torch.backends.mkldnn
    if op.type != "conv" or not (mkldnn.is_available() and mkldnn.enabled):
        return False
    x, _, bias = _operands(op)
    has_bias = len(op.inputs) > 2 and op.inputs[2] is not None
    if x is None or x.shape.rank != 4 or not _is_constant_weight(op, 4):
        return False
    return not has_bias or (bias is not None and bias.shape.rank == 1)


def _operands(op: Op) -> list[TensorType | None]:
    """The types of the first three inputs, those that are float32 and of known rank."""
    ports = [*op.inputs, None, None][:3]
    return [None if port is None else _float_type(port) for port in ports]


def _float_type(port: OutputPort) -> TensorType | None:
    type_ = port.type
    if not isinstance(type_, TensorType) or type_.dtype != _FLOAT:
        return None
    return type_ if type_.shape.has_rank else None


def _is_constant_weight(op: Op, rank: int) -> bool:
    weight = op.inputs[1]
    if weight is None or not weight.op.is_constant:
        return False
    tensor = weight.op.attrs["value"]
    return tensor.dtype == _FLOAT and len(tensor.shape) == rank and tensor.size > 0


# -- what convolutions compute as well -------------------------------------------------


def fuse_into_convolutions(
    rows: Sequence[UnscheduledStep], results: Sequence[int]
) -> list[UnscheduledStep]:
    """Steps in which convolutions compute a sum and a ReLU of theirs, too."""
    uses: dict[int, int] = dict.fromkeys(results, 2)  # results are kept
    for row in rows:
        for place in row.ins:
            uses[place] = uses.get(place, 0) + 1
    made: dict[int, UnscheduledStep] = {}
    """The steps so far, by the slot of their first result."""
    for i, row in enumerate(rows):
        fused = _fuse_step(row, made, uses)
        if fused is not None:
            source, row = fused
            del made[source]
        made[row.outs[0] if row.outs else -1 - i] = row
    return [*made.values()]


def _fuse_step(
    row: UnscheduledStep, made: Mapping[int, UnscheduledStep], uses: Mapping[int, int]
) -> tuple[int, UnscheduledStep] | None:
    """A step merged with that of a convolution whose result it alone reads."""
    if row.op.type not in ("relu", "add") or not row.ins:
        return None
    for place in reversed(row.ins):
        source = made.get(place)
        call = None if source is None else source.call
        if not isinstance(call, PackedConvolution) or uses[place] != 1:
            continue
        assert source is not None
        if call.rectifies:
            continue
        ins = [*source.ins]
        if row.op.type == "relu":
            fused = PackedConvolution(call.attrs, adds=call.adds, rectifies=True)
        elif not call.adds and _adds_equal_types(row.op):
            fused = PackedConvolution(call.attrs, adds=True)
            ins += [other for other in row.ins if other != place]
        else:
            continue
        return place, row._replace(call=fused, ins=ins)
    return None


def _adds_equal_types(op: Op) -> bool:
    first, second = (_float_type(port) for port in op.inputs if port is not None)
    if first is None or second is None or not first.shape.is_static:
        return False
    return first.shape == second.shape
