"""The backend `tensorflow`: graphs of its ops, run by an installed TensorFlow."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from amanda.backend import DynamicSize
from amanda.errors import BackendError
from amanda.graph import Graph, Op
from amanda.types import DType
from amanda_tf.messages import ELEMENT_TYPES

if TYPE_CHECKING:
    from amanda_tf.executable import TensorFlowExecutable

__all__ = ["Backend"]


def import_tensorflow() -> Any:
    """The module `tensorflow`, imported without its log lines."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        import tensorflow as tf
    except ImportError as error:
        raise BackendError(
            "TensorFlow is not installed",
            hint="pip install 'amanda-tf[tensorflow]'",
        ) from error
    return tf


class Backend:
    """TensorFlow as installed, on CPU and GPU devices."""

    name = "tensorflow"
    profiles = True

    @property
    def namespace(self) -> str:
        """All versions up to the installed one."""
        from importlib.metadata import PackageNotFoundError, version

        for name in ("tensorflow", "tensorflow-cpu"):
            try:
                return f"amanda/tensorflow/1.0..{version(name)}"
            except PackageNotFoundError:
                continue
        return "amanda/tensorflow/*"

    def devices(self) -> Sequence[str]:
        """`cpu`, and `gpu:0` etc., a GPU first."""
        found = import_tensorflow().config.list_logical_devices()
        names = [d.name.split("device:")[-1].lower() for d in found]
        short = ["cpu" if name == "cpu:0" else name for name in names]
        return sorted(short, key=lambda name: not name.startswith("gpu"))

    def dynamic_sizes(self, graph: Graph) -> Sequence[DynamicSize]:
        """None: a graph of TensorFlow serves feeds of all sizes."""
        del graph
        return ()

    def prepare(self, graph: Graph) -> Graph:
        """With inputs in place of placeholder ops, and results: what no op uses."""
        from amanda import namespace
        from amanda_tf.derived_attributes import add_derived_attributes
        from amanda_tf.loading.interface import add_results
        from amanda_tf.mapping.placeholders import (
            PLACEHOLDERS,
            placeholders_to_parameters,
        )

        values = [value for value in graph.results if value is not None]
        read = graph.upstream(*values)
        if values and not any(op.type in PLACEHOLDERS for op in read):
            return graph  # others belong to other signatures, or to saving
        copy = graph.clone()
        add_results(copy)
        placeholders_to_parameters(copy)
        dictionary: Any = namespace(graph.namespace or "tensorflow")
        add_derived_attributes(copy, dictionary)
        return copy

    def takes(self, op: Op) -> Literal[True] | str:
        """True, or why the op is not supported."""
        if isinstance(op, Graph):
            return "a GraphDef has no nested graphs as ops"
        registry = import_tensorflow().raw_ops
        if op.type == "Cast":
            return _cast_fault(op) or True
        if hasattr(registry, op.type or "") or op.type in _OTHER:
            return _kernel_fault(op) or True
        root = op.graph
        while root is not None and root.graph is not None:
            root = root.graph
        if root is not None and op.type in root.functions:
            return True
        return f"TensorFlow {import_tensorflow().__version__} has no op {op.type}"

    def compile(
        self, graph: Graph, device: str | None, options: Mapping[str, Any]
    ) -> TensorFlowExecutable:
        from amanda_tf.executable import TensorFlowExecutable

        known = self.devices()
        if device is not None and device not in known:
            raise BackendError(
                f"TensorFlow has no device {device!r} here",
                expected=f"one of {', '.join(known)}",
            )
        unknown = sorted(set(options) - {"profile"})
        if unknown:
            raise BackendError(f"backend {self.name!r} has no option {unknown[0]!r}")
        return TensorFlowExecutable(graph, device)


def _cast_fault(op: Op) -> str | None:
    """Why TensorFlow has no such cast; its kernels decide when they run."""
    source = op.attrs.get("SrcT"), op.attrs.get("DstT")
    if not all(isinstance(dtype, DType) for dtype in source):
        return None
    if _has_cast(*(str(dtype) for dtype in source)):
        return None
    return f"TensorFlow has no cast from {source[0]} to {source[1]}"


@cache
def _has_cast(source: str, target: str) -> bool:
    import numpy as np

    tf = import_tensorflow()
    try:
        value = tf.constant(np.zeros((1,), DType(source).numpy))
        tf.cast(value, tf.dtypes.as_dtype(target))
    except (tf.errors.OpError, TypeError, ValueError):
        return False
    return True


def _kernel_fault(op: Op) -> str | None:
    """Why no kernel on CPU has the element types of an op, where that is known."""
    constraints = _kernels(op.type or "")
    if constraints is None:
        return None
    for allowed in constraints:
        if all(
            _code(op.attrs.get(key)) in (None, *codes) for key, codes in allowed.items()
        ):
            return None
    dtypes = {k: str(v) for k, v in op.attrs.items() if isinstance(v, DType)}
    return f"TensorFlow has no kernel of {op.type} for {dtypes}"


@cache
def _kernels(type: str) -> list[dict[str, list[int]]] | None:
    """The element types of each kernel on CPU; None where there is no such list."""
    import_tensorflow()
    from tensorflow.python.framework import kernels

    found = kernels.get_registered_kernels_for_op(type).kernel
    rows = [
        {c.name: list(c.allowed_values.list.type) for c in kernel.constraint}
        for kernel in found
        if kernel.device_type == "CPU"
    ]
    return rows or None


def _code(dtype: Any) -> int | None:
    return ELEMENT_TYPES.code(dtype) if isinstance(dtype, DType) else None


_OTHER = (
    "If",
    "StatelessIf",
    "While",
    "StatelessWhile",
    "Placeholder",
    "_Arg",
    "_Retval",
)
"""Ops that TensorFlow's Python module of op functions does not list."""
