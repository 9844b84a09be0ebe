"""The tables of models; this process imports TensorFlow."""

from __future__ import annotations

import pytest

pytest.importorskip("tensorflow", reason="makes the models")

from amanda_tf_conformance.models.making import all_models


def test_there_are_models_of_every_theme():
    names = [model.name for model in all_models()]
    assert len(set(names)) == len(names) >= 500
    themes = {name.partition("_")[0] for name in names}
    assert themes >= {
        "function",
        "if",
        "case",
        "while",
        "array",
        "layer",
        "rnn",
        "einsum",
        "gradient",
        "nested",
        "table",
        "train",
        "training",
        "variable",
        "string",
    }
