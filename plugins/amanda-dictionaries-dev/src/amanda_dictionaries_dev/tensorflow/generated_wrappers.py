"""Parse the Python wrappers that TensorFlow generates for its ops.

A file `gen_*_ops.py` of TensorFlow 0.12 to 1.15 contains the definitions of its ops, as
text before 1.3 and serialized since then, and a function for each, with a docstring.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

_LIBRARY_INIT = "_InitOpDefLibrary"
_CALLS = {"apply_op", "_apply_op_helper"}


def read_op_list(source: str) -> bytes:
    """Read the op definitions of a file, serialized.

    >>> read_op_list("x = _InitOpDefLibrary(b'abc')")
    b'abc'
    """
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(
                func=ast.Name(id=name), args=[ast.Constant(value=bytes(content))]
            ) if name == _LIBRARY_INIT:
                return content
            case ast.Assign(
                targets=[ast.Attribute(value=ast.Name(id=name))],
                value=ast.Constant(value=str(text)),
            ) if name == _LIBRARY_INIT:
                return _serialize_text(text)
    raise ValueError("this file has no op definitions")


def _serialize_text(text: str) -> bytes:
    from google.protobuf import text_format
    from tensorflow.core.framework import op_def_pb2

    found = text_format.Parse(text, op_def_pb2.OpList())
    content: bytes = found.SerializeToString()
    return content


def read_docs(source: str) -> dict[str, str]:
    """Read the docstring of each op's function."""
    return dict(_docs(ast.parse(source)))


def _docs(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for function in tree.body:
        if not isinstance(function, ast.FunctionDef):
            continue
        text = ast.get_docstring(function)
        for node in ast.walk(function):
            match node:
                case ast.Call(
                    func=ast.Attribute(attr=name),
                    args=[ast.Constant(value=str(op)), *_],
                ) if name in _CALLS and text:
                    yield op, text
