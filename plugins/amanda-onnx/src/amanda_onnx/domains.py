"""Domains of ONNX as namespaces of Amanda, and the keys of local functions.

    domain                          namespace
    "" or ai.onnx, opset 18         amanda/onnx/18
    ai.onnx.ml, version 5           amanda/onnx.ml/5
    ai.onnx.preview.training, 1     amanda/onnx.preview.training/1
    com.microsoft, version 1        onnx/com.microsoft/1

A local function `relu` of the domain `acme` is `graph.functions["acme::relu"]`, with an
overload, if it has one, after a further `::`. An op of its type and domain calls it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from amanda.graph import Graph, Op
from amanda_onnx.format.model_metadata import notes_of

__all__ = [
    "DEFAULT",
    "IR_OF_OPSET",
    "called_function",
    "domain_of",
    "function_key",
    "namespace_of",
    "opset_of",
]

DEFAULT: Final = ("", "ai.onnx")
"""Both spellings of ONNX's own domain."""

_ONNX_PATH: Final = "amanda/onnx"
_PATHS: Final = {
    "ai.onnx.ml": f"{_ONNX_PATH}.ml",
    "ai.onnx.preview": f"{_ONNX_PATH}.preview",
    "ai.onnx.preview.training": f"{_ONNX_PATH}.preview.training",
}
_DOMAINS: Final = {path: domain for domain, path in _PATHS.items()} | {_ONNX_PATH: ""}
_OTHER_PREFIX: Final = "onnx/"

IR_OF_OPSET: Final = {
    1: 3, 5: 3, 6: 3, 7: 3, 8: 3, 9: 4, 10: 5, 11: 6, 12: 7, 13: 7, 14: 7, 15: 8,
    16: 8, 17: 8, 18: 8, 19: 9, 20: 9, 21: 10, 22: 10, 23: 11, 24: 12, 25: 13, 26: 13,
    27: 13, 28: 14,
}  # fmt: skip
"""The IR version of each opset; a test compares it with onnx's own."""


def namespace_of(domain: str, version: int) -> str:
    """The namespace of a domain at a version.

    >>> namespace_of("", 18), namespace_of("com.microsoft", 1)
    ('amanda/onnx/18', 'onnx/com.microsoft/1')
    """
    path = (
        _ONNX_PATH
        if domain in DEFAULT
        else _PATHS.get(domain, f"{_OTHER_PREFIX}{domain}")
    )
    return f"{path}/{version}"


def domain_of(namespace: str) -> tuple[str, int] | None:
    """Domain and version of a namespace; None for one that is not of ONNX.

    >>> domain_of("onnx/com.microsoft/1"), domain_of("amanda/std/1")
    (('com.microsoft', 1), None)
    """
    path, _, version = namespace.rpartition("/")
    if not (version.isascii() and version.isdigit() and len(version) < 20):
        return None
    if path in _DOMAINS:
        return _DOMAINS[path], int(version)
    if path.startswith(_OTHER_PREFIX):
        return path.removeprefix(_OTHER_PREFIX), int(version)
    return None


def opset_of(imports: Mapping[str, int]) -> int:
    """The opset of ONNX's own domain; 1 for none, as before IR version 3."""
    return next((imports[domain] for domain in DEFAULT if domain in imports), 1)


def function_key(domain: str, name: str, overload: str = "") -> str:
    """The name of a local function in the root graph.

    >>> function_key("acme", "relu"), function_key("acme", "relu", "int8")
    ('acme::relu', 'acme::relu::int8')
    """
    key = f"{domain}::{name}"
    return f"{key}::{overload}" if overload else key


def called_function(op: Op) -> Graph | None:
    """The local function that an op calls, else None."""
    root: Op | None = op.graph
    while isinstance(root, Graph):
        around = root.graph or root.holder or root.owner
        if around is None:
            break
        root = around if isinstance(around, Graph) else around.graph
    space = domain_of(op.namespace or "")
    if not isinstance(root, Graph) or space is None or not root.functions:
        return None
    overload = notes_of(op).get("overload", "")
    return root.functions.get(function_key(space[0], op.type or "", overload))
