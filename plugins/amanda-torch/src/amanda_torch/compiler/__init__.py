"""`torch.compile(model, backend="amanda", options={"backend": "jax"})`.

entry.py      the entry of `torch_dynamo_backends`: AOTAutograd, forward and backward
options.py    the options
programs.py   graphs of AOTAutograd as graphs of ATen ops
passed.py     results that PyTorch returns: inputs, their views, sizes
pieces.py     graphs with ops that have no rule, cut into pieces
calls.py      calls of a compiled graph with tensors
"""

from __future__ import annotations

from amanda_torch.compiler.entry import compile_module

__all__ = ["compile_module"]
