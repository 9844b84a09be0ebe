"""What the installed onnxruntime supports: ops, opsets, domains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

__all__ = ["newest_schema", "op_schemas", "unsupported_domains", "version"]

_ONNX_DOMAINS: Final = ("ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training")


def version() -> str:
    import onnxruntime

    return str(onnxruntime.__version__)


def _schemas() -> list[Any]:
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    return list(state.get_all_operator_schema())


@cache
def op_schemas() -> Mapping[tuple[str, str], Sequence[int]]:
    """For each op, by domain and type, the opsets that defined or changed it."""
    found: dict[tuple[str, str], list[int]] = {}
    for op in _schemas():
        found.setdefault((op.domain, op.name), []).append(int(op.since_version))
    return found


@cache
def newest_schema() -> int:
    """The newest opset of which an op has a schema; it may be under development."""
    return max(int(op.since_version) for op in _schemas() if not op.domain)


@cache
def unsupported_domains() -> frozenset[str]:
    """The domains of ONNX itself of which onnxruntime has no op."""
    return frozenset(_ONNX_DOMAINS) - {domain for domain, _ in op_schemas()}
