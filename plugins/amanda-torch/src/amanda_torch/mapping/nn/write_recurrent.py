"""To PyTorch: recurrent layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from amanda.graph import OutputPort
from amanda.mapping import Decline, constant_of
from amanda_torch.mapping.written_arguments import (
    dims_of,
    dtype_of,
    write_call,
    write_constant,
    write_size,
)

__all__ = ["WRITE"]

_DIRECTIONS = {"forward": 1, "bidirectional": 2}


def _reset_gates_first(weight: Any) -> Any:
    """The gates of a GRU in the order of PyTorch: reset, update, new."""
    update, reset, new = np.split(weight, 3)
    return np.concatenate([reset, update, new])


def _as_it_is(weight: Any) -> Any:
    return weight


def _layer(
    name: str, states: int, change: Callable[[Any], Any] = _as_it_is
) -> Callable[..., Any]:
    """The function of a kind of layers whose weights are constant."""

    def write(
        o: Any, x: Any, w: Any, r: Any, bias: Any = None, recurrent_bias: Any = None,
        lengths: Any = None, *initial: Any, direction: str = "forward",
        batch_first: bool = False, **options: Any,
    ) -> Any:  # fmt: skip
        count = _DIRECTIONS.get(direction)
        is_known = name != "gru" or options.pop("reset_after", False) is True
        unknown = [k for k, v in options.items() if v is not None and v is not False]
        if count is None or unknown or not is_known:
            raise Decline(f"PyTorch has no such layer: {direction}, {unknown}")
        given = [*initial, *[None] * (states - len(initial))]
        if lengths is not None or any(v is not None for v in given[states:]):
            raise Decline("PyTorch has no lengths, peepholes and projections here")
        arrays = _weights(w, r, bias, recurrent_bias)
        params = [
            write_constant(o, np.ascontiguousarray(change(array[i])))
            for i in range(count) for array in arrays
        ]  # fmt: skip
        batch = dims_of(x)[0 if batch_first else 1]
        size = arrays[1].shape[2]
        given = [
            _zeros(o, x, [count, batch, size]) if _is_zero(v) else v
            for v in given[:states]
        ]  # fmt: skip
        found = o.op(
            f"aten.{name}.input", x, given if states > 1 else given[0], params,
            has_biases=len(arrays) > 2, num_layers=1, dropout=0.0, train=False,
            bidirectional=count == 2, batch_first=batch_first, outputs=1 + states,
        )  # fmt: skip
        return _by_direction(o, found[0], count, batch_first), *found[1:]

    return write


def _weights(*values: Any) -> list[Any]:
    """The weights of a layer as arrays; a missing one of two biases is zero."""
    tensors = [constant_of(v) if isinstance(v, OutputPort) else None for v in values]
    w, r, *biases = (None if t is None else t.numpy() for t in tensors)
    if w is None or r is None:
        raise Decline("weights that are computed have no form here")
    if any(
        v is not None and b is None for v, b in zip(values[2:], biases, strict=True)
    ):
        raise Decline("biases that are computed have no form here")
    known = next((b for b in biases if b is not None), None)
    if known is None:
        return [w, r]
    return [w, r, *(np.zeros_like(known) if b is None else b for b in biases)]


def _is_zero(value: Any) -> bool:
    """Whether an initial state is absent, or zeros."""
    tensor = constant_of(value) if isinstance(value, OutputPort) else None
    return value is None or (tensor is not None and not tensor.numpy().any())


def _zeros(o: Any, x: Any, dims: list[Any]) -> Any:
    size = [write_size(o, dim) for dim in dims]
    return write_call(o, "full", size=size, fill_value=0.0, dtype=dtype_of(x))


def _by_direction(o: Any, y: Any, count: int, batch_first: bool) -> Any:
    """All outputs with an axis for the directions."""
    if count == 1:
        return write_call(o, "unsqueeze", y, dim=2 if batch_first else 1)
    parts = write_call(o, "unflatten.int", y, dim=2, sizes=[count, -1])
    return (
        parts if batch_first else write_call(o, "transpose.int", parts, dim0=1, dim1=2)
    )


WRITE: dict[str, Any] = {
    "lstm": _layer("lstm", 2),
    "gru": _layer("gru", 1, _reset_gates_first),
    "rnn": _layer("rnn_tanh", 1),
}
