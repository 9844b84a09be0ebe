"""The optimization steps, one row each: what the option `without` can disable.

A new step is a row here, with a function for each place where it acts. The table in the
README is generated from these rows by `tools/optimization_steps.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, Literal, NamedTuple

from amanda.graph import Graph
from amanda_jax.cpu_tuning import (
    convolution,
    few_row_products,
    packed_weights,
    pooling,
)
from amanda_jax.cpu_tuning.convolution_weights import (
    channels_last_kernels,
    winograd_along_rows,
    winograd_every_axis,
    winograd_pairs_of_rows,
)
from amanda_jax.cpu_tuning.product_weights import (
    read_stored_transpose,
    transpose_product_weights,
)
from amanda_jax.weights.layout import DeviceLayout, transpose_at_transfer
from amanda_std import passes

__all__ = [
    "CPU_ONLY",
    "NOT_PORTABLE",
    "STEPS",
    "TuningStep",
    "enabled_steps",
    "excluded_steps",
]

GraphPass = Callable[[Graph, Collection[str]], object]
"""A pass, called with the graph and the names of the steps that are enabled."""


class TuningStep(NamedTuple):
    """One optimization: where it applies, and what it does at which point."""

    name: str
    reason: str
    """What it does, for the README."""
    platform: Literal["", "cpu"] = ""
    """The platform that it is for; empty: all."""
    cores: Literal["", "one", "several"] = ""
    """The number of cores that it is for; empty: any."""
    precisions: Collection[str] = ()
    """Values of the option `precision` that it is for; empty: all.

    A step for "highest" computes each result from the same elements as the direct sum:
    others change neither its value nor its error."""
    jaxlib: str = ""
    """The version of jaxlib that it was measured with."""
    is_available: Callable[[], bool] | None = None
    """Whether what it needs is installed; None: it needs nothing."""
    is_portable: bool = True
    """Whether programs with it run where what it needs is not installed."""
    requires: str = ""
    """Another step that has to be enabled as well."""
    unless: str = ""
    """Another step that disables this one where it is enabled."""

    simplify: GraphPass | None = None
    """A pass before constants are folded."""
    fold: GraphPass | None = None
    """A pass that folds constants, or follows their folding."""
    relayout: GraphPass | None = None
    """A pass that changes layouts, after constants are folded."""
    device_layout: Callable[..., DeviceLayout | None] | None = None
    """The device layout of a constant if it differs; `symbolic`: dims are symbolic."""
    convolution: Callable[[convolution.ConvolutionCall], Any] | None = None
    """Another algorithm for a channels-last convolution, or None where it is slower."""
    pooling: Callable[[pooling.PoolingCall], Any] | None = None
    """Another algorithm for pooling, or None where it is slower."""
    product: Callable[..., Any] | None = None
    """Another algorithm for the product `equation` of two arrays, or None."""
    compiler_options: Mapping[str, str] = {}
    """Options of XLA, set only for the measured version of jaxlib."""


# -- passes ----------------------------------------------------------------------------


def _simplify(graph: Graph, enabled: Collection[str]) -> None:
    del enabled
    passes.canonical(graph)
    passes.simplify(graph)


def _fold(graph: Graph, enabled: Collection[str]) -> None:
    del enabled
    transpose_at_transfer(graph)
    passes.fold(graph)
    passes.share(graph)
    passes.drop(graph)


def _fold_norms(graph: Graph, enabled: Collection[str]) -> None:
    del enabled
    if passes.fold_norms(graph):
        passes.fold(graph)
        passes.drop(graph)


# -- the steps -------------------------------------------------------------------------

STEPS: Final = (
    TuningStep(
        "algebra",
        "algebraic simplification, constant folding, common subexpression elimination",
        simplify=_simplify,
        fold=_fold,
    ),
    TuningStep(
        "norms",
        "normalizations and scale factors folded into the weights before them",
        fold=_fold_norms,
    ),
    TuningStep(
        "layout",
        "convolutions in channels-last layout, with kernels converted once",
        platform="cpu",
        jaxlib="0.10",
        relayout=channels_last_kernels,
    ),
    TuningStep(
        "onednn",
        "convolutions and products with constant weights by oneDNN, with the sum and "
        "ReLU that follow a convolution: needs amanda-onednn",
        platform="cpu",
        jaxlib="0.10",
        is_available=packed_weights.is_available,
        is_portable=False,
        device_layout=packed_weights.packed_layout,
        product=packed_weights.multiply_plain,
    ),
    TuningStep(
        "pointwise",
        "convolutions with kernels of one element as matrix products",
        jaxlib="0.10",
        convolution=convolution.pointwise,
    ),
    TuningStep(
        "transposed",
        "kernels of one element stored with the output channels first, as products by "
        "YNNPACK read them fastest",
        platform="cpu",
        jaxlib="0.10",
        requires="pointwise",
        unless="products",
    ),
    TuningStep(
        "rows",
        "Winograd convolution along rows alone: 6 larger products instead of 12",
        platform="cpu",
        cores="several",
        precisions=("high", "default"),
        jaxlib="0.10",
        requires="tiles",
        device_layout=winograd_along_rows,
    ),
    TuningStep(
        "pairs",
        "Winograd convolution along rows alone, in pairs, for 128 channels or more: 4 "
        "products over three kernel elements instead of 16 over one",
        platform="cpu",
        cores="several",
        jaxlib="0.10",
        requires="tiles",
        unless="rows",
        device_layout=winograd_pairs_of_rows,
    ),
    TuningStep(
        "tiles",
        "Winograd convolution for kernels of 3 * 3: 16 products instead of 36",
        platform="cpu",
        jaxlib="0.10",
        device_layout=winograd_every_axis,
    ),
    TuningStep(
        "columns",
        "convolutions at up to 256 positions as one matrix product (im2col)",
        platform="cpu",
        jaxlib="0.10",
        convolution=convolution.im2col,
    ),
    TuningStep(
        "parts",
        "convolutions to less than 128 channels in parts that run in parallel",
        platform="cpu",
        cores="several",
        jaxlib="0.10",
        convolution=convolution.parallel_parts,
    ),
    TuningStep(
        "windows",
        "pooling over up to 9 elements as the maximum, or sum, of slices",
        platform="cpu",
        jaxlib="0.10",
        pooling=pooling.reduce_slices,
    ),
    TuningStep(
        "weights",
        "large weights stored transposed, for products of up to 1024 rows, and where "
        "the rows of the weight are no whole number of vectors",
        platform="cpu",
        jaxlib="0.10",
        unless="products",
        simplify=read_stored_transpose,
        relayout=transpose_product_weights,
        product=few_row_products.transposed_product,
    ),
    TuningStep(
        "products",
        "matrix products by Eigen, convolutions by YNNPACK: an option of XLA, for this "
        "executable alone",
        platform="cpu",
        cores="one",
        jaxlib="0.10",
        # On one core this takes 5 to 15 % less time. On two cores Eigen's threads wait
        # for each other: BERT-base takes 12 % more, GPT-2 5 %, and ResNet-50 3 % less.
        compiler_options={
            "xla_cpu_experimental_ynn_fusion_type": (
                "LIBRARY_FUSION_TYPE_INDIVIDUAL_CONVOLUTION"
            )
        },
    ),
    TuningStep(
        "blocks",
        "repeated blocks compiled once, and called once for each repetition",
    ),
)

CPU_ONLY: Final = tuple(step.name for step in STEPS if step.platform == "cpu")
"""The names of the steps that are for the CPU alone."""


NOT_PORTABLE: Final = tuple(step.name for step in STEPS if not step.is_portable)
"""The names of the steps that saved programs do without."""


def enabled_steps(without: Collection[str], platform: str = "cpu") -> list[TuningStep]:
    """The steps that are not disabled, and not excluded by another step.

    >>> [step.name for step in enabled_steps((), "gpu")]
    ['algebra', 'norms', 'pointwise', 'blocks']
    """
    disabled = {*without, *(CPU_ONLY if platform != "cpu" else ())}
    return [
        step
        for step in STEPS
        if step.name not in disabled
        and step.requires not in disabled
        and (not step.unless or step.unless in disabled)
    ]


def excluded_steps(platform: str, cores: int, precision: str) -> list[str]:
    """The names of the steps for another platform, number of cores, or precision, and
    of those that need what is not installed."""
    own = "several" if cores > 1 else "one"
    return [
        step.name
        for step in STEPS
        if (step.platform and step.platform != platform)
        or (platform == "cpu" and step.cores and step.cores != own)
        or (step.precisions and precision not in step.precisions)
        or (step.is_available is not None and not step.is_available())
    ]
