"""Programs that write into tensors, as programs of values.

in_place.py    ops that write, as ops that return what they would write
views.py       what a write into a view writes into its base
storages.py    tensors that share memory, and their current values
diagonals.py   fill_diagonal_
memory.py      ops that name places in the memory of a tensor
custom_ops.py  ops of `torch.library`
number_results.py  results that are plain numbers
effects.py     ops without a result that are left out
"""

from __future__ import annotations

from amanda_torch.mapping.functionalization.effects import find_left_out
from amanda_torch.mapping.functionalization.in_place import functionalize

__all__ = ["find_left_out", "functionalize"]
