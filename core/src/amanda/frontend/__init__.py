"""Writing graphs in Python: traced functions, gradients and custom ops."""

from __future__ import annotations

from amanda.argument_checks import check_arguments
from amanda.frontend.custom_ops import CustomDictionary, CustomOp, custom_op
from amanda.frontend.functions import FrontendNamespace, Function, function, grad
from amanda.frontend.training import TrainedModel, TrainingGraph, train

__all__ = [
    "FrontendNamespace",
    "CustomOp",
    "CustomDictionary",
    "Function",
    "TrainedModel",
    "TrainingGraph",
    "custom_op",
    "function",
    "grad",
    "train",
]

check_arguments(globals())
