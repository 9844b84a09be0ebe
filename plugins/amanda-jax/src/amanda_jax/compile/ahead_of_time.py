"""Ahead-of-time compilation: programs from the disk cache, or compiled for it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from amanda.graph import Graph, OutputPort
from amanda_jax.compile.code import BuildContext
from amanda_jax.compile.disk_cache import DiskCache
from amanda_jax.compile.structure_hash import structure_digest

if TYPE_CHECKING:
    from amanda_jax.compile.jitted_program import JittedProgram
    from amanda_jax.weights.device_weights import ProgramConstants

__all__ = ["CachedPrograms"]

_ARRAYS = (np.ndarray, np.generic, jax.Array)


class _CompiledProgram(NamedTuple):
    """A compiled program, and whether it has 64-bit types."""

    call: Callable[..., Sequence[Any]]
    is_64_bit: bool


class CachedPrograms:
    """The compiled programs of one graph, by the shapes and types of the feeds."""

    def __init__(
        self,
        graph: Graph,
        static: Collection[OutputPort],
        build: BuildContext,
        cache: DiskCache,
    ) -> None:
        self._structure = structure_digest(graph, static)
        self._cache = cache
        self._settings = build.settings
        self._device = build.weights.device
        self._programs: OrderedDict[Any, _CompiledProgram] = OrderedDict()
        """The program used last is at the end."""
        self._lock = Lock()

    def supports(self, args: Sequence[Any]) -> bool:
        """Whether the graph can be cached, and all feeds are arrays with a type."""
        return self._structure is not None and all(
            isinstance(a, _ARRAYS) and not getattr(a, "weak_type", False) for a in args
        )

    @property
    def only_program(self) -> Callable[..., Any] | None:
        """The one program, if there is only one and it needs no x64 switch."""
        with self._lock:
            programs = [*self._programs.values()]
        is_direct = len(programs) == 1 and not programs[0].is_64_bit
        return programs[0].call if is_direct else None

    def run(
        self, program: JittedProgram, constants: ProgramConstants, args: Sequence[Any]
    ) -> Sequence[Any]:
        """Run the program for these feeds; load or compile it first if it is new."""
        key = tuple((a.shape, a.dtype) for a in args)
        with self._lock:
            compiled = self._programs.get(key)
            if compiled is not None:
                self._programs.move_to_end(key)
        if compiled is None:
            compiled = self._load_or_compile(program, constants, args)
            with self._lock:
                self._programs[key] = compiled
                if len(self._programs) > self._settings.programs:
                    self._programs.popitem(last=False)
        with jax.enable_x64(True) if compiled.is_64_bit else nullcontext():
            try:
                return compiled.call(*constants.arrays, *args)
            except ValueError:  # a feed may be on another device
                args = jax.device_put(args, self._device)
                return compiled.call(*constants.arrays, *args)

    def _load_or_compile(
        self, program: JittedProgram, constants: ProgramConstants, args: Sequence[Any]
    ) -> _CompiledProgram:
        arguments = [*constants.abstract_values, *args]
        shapes = [(a.shape, str(a.dtype)) for a in arguments]
        key = self._cache.key(
            str(self._structure), self._settings, program.donated, shapes
        )
        found = self._cache.load(key, shapes, len(constants))
        if found is not None:
            call, facts = found
            program.record_loaded(arguments, facts["aliases"], facts["notes"])
            return _CompiledProgram(call, facts["is_64_bit"])
        compiled, is_64_bit = program.compile_for(constants, args)
        count = compiled.out_tree.num_leaves
        if compiled.out_tree == jax.tree.structure([0] * count):
            facts = {
                "is_64_bit": is_64_bit,
                "results": count,
                "aliases": sorted(program.aliased_results),
                "notes": list(program.details.notes),
            }
            self._cache.store(key, compiled, facts)
        return _CompiledProgram(compiled, is_64_bit)

    def clear(self) -> None:
        with self._lock:
            self._programs.clear()
