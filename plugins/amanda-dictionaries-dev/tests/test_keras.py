"""The dictionary of the installed Keras beside its classes."""

from __future__ import annotations

import inspect
import os
import sys
from pathlib import Path

import pytest

from amanda.dictionary import OpDef
from amanda_dictionaries_dev.keras.class_sources import read_layers
from amanda_dictionaries_dev.keras.extractor import KerasExtractor
from amanda_dictionaries_dev.keras.op_definitions import find_constructor
from amanda_dictionaries_dev.keras.op_definitions import layer_definitions as entries_of


@pytest.fixture(scope="module")
def entries() -> dict[str, OpDef]:
    pytest.importorskip("keras", reason="needs keras")
    (found,) = KerasExtractor().installed_ops().versions.values()
    return {entry.name: entry for entry in found if not entry.name.startswith("ops.")}


# What stands for an argument that must be given.
GIVEN = {"int": 2, "number": 0.5, "bool": True, "string": "x"}


@pytest.mark.scale
@pytest.mark.filterwarnings("ignore")
def test_what_layers_hold_is_of_the_kinds(
    entries: dict[str, OpDef], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The configurations of layers that are made of plain values."""
    if "KERAS_BACKEND" not in os.environ:
        monkeypatch.setenv("KERAS_BACKEND", "jax")
    keras = pytest.importorskip("keras", exc_type=ImportError)
    held = {"int": int, "number": (int, float), "string": str, "bool": bool}
    checked = 0
    for name, entry in entries.items():
        needed = [attr for attr in entry.attrs if attr.required]
        if not all(attr.kind in GIVEN for attr in needed):
            continue
        try:
            layer = getattr(keras.layers, name)(
                **{a.name: GIVEN[a.kind] for a in needed}
            )
        except (TypeError, ValueError, ImportError):
            continue  # it wants more than its constructor says
        config = layer.get_config()
        for attr in entry.attrs:
            kind = attr.kind.removesuffix("?")
            value = config.get(attr.name)
            if kind in held and attr.name in config:
                fits = isinstance(value, held[kind])
                none = value is None and attr.kind.endswith("?")
                assert fits or none, (name, attr.name, value)
                checked += 1
    assert checked > 180


def as_json(value: object) -> object:
    return [as_json(item) for item in value] if isinstance(value, tuple) else value


@pytest.mark.filterwarnings("ignore")
def test_constructors_take_what_the_entries_say(
    entries: dict[str, OpDef], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the classes themselves say, once they are imported."""
    if "KERAS_BACKEND" not in os.environ:
        monkeypatch.setenv("KERAS_BACKEND", "jax")
    keras = pytest.importorskip("keras", exc_type=ImportError)
    classes = {
        cls.__name__: cls
        for cls in vars(keras.layers).values()
        if inspect.isclass(cls) and cls.__module__.startswith("keras.src.layers.")
    }
    assert set(classes) == set(entries)
    checked = 0
    for name, cls in classes.items():
        if "__init__" not in vars(cls):
            continue
        parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
        named = [
            p for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
        ]
        entry = entries[name]
        assert [attr.name for attr in entry.attrs] == [p.name for p in named]
        assert entry.open == (len(named) < len(parameters))
        for attr, parameter in zip(entry.attrs, named, strict=True):
            assert attr.required == (parameter.default is parameter.empty)
            if not attr.required and not str(attr.default).isupper():  # a constant
                assert attr.default == as_json(parameter.default), (name, attr.name)
        checked += 1
    assert checked > 100


@pytest.mark.filterwarnings("ignore")
def test_operations_are_those_of_keras(monkeypatch: pytest.MonkeyPatch) -> None:
    if "KERAS_BACKEND" not in os.environ:
        monkeypatch.setenv("KERAS_BACKEND", "jax")
    keras = pytest.importorskip("keras", exc_type=ImportError)
    (found,) = KerasExtractor().installed_ops().versions.values()
    entries = {e.name: e for e in found if e.name.startswith("ops.")}
    modules = [
        m for name, m in sys.modules.items() if name.startswith("keras.src.ops.")
    ]
    classes = {
        f"ops.{cls.__name__}": cls
        for module in modules
        for cls in vars(module).values()
        if inspect.isclass(cls)
        and issubclass(cls, keras.Operation)
        and cls.__module__ == module.__name__
        and cls is not keras.Operation
        and not module.__name__.endswith(".function")
    }
    assert {name for name in classes if name not in entries} == set()
    assert len(entries) > 320
    for name, cls in classes.items():
        if "__init__" in vars(cls):
            parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
            names = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
            assert [attr.name for attr in entries[name].attrs] == names


SOURCE = '''
@keras_export("keras.layers.Base")
class Base(Layer):
    """A base.

    More of it.

    Args:
        units: Positive integer, how large.
        shape: Integer or tuple of integers.
    """

    def __init__(self, units, shape=(1, 2), *, name=None, **kwargs):
        pass

@keras_export(["keras.layers.Child", "keras.layers.Kid"])
class Child(base.Base):
    pass

@keras_export("keras.ops.Other")
class Other:
    pass

class Inner(Base):
    pass
'''


def test_sources_are_read(tmp_path: Path) -> None:
    (tmp_path / "base.py").write_text(SOURCE)
    (tmp_path / "base_test.py").write_text(SOURCE)
    found = list(read_layers(tmp_path))
    rows = {layer.name: layer.row for layer in found}
    told = [["units"], ["shape", "(1, 2)"], ["name", "*", "None"], ["**kwargs"]]
    assert rows == {
        "Base": {"bases": ["Layer"], "init": told, "kinds": {"units": "int"}},
        "Child": {"bases": ["base.Base"], "init": None, "kinds": {}},
    }
    assert found[0].doc.startswith("A base.")
    assert find_constructor(rows["Child"], rows) == told
    base, child = entries_of(rows, {})
    assert base.attrs == child.attrs
    assert [attr.kind for attr in child.attrs] == ["int", "any", "any"]
    assert find_constructor({"bases": ["Unknown"], "init": None}, rows) == (
        ("**kwargs",),
    )
