"""Tensors of PyTorch as feeds of other backends."""

from __future__ import annotations

import numpy as np
import pytest

import amanda
from amanda.errors import UsageError
from amanda.tensors import as_array
from amanda_std import ops, trace

torch = pytest.importorskip("torch", reason="torch is not installed")

FEEDS = {
    "bfloat16": lambda: torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
    "with a gradient": lambda: torch.tensor([1.5, -2.0], requires_grad=True),
    "conjugated": lambda: torch.tensor([1 + 2j, 3j]).conj(),
    "negated": lambda: torch.tensor([1 + 2j, 3j]).conj().imag,
    "transposed": lambda: torch.arange(6.0).reshape(2, 3).t(),
}


@pytest.mark.parametrize("backend", ["numpy", "jax", "onnxruntime"])
@pytest.mark.parametrize("name", FEEDS)
def test_any_tensor_of_the_cpu_is_taken(name, backend):
    pytest.importorskip(backend)
    feed = FEEDS[name]()
    dtype = str(feed.dtype).removeprefix("torch.")
    type_ = amanda.parse_type(f"{dtype}{list(feed.shape)}")
    graph = trace(lambda x: ops.add(x, x), [type_])
    [found] = amanda.run(graph, [feed], backend=backend).values()
    wide = torch.complex64 if feed.is_complex() else torch.float32
    expected = (feed.detach() * 2).to(wide).resolve_conj().resolve_neg().numpy()
    np.testing.assert_array_equal(np.asarray(found).astype(expected.dtype), expected)


def test_memory_is_shared():
    feed = torch.tensor([1, 2], dtype=torch.bfloat16)
    array = as_array(feed)
    feed += 1
    assert array.astype("float32").tolist() == [2, 3]


def test_a_tensor_without_memory_is_refused():
    graph = trace(lambda x: ops.add(x, x), [amanda.parse_type("float32[2]")])
    feed = torch.empty(2, device="meta")
    with pytest.raises(UsageError, match="memory of this Tensor cannot be read"):
        amanda.run(graph, [feed], backend="numpy")
