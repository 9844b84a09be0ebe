"""Layers of `torch.nn`: which op with which weights each is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from amanda.graph import Op, OutputPort
from amanda.types import TensorType, float32
from amanda_torch.mapping.weight_kinds import recurrent_names
from amanda_torch.source.python_text import Code

if TYPE_CHECKING:
    from amanda_torch.source.program import Program

__all__ = ["REQUIRED", "Argument", "Layer", "layer_of"]

REQUIRED: Final = Code("...")


class Argument(NamedTuple):
    """An argument of a constructor, which is omitted at its default."""

    name: str
    value: Any
    default: Any = REQUIRED


class Layer(NamedTuple):
    """An instance of a class of `torch.nn`, called with `inputs`."""

    name: str
    arguments: Sequence[Argument]
    weights: Mapping[str, OutputPort]
    inputs: Sequence[OutputPort]
    targets: str = ""
    """The form of its results, if these are not one tensor."""


def layer_of(op: Op, program: Program) -> Layer | None:
    """The layer that an op is, if its weights are those of a layer."""
    base = (op.type or "").removeprefix("aten.").partition(".")[0]
    arguments = program.arguments[op]
    find = _LAYERS.get(base)
    if find is None:
        return _plain_layer(base, arguments)
    layer = find(arguments)
    if layer is None:
        return None
    dtypes = {_type(value).dtype for value in layer.weights.values()}
    known = all(value in program.weights for value in layer.weights.values())
    if not known or len(dtypes) > 1:
        return None
    dtype = next(iter(dtypes), float32)
    last = Argument("dtype", None if dtype == float32 else dtype, None)
    return layer._replace(arguments=[*layer.arguments, last])


def _type(value: OutputPort) -> TensorType:
    assert isinstance(value.type, TensorType)
    return value.type


def _shape(value: OutputPort) -> list[int]:
    return [int(dim) for dim in _type(value).shape.dims]


def _weights(**values: Any) -> dict[str, OutputPort]:
    return {name: value for name, value in values.items() if value is not None}


def _short(value: Any) -> Any:
    """One number for sizes that are all equal; None for an empty list."""
    if value == []:
        return None
    if isinstance(value, list) and value and all(v == value[0] for v in value):
        return value[0]
    return Code(f"({', '.join(map(str, value))})") if isinstance(value, list) else value


def _linear(given: Mapping[str, Any]) -> Layer | None:
    weight, bias = given["weight"], given.get("bias")
    shape = _shape(weight)
    if len(shape) != 2:
        return None
    arguments = [
        Argument("in_features", shape[1]), Argument("out_features", shape[0]),
        Argument("bias", bias is not None, True),
    ]  # fmt: skip
    return Layer("Linear", arguments, _weights(weight=weight, bias=bias),
                 [given["input"]])  # fmt: skip


def _conv(given: Mapping[str, Any], is_transposed: bool = False) -> Layer:
    weight, bias = given["weight"], given.get("bias")
    outputs, inputs, *sizes = _shape(weight)
    groups = given.get("groups", 1)
    outputs, inputs = (
        (inputs * groups, outputs) if is_transposed else (outputs, inputs * groups)
    )
    name = f"Conv{'Transpose' * is_transposed}{len(sizes)}d"
    arguments = [
        Argument("in_channels", inputs), Argument("out_channels", outputs),
        Argument("kernel_size", _short(sizes)),
        Argument("stride", _short(given.get("stride", 1)), 1),
        Argument("padding", _short(given.get("padding", 0)), 0),
    ]  # fmt: skip
    if is_transposed:
        padding = _short(given.get("output_padding", 0))
        arguments.append(Argument("output_padding", padding, 0))
    arguments += [
        Argument("dilation", _short(given.get("dilation", 1)), 1),
        Argument("groups", groups, 1), Argument("bias", bias is not None, True),
    ]  # fmt: skip
    return Layer(name, arguments, _weights(weight=weight, bias=bias), [given["input"]])


def _conv_transpose(given: Mapping[str, Any]) -> Layer:
    return _conv(given, is_transposed=True)


def _layer_norm(given: Mapping[str, Any]) -> Layer | None:
    weight, bias = given.get("weight"), given.get("bias")
    if weight is None and bias is not None:
        return None
    arguments = _norm_arguments(given, weight, 1e-05)
    arguments.append(Argument("bias", weight is None or bias is not None, True))
    weights = _weights(weight=weight, bias=bias)
    return Layer("LayerNorm", arguments, weights, [given["input"]])


def _rms_norm(given: Mapping[str, Any]) -> Layer:
    weight = given.get("weight")
    arguments = _norm_arguments(given, weight, None)
    return Layer("RMSNorm", arguments, _weights(weight=weight), [given["input"]])


def _norm_arguments(
    given: Mapping[str, Any], weight: OutputPort | None, eps: float | None
) -> list[Argument]:
    shape = given["normalized_shape"]
    size = shape[0] if len(shape) == 1 else Code(f"({', '.join(map(str, shape))})")
    return [
        Argument("normalized_shape", size), Argument("eps", given.get("eps", eps), eps),
        Argument("elementwise_affine", weight is not None, True),
    ]  # fmt: skip


def _group_norm(given: Mapping[str, Any]) -> Layer | None:
    weight, bias = given.get("weight"), given.get("bias")
    if weight is None or bias is None:
        return None
    arguments = [
        Argument("num_groups", given["num_groups"]),
        Argument("num_channels", _shape(weight)[0]),
        Argument("eps", given.get("eps", 1e-05), 1e-05),
    ]
    weights = _weights(weight=weight, bias=bias)
    return Layer("GroupNorm", arguments, weights, [given["input"]])


def _batch_norm(given: Mapping[str, Any]) -> Layer | None:
    names = ("weight", "bias", "running_mean", "running_var")
    weights = _weights(**{name: given.get(name) for name in names})
    rank = _type(given["input"]).shape.rank
    if "running_mean" not in weights or rank not in (2, 3, 4, 5):
        return None
    if ("weight" in weights) != ("bias" in weights):
        return None
    if given["training"] != Code("self.training"):
        return None
    arguments = [
        Argument("num_features", _shape(weights["running_mean"])[0]),
        Argument("eps", given["eps"], 1e-05),
        Argument("momentum", given["momentum"], 0.1),
        Argument("affine", "weight" in weights, True),
    ]
    name = f"BatchNorm{max(rank - 2, 1)}d"
    return Layer(name, arguments, weights, [given["input"]])


def _embedding(given: Mapping[str, Any]) -> Layer | None:
    if given.get("sparse") or given.get("scale_grad_by_freq"):
        return None
    shape = _shape(given["weight"])
    padding = given.get("padding_idx", -1)
    arguments = [
        Argument("num_embeddings", shape[0]), Argument("embedding_dim", shape[1]),
        Argument("padding_idx", None if padding == -1 else padding, None),
    ]  # fmt: skip
    return Layer("Embedding", arguments, _weights(weight=given["weight"]),
                 [given["indices"]])  # fmt: skip


def _index(given: Mapping[str, Any]) -> Layer | None:
    """Rows of a matrix, as other frameworks write `nn.Embedding`."""
    [*indices] = given["indices"]
    weight = given["self"]
    if len(indices) != 1 or not isinstance(indices[0], OutputPort):
        return None
    sizes = [dim for dim in _shape_or_none(weight) if isinstance(dim, int)]
    if len(sizes) != 2 or _type(indices[0]).dtype.kind != "int":
        return None
    return _embedding({"weight": weight, "indices": indices[0]})


def _recurrent(name: str, nonlinearity: str = "") -> Callable[..., Layer | None]:
    """The function of a kind of recurrent layers, which begin with states of zeros."""

    def find(given: Mapping[str, Any]) -> Layer | None:
        params = given.get("params") or []
        names = recurrent_names(given, len(params))
        drops = given.get("train") != Code("self.training") and given.get("dropout")
        if given.get("hx") is not None or len(names) != len(params) or drops:
            return None
        size, inputs = _shape(params[0])
        size = _shape(params[1])[1]
        arguments = [
            Argument("input_size", inputs), Argument("hidden_size", size),
            Argument("num_layers", given["num_layers"], 1),
            *([Argument("nonlinearity", nonlinearity, "tanh")] if nonlinearity else []),
            Argument("bias", given["has_biases"], True),
            Argument("batch_first", given["batch_first"], False),
            Argument("dropout", given["dropout"], 0.0),
            Argument("bidirectional", given["bidirectional"], False),
        ]  # fmt: skip
        weights = dict(zip(names, params, strict=True))
        targets = "{}, ({}, {})" if name == "LSTM" else "{}, {}"
        return Layer(name, arguments, weights, [given["input"]], targets)

    return find


def _shape_or_none(value: OutputPort) -> Sequence[Any]:
    shape = value.type.shape if isinstance(value.type, TensorType) else None
    return () if shape is None or not shape.has_rank else shape.dims


_LAYERS: Final[Mapping[str, Callable[[Mapping[str, Any]], Layer | None]]] = {
    "linear": _linear, "group_norm": _group_norm, "batch_norm": _batch_norm,
    "embedding": _embedding, "index": _index,
    "lstm": _recurrent("LSTM"), "gru": _recurrent("GRU"),
    "rnn_tanh": _recurrent("RNN", "tanh"), "rnn_relu": _recurrent("RNN", "relu"),
    **{f"conv{rank}d": _conv for rank in (1, 2, 3)},
    **{f"conv_transpose{rank}d": _conv_transpose for rank in (1, 2, 3)},
    "layer_norm": _layer_norm, "rms_norm": _rms_norm,
}  # fmt: skip

_PLAIN: Final[Mapping[str, tuple[str, Sequence[tuple[str, Any]]]]] = {
    "relu": ("ReLU", ()), "relu_": ("ReLU", ()),
    "gelu": ("GELU", [("approximate", "none")]),
    "silu": ("SiLU", ()), "silu_": ("SiLU", ()), "tanh": ("Tanh", ()),
    "sigmoid": ("Sigmoid", ()), "hardswish": ("Hardswish", ()),
    "hardswish_": ("Hardswish", ()), "hardsigmoid": ("Hardsigmoid", ()),
    "relu6": ("ReLU6", ()), "mish": ("Mish", ()),
    "leaky_relu": ("LeakyReLU", [("negative_slope", 0.01)]),
    "dropout": ("Dropout", [("p", 0.5)]), "dropout_": ("Dropout", [("p", 0.5)]),
    "flatten": ("Flatten", [("start_dim", 1), ("end_dim", -1)]),
    "max_pool2d": ("MaxPool2d", [
        ("kernel_size", REQUIRED), ("stride", None), ("padding", 0), ("dilation", 1),
        ("ceil_mode", False),
    ]),
    "avg_pool2d": ("AvgPool2d", [
        ("kernel_size", REQUIRED), ("stride", None), ("padding", 0),
        ("ceil_mode", False), ("count_include_pad", True), ("divisor_override", None),
    ]),
    "adaptive_avg_pool2d": ("AdaptiveAvgPool2d", [("output_size", REQUIRED)]),
    "softmax": ("Softmax", [("dim", REQUIRED)]),
}  # fmt: skip
"""Layers without weights: their classes and the arguments of these, with defaults."""


def _plain_layer(base: str, given: Mapping[str, Any]) -> Layer | None:
    """The layer of an op without weights."""
    row = _PLAIN.get(base)
    value = given.get("self", given.get("input"))
    if row is None or not isinstance(value, OutputPort):
        return None
    name, expected = row
    known = {key for key, _ in expected} | {"self", "input", "train"}
    if (
        not given.keys() <= known
        or given.get("train", "self.training") != "self.training"
    ):
        return None
    arguments = [
        Argument(key, _short(given.get(key, default)), default)
        for key, default in expected
    ]
    if base == "flatten":  # the defaults of the op are others
        arguments[0] = Argument("start_dim", given.get("start_dim", 0), 1)
    if base.endswith("_"):
        arguments.append(Argument("inplace", True, False))
    return Layer(name, arguments, {}, [value])
