"""From Keras: dense layers, embeddings, activations, and layers of training."""

from __future__ import annotations

from typing import Any, Final

from amanda_keras.mapping.activations import apply_activation, relu
from amanda_keras.mapping.layer_calls import (
    Weights,
    as_axes,
    cast_to,
    expect,
    kind_of,
    layers,
    rank_of,
)
from amanda_std import ops
from amanda_std.mappings import inline_body

__all__ = ["LAYERS", "READ", "add_bias", "einsum_dense", "masked_softmax"]


def read_dense(
    inputs: Any, *, weights: Weights, activation: Any = None, units: int = 0,
    use_bias: bool = True,
) -> Any:  # fmt: skip
    del units
    y = ops.matmul(inputs, weights["kernel"])
    return apply_activation(y + weights["bias"] if use_bias else y, activation)


def read_einsum_dense(
    inputs: Any, *, weights: Weights, equation: str = "", output_shape: Any = None,
    activation: Any = None, bias_axes: Any = None,
) -> Any:  # fmt: skip
    del output_shape
    y = einsum_dense(equation, inputs, weights["kernel"])
    return apply_activation(y + weights["bias"] if bias_axes else y, activation)


def einsum_dense(equation: str, *values: Any) -> Any:
    """Einstein summation, with the axes of `...` by name.

    A bias has the rank that lets it broadcast.
    """
    return ops.einsum(*values, equation=equation.replace(" ", ""))


def read_embedding(
    inputs: Any, *, weights: Weights, mask_zero: bool = False, output_dim: int = 0,
    sparse: bool = False,
) -> Any:  # fmt: skip
    del mask_zero, output_dim, sparse
    return _look_up(inputs, weights["embeddings"])


def _look_up(inputs: Any, table: Any) -> Any:
    if kind_of(inputs) not in ("int", "uint"):
        inputs = ops.astype(inputs, dtype="int32")
    return ops.gather(table, inputs, 0)


def read_reversible_embedding(
    inputs: Any, *, weights: Weights, mask_zero: bool = False, output_dim: int = 0,
    tie_weights: bool = True, logit_soft_cap: Any = None, reverse: bool = False,
    reverse_dtype: Any = None, sparse: bool = False,
) -> Any:  # fmt: skip
    del mask_zero, output_dim, reverse_dtype, sparse
    if not reverse:
        return _look_up(inputs, weights["embeddings"])
    table = weights["embeddings"] if tie_weights else None
    kernel = weights["reverse_embeddings"] if table is None else ops.swap_last(table)
    y = ops.matmul(inputs, kernel)
    return ops.tanh(y / logit_soft_cap) * logit_soft_cap if logit_soft_cap else y


def read_masking(inputs: Any, *, mask_value: float = 0.0) -> Any:
    """Steps whose elements all have a value are set to zero."""
    expect(isinstance(mask_value, int | float), "a mask value that is no number")
    differs = ops.not_equal(inputs, ops.number_like(inputs, value=mask_value))
    kept = ops.any_(differs, (-1,), keepdims=True)
    return ops.where(kept, inputs, ops.number_like(inputs, value=0))


# -- activations ---------------------------------------------------------------------


def read_activation(inputs: Any, *, activation: Any = None) -> Any:
    return apply_activation(inputs, activation)


def read_relu(
    inputs: Any, *, max_value: Any = None, negative_slope: float = 0.0,
    threshold: float = 0.0,
) -> Any:  # fmt: skip
    return relu(inputs, negative_slope or 0.0, max_value, threshold or 0.0)


def read_leaky_relu(
    inputs: Any, *, negative_slope: Any = None, alpha: Any = None
) -> Any:
    """The slope is `alpha` in Keras 2."""
    slope = negative_slope if negative_slope is not None else alpha
    return ops.leaky_relu(inputs, slope=float(0.3 if slope is None else slope))


def read_elu(inputs: Any, *, alpha: Any = None) -> Any:
    return ops.elu(inputs, alpha=float(1.0 if alpha is None else alpha))


def read_prelu(inputs: Any, *, weights: Weights, shared_axes: Any = None) -> Any:
    del shared_axes
    return ops.prelu(inputs, weights["alpha"])


def read_thresholded_relu(inputs: Any, *, theta: float = 1.0) -> Any:
    return ops.threshold(inputs, theta=float(theta))


def read_softmax(inputs: Any, *, axis: Any = -1, mask: Any = None) -> Any:
    return masked_softmax(inputs, axis, mask)


