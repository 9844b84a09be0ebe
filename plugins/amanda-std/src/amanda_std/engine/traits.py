"""Traits: properties of an op that passes and backends read from its definition.

    softmax.trait(Trait.ALONG_AXES)
    Trait.ALONG_AXES in ops.softmax.traits

What an op does is declared once, beside its definition, so that a pass or a backend
holds no table of op names, and supports a new op without a change.
"""

from __future__ import annotations

from enum import Enum, auto

__all__ = ["Trait"]


class Trait(Enum):
    """One property; an op has any number of them."""

    __hash__ = object.__hash__  # that of Enum runs Python code

    POINTWISE = auto()
    """Each element of the result depends only on the elements at its own position.

    Derived for ops whose shape rule is `shapes.pointwise` or `shapes.elementwise`."""
    REDUCTION = auto()
    """Reduces over its argument `axes` (None: over all), with the attribute
    `keepdims`."""
    ALONG_AXES = auto()
    """Computes along the axes in its attribute `axis` or `axes`, and alike for every
    position of the others, so that axes may be permuted if the attribute is too."""
    LINEAR_LAYER = auto()
    """Linear in its first argument, with weights as the second one; a third one, if it
    has any, is the bias."""
    MATRIX_PRODUCT = auto()
    """Contracts axes of two operands: a product of matrices, in some notation."""
    SCALING = auto()
    """Multiplies its first argument by factors."""
    MOVES_ELEMENTS = auto()
    """Every element of the result is one of the first argument."""
    PERMUTES_AXES = auto()
    """Transposes by its attribute `perm`; None reverses the axes."""
    PARTWISE = auto()
    """Acts alike on the parts of complex numbers: f(a + bi) = f(a) + f(b)i.

    Derived for ops that move elements."""
    COMPLEX_INSIDE = auto()
    """The definition computes with complex numbers, of real arguments too."""
    CASTS = auto()
    """Converts each element to the dtype in its attribute `dtype`."""
    KEEPS_NON_NEGATIVE = auto()
    """The result is non-negative wherever all tensor arguments are."""
    KEEPS_FINITE = auto()
    """The result is finite wherever all floating-point arguments are."""
    SPREADS_NON_FINITE = auto()
    """A NaN or an infinity in any floating-point argument makes an element of the
    result NaN or infinite, if the result has elements."""
    STABLE_LOGARITHM = auto()
    """The pass `stable` has a rule for the logarithm of its result."""
    SHAPE_QUERY = auto()
    """Reads the shape of its argument, and none of its elements."""
    SIZED_BY_ARGUMENT = auto()
    """A shape argument is the size of the result, or of the part that it selects."""
    DATA_DEPENDENT_SIZE = auto()
    """The elements of its arguments decide the shape of the result."""
    BRANCHES = auto()
    """The first argument selects one of its bodies; the others are passed to it."""
    CONTAINER = auto()
    """Builds or reads sequences, optionals or tuples, and never touches elements: the
    definition works for the arrays of any library."""
    EXPAND_EARLY = auto()
    """A composite in which elements of arguments become shape arguments, or with
    loops; a compiler sees these only once it is expanded."""
    NOT_FOLDED = auto()
    """Never computed ahead of time: where it runs matters."""
    EXACT_DTYPES = auto()
    """A composite whose results depend on the dtypes inside: numpy may not compute
    small floats in float32."""
    BLOCKS_GRADIENT = auto()
    """No gradient flows through it."""
