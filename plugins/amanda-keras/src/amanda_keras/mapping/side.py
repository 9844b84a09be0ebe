"""Keras as one side of mappings: a side for each version of its layers.

Before a graph is read, models among the layers are inlined, masks become arguments of
the calls that use them, and arguments without a meaning for inference are dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from amanda import namespace
from amanda.errors import FormatError
from amanda.graph import Graph, Op
from amanda.mapping import PlainSide, Signature, inline_functions
from amanda.types import Shape, TensorType, Type
from amanda_keras.mapping.masks import make_masks_explicit
from amanda_keras.mapping.read_preprocessing import AUGMENTATION
from amanda_keras.records import (
    CALL,
    DEFAULT_CALL,
    INPUT,
    LAYER_RECORDS,
    MODEL_RECORDS,
    VARIABLES,
)
from amanda_keras.writer import LISTS, variables_of

__all__ = ["KerasSide", "keras_side"]

_TRAINING_SUFFIXES: Final = ("_initializer", "_regularizer", "_constraint")
_TRAINING: Final = frozenset([
    "trainable", "activity_regularizer", "dynamic", "seed", "synchronized", "momentum",
    "renorm_momentum", "renorm_clipping", "unit_forget_bias", "implementation",
    "batch_input_shape", "batch_shape", "autocast", "flash_attention", "use_cudnn",
    "unroll", "time_major", "fused", "virtual_batch_size", "adjustment", "ragged",
    "power_iterations", "input_length", "input_dim", "rng_type", "noise_shape",
    "lora_rank", "lora_alpha",
])  # fmt: skip
"""Arguments that do not change what a layer computes in inference, from the variables
that a file has: the kernel in it includes a low-rank adaptation (LoRA)."""


class KerasSide(PlainSide):
    """One version of Keras."""

    def signature(self, type: str, /) -> Signature | None:
        """Any layer or operation: the functions decide on arguments."""
        found = super().signature(type)
        attrs = {} if found is None else {
            key: None if repr(default) == "REQUIRED" else default
            for key, default in found.attrs.items()
        }  # fmt: skip
        return Signature(("inputs",), attrs, "inputs", frozenset(["inputs"]), None)

    def parameter_types(
        self, op: Op, inputs: Sequence[Type | None]
    ) -> Sequence[Type | None]:
        """The types of a wrapped layer's inputs: time steps are further examples."""
        if op.type != "TimeDistributed":
            return inputs[:1]
        place = op.attrs[CALL]["kwargs"].get("mask")
        is_input = isinstance(place, dict) and INPUT in place
        given = [*inputs[:1], inputs[place[INPUT]] if is_input else None]
        return [_type_of_steps(each) for each in given]

    def prepare(self, graph: Graph) -> Graph:
        """A copy to be read, without models among its layers."""
        copy = graph.clone()
        copy.attrs.pop(MODEL_RECORDS.key, None)
        for part in copy.graphs():
            for op in list(part):
                if not op.is_constant and _callee(op) is not None:
                    _attach_mask(part, op)
        copy = inline_functions(copy, _callee, _copy_function)
        is_old = (graph.namespace or "").rpartition("/")[2].startswith(("1.", "2."))
        for part in copy.graphs():
            for op in part:
                if not op.is_constant and op.own_namespace is None:
                    known = super().signature(op.type or "")
                    _normalize(op, is_old, {} if known is None else known.attrs)
        make_masks_explicit(copy)
        return copy


def _type_of_steps(type: Type | None) -> Type | None:
    """The type of a value whose time steps are further examples."""
    if not isinstance(type, TensorType):
        return type
    if not type.shape.has_rank or len(type.shape.dims) < 2:
        return None
    batch, steps, *rest = type.shape.dims
    return TensorType(type.dtype, Shape([batch * steps, *rest]))


def _callee(op: Op) -> Graph | None:
    """The model that an op calls."""
    root = op.graph
    while root is not None and not root.functions:
        above = root.holder.graph if root.holder is not None else root.owner
        root = above if above is not None else root.graph
    if root is None or op.own_namespace is not None:
        return None
    return root.functions.get(op.type or "")


def _attach_mask(graph: Graph, op: Op) -> None:
    """Give a mask in the call of a model to the value that it is for."""
    call = op.attrs.get(CALL)
    place = call.get("kwargs", {}).get("mask") if isinstance(call, Mapping) else None
    if not (isinstance(place, dict) and INPUT in place and len(op.inputs) == 2):
        return
    attrs = {CALL: {"args": [{INPUT: 0}, {INPUT: 1}], "kwargs": {}}}
    with graph.before(op):
        value = graph.add("ops.AttachMask", list(op.inputs), attrs).output
    op.input_ports[0].connect(value)
    op.remove_input(1)


def _copy_function(op: Op, function: Graph) -> Graph:
    """A copy of a model, whose layers are named after the call."""
    count = len(op.inputs)
    if count != len(function.parameters):
        raise FormatError(
            "a model is called with another number of inputs than it has",
            who=op.label, expected=len(function.parameters), got=count,
        )  # fmt: skip
    return function.clone()


def _normalize(op: Op, is_old: bool, defaults: Mapping[str, Any]) -> None:
    """Arguments of inference only; variables by the numbers of their inputs."""
    names, _ = variables_of(op)
    first = len(op.inputs) - len(names)
    call = op.attrs.get(CALL)
    if not isinstance(call, Mapping):
        places = [{INPUT: i} for i in range(first)]
        args = [places] if op.type in LISTS else places
        call = DEFAULT_CALL if first == 1 and op.type not in LISTS else {"args": args}
    for key in LAYER_RECORDS.of(op).get("empty", ()):
        op.attrs.setdefault(key, None)
    for key, value in list(op.attrs.items()):
        is_training = key.endswith(_TRAINING_SUFFIXES) or key in _TRAINING
        is_absent = value is None and defaults.get(key) is None
        is_setting = op.type in AUGMENTATION and key not in (CALL, "dtype")
        if ":" in key or is_absent or is_training or is_setting:
            del op.attrs[key]
        elif is_old and key.endswith("activation") and value == "hard_sigmoid":
            op.attrs[key] = "hard_sigmoid_of_keras_2"
    op.attrs[CALL] = {
        "args": list(call.get("args", [])), "kwargs": dict(call.get("kwargs", {})),
    }  # fmt: skip
    op.attrs[VARIABLES] = {name: first + i for i, name in enumerate(names)}


def keras_side(name: str, imports: Mapping[str, int] | None = None) -> KerasSide:
    """The side of `amanda/keras/3.15.0`."""
    del imports
    return _cached_side(name)


@cache
def _cached_side(name: str) -> KerasSide:
    dictionary: Any = namespace(name, assume=True)
    return KerasSide.of(dictionary)
