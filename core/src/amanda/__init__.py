"""Amanda: one graph for every machine learning framework.

Load a model of any framework into one graph, look into it, change it, convert it, and
run it on any backend chosen by name. Frameworks, mappings and backends are plug-ins.

>>> import amanda
>>> graph = amanda.Graph(name="tiny")
>>> x = graph.parameter(amanda.parse_type("float32[n, 3]"), name="x")
>>> relu = graph.add("Relu", [x], name="relu")
>>> _ = graph.result(relu.output, name="y")
>>> [op.name for op in graph]
['relu']

Names are imported when they are first used: `import amanda` alone loads none of the
libraries that the core stands on.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from amanda import current_host

__version__ = "0.1.0"

# The public face: which module each name comes from. The block below tells type
# checkers the same, and a test holds the two together.
_FACE = {
    "amanda.api.compilation": ("backends", "compile", "run"),
    "amanda.api.conversion": ("convert", "plan"),
    "amanda.api.files": ("load", "save"),
    "amanda.api.improvement": ("improve",),
    "amanda.api.namespaces": ("namespace", "plugins"),
    "amanda.frontend": ("custom_op", "function", "grad", "train"),
    "amanda.errors": ("AmandaError",),
    "amanda.graph": (
        "Edge",
        "Entry",
        "Graph",
        "InputPort",
        "Op",
        "OutputPort",
        "Provenance",
        "bulk",
        "snap",
    ),
    "amanda.host": ("Host", "default_host"),
    "amanda.instrument": ("apply",),
    "amanda.session": ("Session",),
    "amanda.tensors": ("FunctionRef", "Tensor"),
    "amanda.types": (
        "DType",
        "Dim",
        "MapType",
        "OpaqueType",
        "OptionalType",
        "Quantized",
        "RefType",
        "ResourceType",
        "SequenceType",
        "Shape",
        "Sym",
        "TensorType",
        "TokenType",
        "TupleType",
        "Type",
        "VoidType",
        "parse_type",
    ),
}

_MODULES = ("errors", "types")  # modules that are part of the face as they are

_HOME = {name: module for module, names in _FACE.items() for name in names}
_HOME |= {name: f"amanda.{name}" for name in _MODULES}

if TYPE_CHECKING:
    from amanda import errors, types
    from amanda.api.compilation import backends, compile, run
    from amanda.api.conversion import convert, plan
    from amanda.api.files import load, save
    from amanda.api.improvement import improve
    from amanda.api.namespaces import namespace, plugins
    from amanda.errors import AmandaError
    from amanda.frontend import custom_op, function, grad, train
    from amanda.graph import (
        Edge,
        Entry,
        Graph,
        InputPort,
        Op,
        OutputPort,
        Provenance,
        bulk,
        snap,
    )
    from amanda.host import Host, default_host
    from amanda.instrument import apply
    from amanda.session import Session
    from amanda.tensors import FunctionRef, Tensor
    from amanda.types import (
        Dim,
        DType,
        MapType,
        OpaqueType,
        OptionalType,
        Quantized,
        RefType,
        ResourceType,
        SequenceType,
        Shape,
        Sym,
        TensorType,
        TokenType,
        TupleType,
        Type,
        VoidType,
        parse_type,
    )

__all__ = [
    "AmandaError",
    "DType",
    "Dim",
    "Edge",
    "Entry",
    "FunctionRef",
    "Graph",
    "Host",
    "InputPort",
    "MapType",
    "Op",
    "OpaqueType",
    "OptionalType",
    "OutputPort",
    "Provenance",
    "Quantized",
    "RefType",
    "ResourceType",
    "SequenceType",
    "Session",
    "Shape",
    "Sym",
    "Tensor",
    "TensorType",
    "TokenType",
    "TupleType",
    "Type",
    "VoidType",
    "__version__",
    "apply",
    "backends",
    "bulk",
    "compile",
    "convert",
    "custom_op",
    "default_host",
    "errors",
    "function",
    "grad",
    "improve",
    "load",
    "namespace",
    "parse_type",
    "plan",
    "plugins",
    "run",
    "save",
    "snap",
    "train",
    "types",
]


def __getattr__(name: str) -> object:
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module 'amanda' has no attribute {name!r}")
    found = import_module(module)
    value: object = found if name in _MODULES else getattr(found, name)
    globals()[name] = value  # so that this is asked once
    return value


def _default_host() -> object:
    return import_module("amanda.host").default_host()


current_host.default = _default_host


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
