"""Writing graphs in Python: traced functions, gradients and custom ops."""

from __future__ import annotations

from amanda.argument_checks import check_arguments
from amanda.frontend.custom_ops import CustomDictionary, CustomOp, custom_op
from amanda.frontend.functions import FrontendNamespace, Function, function, grad

__all__ = [
    "FrontendNamespace",
    "CustomOp",
    "CustomDictionary",
    "Function",
    "custom_op",
    "function",
    "grad",
]

check_arguments(globals())
