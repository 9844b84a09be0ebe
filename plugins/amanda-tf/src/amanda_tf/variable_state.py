"""The variables and lookup tables of an executable, as those of TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from amanda.errors import UsageError
from amanda.graph import Graph, Op
from amanda.tensors import Tensor
from amanda_tf.backend import import_tensorflow
from amanda_tf.notes import TABLE_KEYS, TABLE_VALUES, VALUE

__all__ = ["VariableState", "make_table"]


class VariableState(Mapping[str, Any]):
    """The values of variables by key; reading returns copies."""

    def __init__(self, graph: Graph) -> None:
        handles = [op for op in graph if op.type == "VarHandleOp"]
        self._initial = {_key(op): op.attrs.get(VALUE) for op in handles}
        self._variables = {_key(op): _make_variable(op) for op in handles}

    def handle(self, op: Op) -> Any:
        """The handle of the variable of a `VarHandleOp`."""
        return self._variables[_key(op)].handle

    def __getitem__(self, key: str) -> Any:
        if key not in self._variables:
            raise KeyError(
                f"no variable {key!r}; there are: {', '.join(self) or 'none'}"
            )
        if not self._variables[key].is_initialized():
            raise UsageError(
                f"the variable {key!r} has no value yet", hint="assign one first"
            )
        return self._variables[key].numpy()

    def __setitem__(self, key: str, value: Any) -> None:
        self._variables[key].assign(value)

    def __iter__(self) -> Iterator[str]:
        return iter(self._variables)

    def __len__(self) -> int:
        return len(self._variables)

    def reset(self, *keys: str) -> None:
        """Restore the initial values of some variables, or of all."""
        for key in keys or self:
            initial = self._initial[key]
            if initial is not None:
                self._variables[key].assign(initial.numpy())

    def __repr__(self) -> str:
        return f"<state of {', '.join(self) or 'nothing'}>"


def _key(op: Op) -> str:
    return str(op.attrs.get("shared_name") or op.name)


def _make_variable(op: Op) -> Any:
    tf = import_tensorflow()
    initial, dtype = op.attrs.get(VALUE), tf.dtypes.as_dtype(str(op.attrs["dtype"]))
    if isinstance(initial, Tensor):
        return tf.Variable(initial.numpy(), dtype=dtype, shape=tf.TensorShape(None))
    from tensorflow.python.ops.resource_variable_ops import UninitializedVariable

    return UninitializedVariable(dtype=dtype, shape=tf.TensorShape(None))


def make_table(op: Op) -> Any:
    """The handle of a new lookup table with the content that its op notes."""
    raw = import_tensorflow().raw_ops
    keys, values = op.attrs[TABLE_KEYS].numpy(), op.attrs[TABLE_VALUES].numpy()
    names = {name: str(op.attrs[name]) for name in ("key_dtype", "value_dtype")}
    handle = raw.AnonymousHashTable(**names)
    raw.InitializeTableV2(table_handle=handle, keys=keys, values=values)
    return handle
