"""Devices by name, those that are here and those that are not."""

from __future__ import annotations

import jax
import pytest

import amanda
from amanda.errors import BackendError
from amanda.types import parse_type
from amanda_jax.backend import JaxBackend
from amanda_jax.devices import State, chosen
from amanda_std import ops, trace

ONLY_CPU = pytest.mark.skipif(
    jax.default_backend() != "cpu", reason="an accelerator is here"
)


def graph():
    return trace(ops.relu, [parse_type("float32[n]")])


def test_the_processor_is_always_there():
    assert "cpu" in JaxBackend().devices()
    assert chosen("cpu") == chosen("cpu:0") == jax.devices("cpu")[0]
    compiled = amanda.compile(graph(), "jax:cpu")
    assert compiled([[-1.0, 1.0]])[0].tolist() == [0, 1]
    assert compiled.executable.report().device == str(jax.devices("cpu")[0])


def test_states_tell_what_is_here_and_why_others_are_not():
    rows = {row.name: row for row in JaxBackend().states()}
    assert rows["cpu"].state == "usable"
    assert str(State("tpu", "absent", "none")) == "jax:tpu: absent, none"
    if "tpu" in rows:
        assert rows["tpu"].state == "absent"
        assert "pip install" in rows["tpu"].reason


@ONLY_CPU
@pytest.mark.parametrize("name", ["gpu", "gpu:3", "tpu"])
def test_an_absent_device(name):
    with pytest.raises(BackendError) as caught:
        amanda.compile(graph(), f"jax:{name}")
    assert f"has no device '{name}' here" in str(caught.value)
    assert "one of cpu" in str(caught.value)
    assert "pip install" in str(caught.value)


def test_an_unknown_device():
    with pytest.raises(BackendError, match="has no device 'abacus' here"):
        amanda.compile(graph(), "jax:abacus")


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ({"precison": "high"}, "knows no option 'precison'"),
        ({"precision": "low"}, "'precision' of backend 'jax' cannot be 'low'"),
        ({"programs": 0}, "'programs' of backend 'jax' is a number of programs"),
    ],
)
def test_options_are_checked(option, text):
    with pytest.raises(BackendError, match=text):
        amanda.compile(graph(), "jax", **option)
