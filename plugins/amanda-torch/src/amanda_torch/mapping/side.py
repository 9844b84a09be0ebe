"""PyTorch as one side of mappings: a side for each version of its ops.

Programs are functionalized before they are read: writes become values. Those that are
written get parameters for constants, and types of all values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from amanda import namespace
from amanda.dictionary import CallLayout, add_constant
from amanda.graph import Graph, Op, OutputPort, ScopeTable
from amanda.mapping import REQUIRED, Decline, PlainSide, Signature
from amanda.types import DType, TensorType, Type
from amanda_torch.codes import DTYPES

__all__ = ["TorchSide", "torch_side"]


class TorchSide(PlainSide):
    """One version of PyTorch's ops, to be written."""

    def build(
        self, graph: Graph, type: str, args: Sequence[Any], attrs: Mapping[str, Any],
        *, outputs: int = 1, name: str | None = None,
        bodies: Mapping[str, Graph] | None = None,
    ) -> tuple[OutputPort, ...]:  # fmt: skip
        """The outputs of a new op. `args` are those of the ports, and lists for ports
        of several; a number in the place of a tensor, and values among numbers, are
        where `CallLayout` has them."""
        layout = _layout_of(self.name, type)
        for value in attrs.values():
            if isinstance(value, DType) and value not in DTYPES.codes:
                raise Decline(f"PyTorch has no element type {value}")
        arguments = dict(zip(layout.ports, _bind(graph, layout, args), strict=False))
        arguments |= {**attrs, **(bodies or {})}
        found = layout.inputs(arguments)
        op = graph.add(
            type, found.values, found.attrs, name=name, outputs=outputs,
            bodies=found.bodies or None,
        )  # fmt: skip
        ports = op.input_ports if found.names else []
        for place, label in found.names.items():
            ports[place].set_name(label)
        return op.outputs

    def parameter_types(
        self, op: Op, inputs: Sequence[Type | None]
    ) -> Sequence[Type | None]:
        """The types of a body's parameters.

        Loops keep those of their variables but not the content of the first ones; the
        rows of a scan have those that the program records.
        """
        if op.type == "higher_order.cond":
            return inputs[1:]
        if op.type == "higher_order.scan":
            return [port.type for port in op.bodies["combine_fn"].parameters]
        return [_without_content(type) for type in inputs]

    def prepare(self, graph: Graph) -> Graph:
        """A functionalized copy, in which ops that have no effect are left out."""
        from amanda_torch.mapping.functionalization import functionalize

        return functionalize(graph)

    def scopes(self, graph: Graph) -> ScopeTable:
        """The modules and source lines of the ops of a program."""
        from amanda_torch.scopes import scopes_of_program

        return scopes_of_program(graph)

    def finish(self, graph: Graph, source: Graph) -> None:
        """Make constants parameters and constants of PyTorch, and add all types."""
        from amanda_torch.mapping.written_programs import finish_program

        del source
        finish_program(graph)


@cache
def _layout_of(name: str, type: str) -> CallLayout:
    dictionary: Any = namespace(name, assume=True)
    op_def = dictionary.get(type)
    if op_def is None:
        raise Decline(f"{name} has no op {type}")
    return CallLayout(op_def)


def _bind(graph: Graph, layout: CallLayout, args: Sequence[Any]) -> list[Any]:
    """Arguments by port: arrays are constants, and the rest of a list is one."""
    values = [_as_operand(graph, value) for value in args]
    if len(layout.ports) == 1 and layout.variadic and not isinstance(args[0], list):
        return [values]
    return values


def _as_operand(graph: Graph, value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_as_operand(graph, item) for item in value]
    if value is None or isinstance(value, OutputPort | bool | int | float | complex):
        return value
    port = add_constant(graph, value)
    port.type = port.op.attrs["value"].type_with_content()
    return port


def _without_content(type: Type | None) -> Type | None:
    return TensorType(type.dtype, type.shape) if isinstance(type, TensorType) else type


_AFFINE: Final = ("input", "scale", "zero_point")
_LINEAR_LOSS_INPUTS: Final = (
    "input", "linear_weight", "target", "linear_bias", "weight",
)  # fmt: skip
_LINEAR_LOSS_ATTRIBUTES: Final = (
    "linear_bias", "weight", "ignore_index", "batch_chunk_size", "acc_policy",
    "acc_dtype",
)  # fmt: skip
_LIBRARY_OPS: Final = {
    "transformers.grouped_mm_fallback.default": Signature(("input", "weight", "offs")),
    "torchao.quantize_affine.default": Signature(_AFFINE),
    "torchao.dequantize_affine.default": Signature(_AFFINE),
    "torchao.choose_qparams_affine.default": Signature(("input",)),
    "export.access_subclass_inner_tensor.default": Signature(("tensor",)),
    "torch_nn._linear_cross_entropy_batch_chunked.default": Signature(
        _LINEAR_LOSS_INPUTS,
        dict.fromkeys((
            *_LINEAR_LOSS_ATTRIBUTES, "reduction", "label_smoothing",
            "allow_retain_graph", "compute_input_grad", "compute_linear_weight_grad",
            "compute_linear_bias_grad",
        )),
    ),
    "torch_nn._linear_cross_entropy_batch_chunked_no_reduction.default": Signature(
        _LINEAR_LOSS_INPUTS, dict.fromkeys(_LINEAR_LOSS_ATTRIBUTES)
    ),
}  # fmt: skip
"""Ops that other libraries define, which `torch.library` registers: no dictionary of
PyTorch has them."""


class TorchReadingSide(TorchSide):
    """One version of PyTorch's ops, to be read: an attribute may be an input."""

    def signature(self, type: str, /) -> Signature | None:
        found = super().signature(type) or _LIBRARY_OPS.get(type)
        if found is None:
            return None
        attrs = {k: None if v is REQUIRED else v for k, v in found.attrs.items()}
        return found._replace(attrs=attrs)


def torch_side(name: str, imports: Mapping[str, int] | None = None) -> TorchSide:
    """The side of `amanda/torch/2.13.0`."""
    return _cached_side(name, imports is None)


@cache
def _cached_side(name: str, is_read: bool) -> TorchSide:
    dictionary: Any = namespace(name, assume=True)
    return (TorchReadingSide if is_read else TorchSide).of(dictionary)