def masked_softmax(x: Any, axis: Any, mask: Any) -> Any:
    """Softmax over axes; what a mask excludes is zero."""
    axes = tuple(as_axes(axis, x))
    if mask is None:
        return ops.softmax(x, axes=axes)
    if kind_of(mask) != "bool":
        mask = ops.greater(mask, ops.number_like(mask, value=0.5))
    low = -3e4 if str(x.dtype) == "float16" else -1e9
    y = ops.softmax(ops.where(mask, x, ops.number_like(x, value=low)), axes=axes)
    return ops.where(mask, y, ops.number_like(y, value=0))


# -- layers that change nothing in inference -------------------------------------------


def read_dropout(inputs: Any, *, rate: float = 0.0) -> Any:
    del rate
    return ops.identity(inputs)


def read_stochastic_depth(inputs: Any, *, drop_path_rate: float = 0.0) -> Any:
    """A layer of ConvNeXt in `keras.applications`."""
    del drop_path_rate
    return ops.identity(inputs)


def read_gaussian_noise(inputs: Any, *, stddev: float = 0.0) -> Any:
    del stddev
    return ops.identity(inputs)


def read_activity_regularization(
    inputs: Any, *, l1: float = 0.0, l2: float = 0.0
) -> Any:
    del l1, l2
    return ops.identity(inputs)


def read_spatial_dropout(
    inputs: Any, *, rate: float = 0.0, data_format: Any = None
) -> Any:
    del rate, data_format
    return ops.identity(inputs)


def read_identity(inputs: Any) -> Any:
    return ops.identity(inputs)


def read_lambda(
    *inputs: Any, function: Any = None, arguments: Any = None, output_shape: Any = None
) -> Any:
    del inputs, function, arguments, output_shape
    expect(False, "its function is Python code, which a file does not have as ops")


# -- wrappers --------------------------------------------------------------------------


def read_time_distributed(inputs: Any, *, layer: Any, mask: Any = None) -> Any:
    """A layer on every time step: steps are further examples."""
    batch, steps = inputs.shape[:2]
    y = _apply(layer, *(_as_examples(v) for v in (inputs, mask) if v is not None))
    tail = y.shape[1:]
    if not isinstance(steps, int) or not _is_static(tail):
        return ops.reshape(y, [batch, steps, *tail])
    return ops.reshape(y, [-1, steps, *tail])


def _as_examples(x: Any) -> Any:
    """A value whose first two axes are one."""
    batch, steps, *rest = x.shape
    first = -1 if _is_static(rest) else batch * steps
    return ops.reshape(x, [first, *rest])


def _apply(layer: Any, *values: Any) -> Any:
    """The result of a wrapped layer."""
    (y,) = inline_body(layer, values)
    expect(y is not None, "its layer has no mapping")
    return y


def _is_static(dims: Any) -> bool:
    return all(isinstance(d, int) and d for d in dims)


def read_wrapper(inputs: Any, *, layer: Any, weights: Weights) -> Any:
    """A layer with its normalized weights, which are stored."""
    del weights
    return cast_to(_apply(layer, inputs), inputs.dtype)


def add_bias(y: Any, bias: Any, is_first: bool) -> Any:
    """A bias added along the axis of channels."""
    if is_first:
        bias = ops.reshape(bias, [-1, *(1,) * (rank_of(y) - 2)])
    return y + cast_to(bias, y.dtype)


LAYERS: Final[dict[str, Any]] = {
    "Dense": read_dense, "EinsumDense": read_einsum_dense,
    "Embedding": read_embedding, "ReversibleEmbedding": read_reversible_embedding,
    "Masking": read_masking, "Activation": read_activation, "ReLU": read_relu,
    "LeakyReLU": read_leaky_relu, "ELU": read_elu, "PReLU": read_prelu,
    "ThresholdedReLU": read_thresholded_relu, "Softmax": read_softmax,
    "Dropout": read_dropout, "AlphaDropout": read_dropout,
    "GaussianDropout": read_dropout, "GaussianNoise": read_gaussian_noise,
    "SpatialDropout1D": read_spatial_dropout, "SpatialDropout2D": read_spatial_dropout,
    "SpatialDropout3D": read_spatial_dropout, "Identity": read_identity,
    "StochasticDepth": read_stochastic_depth,
    "ActivityRegularization": read_activity_regularization, "Lambda": read_lambda,
    "TimeDistributed": read_time_distributed, "SpectralNormalization": read_wrapper,
}  # fmt: skip
READ: Final = layers(LAYERS)
