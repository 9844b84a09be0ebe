"""Numbers that JSON has no words for, as elements of tensors."""

from __future__ import annotations

import numpy as np
import pytest

from amanda.files.text import json_form, readable, yaml_form
from amanda.graph import Graph
from amanda.tensors import Tensor

ODD = [float("inf"), float("-inf"), float("nan"), -0.0]


@pytest.mark.parametrize("form", [json_form, yaml_form, readable])
@pytest.mark.parametrize("number", ODD)
def test_elements_and_splats(form, number: float) -> None:
    graph = Graph("amanda/test/1")
    graph.constant(Tensor.of(np.array([number, 1.5], "float32")), "some")
    graph.constant(Tensor.splat("float32", (3, 4), number), "all")
    text = form.dumps(graph)
    assert form.loads(text).difference(graph) is None
    assert form.dumps(form.loads(text)) == text
