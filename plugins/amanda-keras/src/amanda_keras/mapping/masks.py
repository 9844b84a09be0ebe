"""Masks: what Keras passes from layer to layer beside the values.

A layer with a mask for its output attaches it to the value; a layer that has an
argument for a mask uses that of its input, unless it is given one. Here masks are
computed by operations of Keras, and given as arguments to the layers that use them in
inference; BatchNormalization uses its mask in training only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from amanda.graph import Graph, Op, OutputPort
from amanda_keras.records import CALL, INPUT, VARIABLES

__all__ = ["make_masks_explicit"]

Mask: TypeAlias = "OutputPort | None"
Masks: TypeAlias = "dict[OutputPort, OutputPort]"

RECURRENT: Final = (
    "LSTM", "GRU", "SimpleRNN", "RNN", "Bidirectional", "ConvLSTM1D", "ConvLSTM2D",
    "ConvLSTM3D",
)  # fmt: skip
_ATTENTION: Final = ("Attention", "AdditiveAttention")
_OF_HEADS: Final = ("MultiHeadAttention", "GroupedQueryAttention")
_PASSING: Final = frozenset([
    "Activation", "ELU", "LeakyReLU", "PReLU", "ReLU", "Softmax", "ThresholdedReLU",
    "Dense", "Identity",
    "BatchNormalization", "SyncBatchNormalization", "GroupNormalization",
    "LayerNormalization", "UnitNormalization", "Normalization", "Rescaling",
    "ActivityRegularization", "AlphaDropout", "Dropout", "GaussianDropout",
    "GaussianNoise", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D",
    "TimeDistributed", *_ATTENTION, *_OF_HEADS,
])  # fmt: skip
"""Layers whose output has the mask of their first input."""
_TAKING: Final = frozenset([
    *RECURRENT, "TimeDistributed", "Softmax", "GlobalAveragePooling1D",
])  # fmt: skip
"""Layers with an argument `mask`, for their first input."""
_USING: Final = frozenset([*_TAKING, *_ATTENTION, *_OF_HEADS])
"""Layers whose output depends on masks, in inference."""
_MERGING: Final = ("Add", "Subtract", "Average", "Maximum", "Minimum", "Multiply")


def make_masks_explicit(graph: Graph, given: Masks | None = None) -> None:
    """Give each call the masks of its inputs, by operations that compute them.

    `given` are the masks of parameters, for the body of a wrapper.
    """
    masks: Masks = dict(given or {})
    for op in list(graph):
        if op.is_constant or op.own_namespace is not None:
            continue
        _give_masks(op, masks)
        for body in op.bodies.values():
            make_masks_explicit(body, _body_masks(op, body))
        for i, mask in enumerate(_output_masks(op, masks)):
            if mask is not None and i < len(op.outputs):
                masks[op.outputs[i]] = mask
        if op.type in _PASSING - _USING:
            op.attrs[CALL]["kwargs"].pop("mask", None)


def _inputs(op: Op) -> list[OutputPort]:
    """The values that are arguments of the call, not variables."""
    count = len(op.inputs) - len(op.attrs[VARIABLES])
    return [value for value in op.inputs[:count] if value is not None]


def _give_masks(op: Op, masks: Masks) -> None:
    call = op.attrs[CALL]
    kwargs = call["kwargs"]
    data = _inputs(op)
    if op.type in _TAKING and data:
        _give(op, kwargs, "mask", masks.get(data[0]))
    elif op.type in _OF_HEADS:
        names = ("query", "value", "key")
        given = dict(zip(names, call["args"], strict=False)) | {
            name: kwargs[name] for name in names if kwargs.get(name) is not None
        }
        for name, place in given.items():
            if isinstance(place, dict) and INPUT in place:
                value = op.inputs[place[INPUT]]
                _give(op, kwargs, f"{name}_mask", masks.get(value) if value else None)
    elif op.type in _ATTENTION and not kwargs.get("mask"):
        listed = [masks.get(value) for value in data]
        if any(listed):
            places: list[Any] = []
            for mask in listed:
                holder: dict[str, Any] = {}
                _give(op, holder, "mask", mask)
                places.append(holder.get("mask"))
            kwargs["mask"] = places


def _body_masks(op: Op, body: Graph) -> Masks:
    """The mask of a wrapped layer's input: a further parameter, for the time steps."""
    has_mask = op.attrs[CALL]["kwargs"].get("mask") is not None
    if op.type != "TimeDistributed" or not has_mask or not body.parameters:
        return {}
    return {body.parameters[0]: body.parameter(name=body.fresh_name("mask"))}


