"""Random arrays in place of weights, of the same shapes, types and statistics.

Elements have the mean, the standard deviation and the range of those that they replace.
Zeros, infinities and NaNs stay where they are: masks and pruned weights have them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import Any, Final

from amanda.graph import Graph
from amanda.tensors import Tensor
from amanda.types import DType

__all__ = ["RandomWeights"]

_SAMPLE: Final = 4096
"""Elements by which weights are found to be alike."""
_ALIKE: Final = 0.01
"""The median difference, in standard deviations, of weights that are alike."""
_LONG: Final = 8
"""Elements from which a list of numbers in an attribute is weights."""
_ROUNDS: Final = 4
"""How often elements are scaled, and cut to the range."""


class RandomWeights:
    """Replaces weights; those of two models that are alike get the same elements."""

    def __init__(self, seed: int) -> None:
        import numpy as np

        self._random = np.random.default_rng(seed)
        self._known: list[tuple[Any, Any]] = []
        """The weights of before, and the random ones."""
        self.replaced: list[str] = []
        self.kept: list[str] = []
        """Constants that stay as they are, and why."""

    def replace_in(self, graph: Graph, owner: str) -> None:
        """Replace the weights of a graph, of its bodies and functions."""
        for op in graph.walk():
            for key, value in list(op.attrs.items()):
                place = f"{op.label} of {owner}"
                if not op.is_constant:
                    place = f"attribute {key} of {place}"
                if isinstance(value, Tensor):
                    new = self.replace(value.numpy(), place)
                    op.attrs[key] = Tensor.of(new, value.dtype)
                elif _is_list_of_weights(value):
                    import numpy as np

                    new = self.replace(np.asarray(value, "float64"), place)
                    op.attrs[key] = type(value)(new.tolist())

    def replace(self, old: Any, place: str) -> Any:
        """A random array in place of one; itself where it has no weights."""
        import numpy as np

        reason = _reason_to_keep(old)
        if reason is not None:
            if getattr(old, "size", 2) > 1:
                self.kept.append(f"{place}: {reason}")
            return old
        self.replaced.append(place)
        wide = _widen(old)
        found = self._follow(wide)
        if found is None:
            found = _draw(wide, self._random)
            self._known.append((wide, found))
        if DType.of(old.dtype).kind in ("int", "uint"):
            found = np.clip(np.rint(found), old.min(), old.max())
        return found.astype(old.dtype).reshape(old.shape)

    def _follow(self, old: Any) -> Any:
        """What weights are with the random elements of others that are alike."""
        for known, new in self._known:
            if known.size == old.size:
                for axes in _orders_of_axes(known, old):
                    other, drawn = (
                        x.transpose(axes).reshape(old.shape) for x in (known, new)
                    )
                    is_same = (other == old) | (other != other)
                    return _where(is_same, drawn, drawn + (old - other))
        return None


def _reason_to_keep(old: Any) -> str | None:
    """Why an array is no weight, or is one that random elements would not resemble."""
    if not hasattr(old, "dtype"):
        return "no array"
    kind = DType.of(old.dtype)
    is_weight = kind.kind in ("float", "complex")
    if not is_weight and not (kind.kind in ("int", "uint") and kind.bits <= 8):
        return f"{kind} may decide shapes, or be indices"
    wide = _widen(old)
    wide = wide[_is_free(wide)]
    if wide.size < 2 or ((wide == wide.min()) | (wide == wide.max())).all():
        return "at most two distinct elements but zeros"
    return None


def _is_list_of_weights(value: Any) -> bool:
    is_long = isinstance(value, list | tuple) and len(value) >= _LONG
    return is_long and all(isinstance(each, float) for each in value)


def _widen(array: Any) -> Any:
    import numpy as np

    is_complex = array.dtype.kind == "c"
    return np.asarray(array).astype("complex128" if is_complex else "float64")


def _is_free(wide: Any) -> Any:
    """Which elements are to be random."""
    import numpy as np

    return np.isfinite(wide) & (wide != 0)


def _draw(old: Any, random: Any) -> Any:
    """Random elements, with the statistics of those that are not zero."""
    if old.dtype.kind == "c":
        return _draw(old.real, random) + 1j * _draw(old.imag, random)
    new, where = old.copy(), _is_free(old)
    values = old[where]
    if values.size:
        new[where] = _draw_like(values, random)
    return new


def _draw_like(values: Any, random: Any) -> Any:
    least, largest = values.min(), values.max()
    mean, spread = values.mean(), values.std()
    drawn = random.standard_normal(values.size)
    for _ in range(_ROUNDS):
        deviation = drawn.std()
        if deviation:
            drawn = (drawn - drawn.mean()) / deviation
        drawn = (mean + spread * drawn).clip(least, largest)
    return drawn


def _orders_of_axes(known: Any, old: Any) -> Iterator[tuple[int, ...]]:
    """The orders of axes in which an array is like another one of its size."""
    import numpy as np

    places = np.linspace(0, old.size - 1, min(old.size, _SAMPLE)).astype("int64")
    wanted = np.nan_to_num(old.reshape(-1)[places])
    bound = _ALIKE * float(wanted.std())
    for axes in permutations(range(known.ndim)):
        sample = np.nan_to_num(known.transpose(axes).flat[places])
        if np.median(np.abs(sample - wanted)) <= bound:
            yield axes


def _where(which: Any, new: Any, other: Any) -> Any:
    import numpy as np

    return np.where(which, new, other)
