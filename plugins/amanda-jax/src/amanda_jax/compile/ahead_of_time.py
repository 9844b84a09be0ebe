"""Programs that are compiled beforehand, or were so by another process."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from amanda.graph import Graph, OutputPort
from amanda_jax.compile.code import Build
from amanda_jax.compile.disk_cache import Kept
from amanda_jax.compile.structure_hash import structure

if TYPE_CHECKING:
    from amanda_jax.compile.jitted_program import Program
    from amanda_jax.weights.device_weights import Held

__all__ = ["Ready"]

_ARRAYS = (np.ndarray, np.generic, jax.Array)


class _Made(NamedTuple):
    """A compiled program, and whether there are 64-bit types in it."""

    call: Callable[..., Sequence[Any]]
    wide: bool


class Ready:
    """The compiled programs of one graph by the shapes and types of the feeds."""

    def __init__(
        self, graph: Graph, on_host: Collection[OutputPort], build: Build, kept: Kept
    ) -> None:
        self._what = structure(graph, on_host)
        self._kept = kept
        self._settings = build.settings
        self._device = build.weights.device
        self._made: OrderedDict[Any, _Made] = OrderedDict()
        """What was used last is at the end."""
        self._lock = Lock()

    def fits(self, args: Sequence[Any]) -> bool:
        """Whether all are arrays, which say what they are."""
        return self._what is not None and all(
            isinstance(a, _ARRAYS) and not getattr(a, "weak_type", False) for a in args
        )

    @property
    def only(self) -> Callable[..., Any] | None:
        """The one program that there is, where it needs no switch."""
        with self._lock:
            every = [*self._made.values()]
        return every[0].call if len(every) == 1 and not every[0].wide else None

    def called(
        self, program: Program, held: Held, args: Sequence[Any]
    ) -> Sequence[Any]:
        """The results, by a program that is loaded or compiled where there is none."""
        forms = tuple((a.shape, a.dtype) for a in args)
        with self._lock:
            made = self._made.get(forms)
            if made is not None:
                self._made.move_to_end(forms)
        if made is None:
            made = self._new(program, held, args)
            with self._lock:
                self._made[forms] = made
                if len(self._made) > self._settings.programs:
                    self._made.popitem(last=False)
        with jax.enable_x64(True) if made.wide else nullcontext():
            try:
                return made.call(*held.moved, *args)
            except ValueError:  # a feed may be on another device
                return made.call(*held.moved, *jax.device_put(args, self._device))

    def _new(self, program: Program, held: Held, args: Sequence[Any]) -> _Made:
        given = [*held.forms, *args]
        forms = [(a.shape, str(a.dtype)) for a in given]
        key = self._kept.key(str(self._what), self._settings, program.donated, forms)
        found = self._kept.load(key, len(forms))
        if found is not None:
            call, facts = found
            program.noted(given, facts["copied"], facts["notes"])
            return _Made(call, facts["wide"])
        compiled, wide = program.compiled(held, args)
        count = compiled.out_tree.num_leaves
        if compiled.out_tree == jax.tree.structure([0] * count):
            self._kept.store(
                key,
                compiled,
                {
                    "wide": wide,
                    "results": count,
                    "copied": sorted(program.copied),
                    "notes": list(program.told.notes),
                },
            )
        return _Made(compiled, wide)

    def forget(self) -> None:
        with self._lock:
            self._made.clear()
