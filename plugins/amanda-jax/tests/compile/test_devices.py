"""Devices by name, those that are here and those that are not."""

from __future__ import annotations

from typing import NamedTuple

import jax
import pytest

import amanda
from amanda.errors import BackendError
from amanda.types import parse_type
from amanda_jax.backend import JaxBackend
from amanda_jax.devices import DeviceState, find_device
from amanda_std import ops, trace

ONLY_CPU = pytest.mark.skipif(
    jax.default_backend() != "cpu", reason="an accelerator is here"
)


def graph():
    return trace(ops.relu, [parse_type("float32[n]")])


def test_the_processor_is_always_there():
    assert "cpu" in JaxBackend().devices()
    assert find_device("cpu") == find_device("cpu:0") == jax.devices("cpu")[0]
    compiled = amanda.compile(graph(), "jax:cpu")
    assert compiled([[-1.0, 1.0]])[0].tolist() == [0, 1]
    assert compiled.executable.report().device == str(jax.devices("cpu")[0])


def test_states_tell_what_is_here_and_why_others_are_not():
    rows = {row.name: row for row in JaxBackend().states()}
    assert rows["cpu"].state == "usable"
    assert str(DeviceState("tpu", "absent", "none")) == "jax:tpu: absent, none"
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
        ({"precison": "high"}, "has no option 'precison'"),
        ({"precision": "low"}, "'precision' of backend 'jax' cannot be 'low'"),
        ({"programs": 0}, "'programs' of backend 'jax' is a number of programs"),
    ],
)
def test_options_are_checked(option, text):
    with pytest.raises(BackendError, match=text):
        amanda.compile(graph(), "jax", **option)


@ONLY_CPU
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cuda", 'pip install "jax[cuda13]"'),
        ("rocm:1", "GPU of AMD"),
        ("CPU", "did you mean 'cpu'?"),
        ("cpu:700", "xla_force_host_platform_device_count"),
        ("0", "a number alone names no platform"),
        ("abacus", "plug-ins of PJRT: install the one for 'abacus'"),
    ],
)
def test_what_to_do_for_a_device_that_is_not_here(name, text):
    with pytest.raises(BackendError) as caught:
        find_device(name)
    assert text in str(caught.value)


def test_a_platform_that_jax_is_told_not_to_have(monkeypatch):
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    for row in JaxBackend().states():
        if row.state == "absent":
            assert "JAX_PLATFORMS=cpu in the environment leaves it out" in row.reason


def test_a_platform_that_jax_is_told_to_have_and_has_not(monkeypatch):
    def fail() -> str:
        raise RuntimeError("Unable to initialize backend 'moon'")

    monkeypatch.setattr(jax, "default_backend", fail)
    monkeypatch.setenv("JAX_PLATFORMS", "moon")
    with pytest.raises(BackendError, match="JAX cannot start here") as caught:
        find_device(None)
    assert "Unable to initialize backend 'moon'" in str(caught.value)
    assert "JAX_PLATFORMS is 'moon' in the environment: unset it" in str(caught.value)


class Chip(NamedTuple):
    """A device as JAX tells of it."""

    platform: str
    number: int
    device_kind: str = "a chip"


def test_devices_of_any_platform(monkeypatch):
    """As JAX has them where there are two GPUs: by `gpu`, and by their maker's name."""
    gpus, cpus = [Chip("gpu", 0), Chip("gpu", 1)], [Chip("cpu", 0)]
    moons = [Chip("moon", 0)]
    named = {"gpu": gpus, "cuda": gpus, "moon": moons, "cpu": cpus}

    def devices(backend: str) -> list[Chip]:
        if backend not in named:
            raise RuntimeError(f"Unknown backend {backend}")
        return named[backend]

    monkeypatch.setattr(jax, "local_devices", devices)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr("jax.extend.backend.backends", lambda: ["cpu", "cuda", "moon"])
    assert JaxBackend().devices() == ["gpu:0", "gpu:1", "cpu", "moon:0"]
    assert find_device(None) is find_device("gpu") is find_device("cuda") is gpus[0]
    assert find_device("gpu:1") is find_device("cuda:1") is gpus[1]
    assert find_device("moon") is moons[0]
    assert [row.name for row in JaxBackend().states() if row.state == "absent"] == [
        "tpu"
    ]
    for name in ("gpu:2", "cuda:2", "rocm"):
        with pytest.raises(BackendError, match="has no device"):
            find_device(name)
