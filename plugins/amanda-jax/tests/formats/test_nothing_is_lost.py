"""Nothing of a primitive is dropped without a word on its way to the hub set.

A function declines an op that has an attribute which it does not name. What it names
and does not look at is listed here, with the reason.
"""

from __future__ import annotations

from collections import defaultdict

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import amanda
from amanda.mapping.rules.checks import unread_inputs
from amanda_jax.formats.jaxprs.mapping import MAPPING

_PLACES = "where arrays lie is for whoever runs it to choose"
_FAST = "a hint: how fast, or how exact at least; not what"
UNREAD = {
    "algorithm": _FAST,
    "computation": "the function that the jaxpr of `reduce` was traced from",
    "context_mesh": _PLACES,
    "copy_semantics": _PLACES,
    "devices": _PLACES,
    "enable_eigvec_derivs": "about derivatives of eigenvectors; not their values",
    "implementation": _FAST,
    "indices_are_sorted": _FAST,
    "is_stable": "sorts of the hub set always are",
    "input_dtype": "of `conj`: the operand has it",
    "layout": _PLACES,
    "memory_space": _PLACES,
    "name": "for policies of what is recomputed, and for targets with such a composite",
    "out_sharding": _PLACES,
    "precision": _FAST,
    "preferred_element_type": "the type of the result is told",
    "sharding": _PLACES,
    "sort_eigenvalues": "those of the hub set always are",
    "srcs": _PLACES,
    "unconstrained_dims": _PLACES,
    "unroll": _FAST,
    "update_consts": "constants of `update_jaxpr`, which JAX leaves empty",
    "use_magma": _FAST,
    "weak_type": "the element type is told; weak ones decide while JAX traces only",
}


def test_what_functions_do_not_look_at_has_a_reason():
    side = MAPPING.program(amanda.namespace("jax").name, "amanda/std/1").source
    found = defaultdict(set)
    for function in MAPPING.rules.functions:
        signature = side.signature(function.term.type)
        for name in () if signature is None else unread_inputs(function, signature):
            found[name].add(function.term.type)
    assert set(found) == set(UNREAD), dict(found)


def test_an_attribute_that_no_function_names_is_told():
    graph = amanda.load(jax.jit(jnp.tanh), args=(np.float32([1, 2]),))
    [op] = [op for op in graph.walk() if op.type == "tanh"]
    op.attrs["novel"] = 3
    with pytest.raises(amanda.errors.ConversionError, match="novel"):
        amanda.convert(graph, "amanda/std/1")


# -- places that are not there ---------------------------------------------------------

X = np.arange(12).reshape(4, 3)
PLACES = np.int32([0, 5, -1, 3, -9])


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "bool"])
@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("mode", ["fill", "clip", "wrap"])
def test_places_outside_are_what_jax_has_there(dtype, axis, mode):
    x = X.astype(dtype)

    def taken(x, i):
        return jnp.take(x, i, axis=axis, mode=mode)

    expect_same(taken, x)


def test_a_value_for_places_outside():
    expect_same(lambda x, i: x.at[i].get(mode="fill", fill_value=7.0), X.astype("f"))


def expect_same(function, x):
    graph = amanda.convert(amanda.load(jax.jit(function), args=(x, PLACES)), "std")
    [found] = amanda.run(graph, [x, PLACES], backend="numpy").values()
    want = np.asarray(function(jnp.asarray(x), jnp.asarray(PLACES)))
    assert found.dtype == want.dtype
    np.testing.assert_array_equal(found, want)