def _give(op: Op, kwargs: dict[str, Any], name: str, mask: Mask) -> None:
    """Add a mask to the arguments of a call, unless it has one."""
    if mask is not None and kwargs.get(name) is None:
        op.add_input(mask)
        kwargs[name] = {INPUT: len(op.inputs) - 1}


def _output_masks(op: Op, masks: Masks) -> list[Mask]:
    data = _inputs(op)
    if op.type in _MAKERS:
        return [_MAKERS[op.type](op, masks)]
    if op.type in RECURRENT:
        return _recurrent_masks(op)
    if op.type in _PASSING and data:
        return [_given_mask(op) or masks.get(data[0])]
    return []


def _given_mask(op: Op) -> Mask:
    """The mask that the call of an op is given."""
    kwargs = op.attrs[CALL]["kwargs"]
    place = kwargs.get("mask", kwargs.get("query_mask"))
    if isinstance(place, list) and place:
        place = place[0]
    if isinstance(place, dict) and INPUT in place:
        return op.inputs[place[INPUT]]
    return None


def _recurrent_masks(op: Op) -> list[Mask]:
    config: Any = op.attrs
    count = 1
    if op.type == "Bidirectional":
        count = 1 if op.attrs.get("merge_mode") else 2
        inner = op.attrs.get("layer")
        inner_config = inner.get("config") if isinstance(inner, dict) else None
        config = inner_config if isinstance(inner_config, dict) else {}
    return [_given_mask(op)] * count if config.get("return_sequences") else []


# -- layers with masks of their own ---------------------------------------------------


def _operation(
    op: Op, type: str, values: list[OutputPort], *args: Any, **config: Any
) -> OutputPort:
    """The result of an operation of Keras, added after an op."""
    graph = op.graph
    assert graph is not None
    places: list[Any] = [{INPUT: i} for i in range(len(values))]
    attrs = {
        **config, VARIABLES: {}, CALL: {"args": [*places, *args], "kwargs": {}},
    }  # fmt: skip
    return graph.add(f"ops.{type}", values, attrs).output


def _embedding_mask(op: Op, _masks: Masks) -> Mask:
    if not op.attrs.get("mask_zero"):
        return None
    return _operation(op, "NotEqual", _inputs(op)[:1], 0)


def _wrapped_mask(op: Op, masks: Masks) -> Mask:
    """The mask of the input, where the layer in a wrapper passes it."""
    data, body = _inputs(op), op.bodies.get("layer")
    inner = [each.type for each in body or () if not each.is_constant]
    is_passed = bool(data and inner) and _PASSING.issuperset(inner)
    return masks.get(data[0]) if is_passed else None


def _masking_mask(op: Op, _masks: Masks) -> Mask:
    differs = _operation(
        op, "NotEqual", _inputs(op)[:1], op.attrs.get("mask_value", 0.0)
    )
    return _operation(op, "Any", [differs], axis=[-1])


def _merged_mask(op: Op, masks: Masks) -> Mask:
    given = [masks.get(value) for value in _inputs(op)]
    result: Mask = None
    for i, mask in enumerate(given):
        if mask is None:
            return None
        result = mask if i == 0 else _operation(op, "LogicalOr", [result, mask])  # type: ignore[list-item]
    return result


def _concatenated_mask(op: Op, masks: Masks) -> Mask:
    data = _inputs(op)
    given = [masks.get(value) for value in data]
    if not any(given):
        return None
    parts = []
    for value, mask in zip(data, given, strict=True):
        same = _operation(op, "Equal", [value, value])
        if mask is None:
            parts.append(_operation(op, "LogicalOr", [same], True))
        else:
            wide = _operation(op, "ExpandDims", [mask], axis=-1)
            none = _operation(op, "LogicalAnd", [same], False)
            parts.append(_operation(op, "LogicalOr", [wide, none]))
    graph = op.graph
    assert graph is not None
    attrs = {
        "axis": op.attrs.get("axis", -1), VARIABLES: {},
        CALL: {"args": [[{INPUT: i} for i in range(len(parts))]], "kwargs": {}},
    }  # fmt: skip
    whole = graph.add("ops.Concatenate", parts, attrs).output
    return _operation(op, "Any", [whole], axis=[-1])


def _attached_mask(op: Op, _masks: Masks) -> Mask:
    return op.inputs[1]


_MAKERS: Final[Mapping[str | None, Callable[[Op, Masks], Mask]]] = {
    "Embedding": _embedding_mask, "ReversibleEmbedding": _embedding_mask,
    "SpectralNormalization": _wrapped_mask, "Masking": _masking_mask,
    "Concatenate": _concatenated_mask,
    **dict.fromkeys(_MERGING, _merged_mask), "ops.AttachMask": _attached_mask,
}  # fmt: skip
