"""Writing graphs in Python: traced functions, gradients and custom ops."""

from __future__ import annotations

from amanda.frontend.custom_ops import CustomOp, CustomVocabulary, custom_op
from amanda.frontend.functions import Builds, Function, function, grad

__all__ = [
    "Builds",
    "CustomOp",
    "CustomVocabulary",
    "Function",
    "custom_op",
    "function",
    "grad",
]
