"""The tables of bindings, against PyTorch's own classes."""

from __future__ import annotations

import inspect

import pytest

torch = pytest.importorskip("torch")

import amanda  # noqa: E402  after PyTorch, which the plug-in imports as well
from amanda_torch.source.bindings import FUNCTIONAL, FUNCTIONS, METHODS  # noqa: E402

OPS = {name.split(".")[1] for name in amanda.namespace("torch@2.13")
       if name.startswith("aten.")}  # fmt: skip


def is_bound(owner, name):
    """Whether PyTorch's generator of bindings wrote a function: it is of C."""
    found = getattr(owner, name, None)
    return found is not None and not hasattr(found, "__code__")


def test_methods_are_bound_by_pytorch():
    assert sorted(n for n in METHODS if not is_bound(torch.Tensor, n)) == []
    assert sorted(METHODS - OPS) == []


def test_functions_are_bound_by_pytorch():
    assert sorted(n for n in FUNCTIONS if not is_bound(torch, n)) == []
    assert sorted(FUNCTIONS - OPS) == []


def test_functions_of_nn_have_the_arguments_of_their_ops():
    """Those written in Python are compared by their parameters."""
    functional = torch.nn.functional
    assert sorted(n for n in FUNCTIONAL if not hasattr(functional, n)) == []
    for name in sorted(FUNCTIONAL):
        function = getattr(functional, name)
        if not hasattr(function, "__code__"):
            continue
        found = inspect.signature(function).parameters.values()
        given = [each.name for each in found if each.name != "inplace"]
        if any(each.kind == each.VAR_POSITIONAL for each in found):
            continue  # it calls one of two by `return_indices`
        op = getattr(torch.ops.aten, name)
        schemas = [getattr(op, each)._schema for each in op.overloads()]
        known = [[a.name for a in schema.arguments] for schema in schemas]
        count = len(given)
        assert any(
            len(names) >= count and names[1:count] == given[1:] for names in known
        ), (name, given, known)
