"""Calls of a compiled graph with tensors of PyTorch."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
import torch

import amanda
from amanda.errors import AmandaError, AmandaWarning
from amanda.graph import Graph
from amanda.tensors import Tensor
from amanda_torch.backend.arrays import to_numpy, to_tensor
from amanda_torch.compiler.options import CompilerOptions
from amanda_torch.compiler.passed import find_passed, passed_results
from amanda_torch.compiler.programs import output_node

__all__ = ["CompiledPart", "computed_results"]

_CPU = torch.device("cpu")
_write_count = attrgetter("_version")
"""How often a tensor was written, as autograd counts it."""


def computed_results(module: Any) -> list[Any]:
    """The nodes of a module that are results which Amanda computes, once each."""
    passed = find_passed(module)
    results = [node for node in _results_of(module) if isinstance(node, torch.fx.Node)]
    return [node for node in dict.fromkeys(results) if node not in passed]


def _results_of(module: Any) -> Sequence[Any]:
    found = output_node(module).args[0]
    return found if isinstance(found, list | tuple) else [found]


class ResultPlan:
    """Where each result of a module comes from: Amanda, PyTorch, or a constant."""

    def __init__(self, module: Any) -> None:
        results = _results_of(module)
        nodes = [each for each in results if isinstance(each, torch.fx.Node)]
        computed = computed_results(module)
        passed = [node for node in dict.fromkeys(nodes) if node not in computed]
        places = {node: i for i, node in enumerate([*computed, *passed])}
        self._rows = [
            (places[each], None) if isinstance(each, torch.fx.Node) else (None, each)
            for each in results
        ]
        self._pass_on = passed_results(module, passed) if passed else None
        self.are_numbers = [
            not isinstance(node.meta.get("val"), torch.Tensor) for node in computed
        ]
        """Whether results of Amanda are numbers and no tensors."""

    def in_order(self, computed: list[Any], args: Sequence[Any]) -> list[Any]:
        """All results of a call, from those that Amanda computed."""
        values = [*computed, *(self._pass_on(*args) if self._pass_on else ())]
        return [other if i is None else values[i] for i, other in self._rows]


class CompiledPart:
    """A graph of the hub as a function of the inputs of a module.

    It is compiled in its first call, when the weights that it freezes are there. If
    the backend does not support it, PyTorch runs the module."""

    def __init__(
        self, module: Any, graph: Graph, options: CompilerOptions,
        frozen: frozenset[int] = frozenset(),
    ) -> None:  # fmt: skip
        inputs = [node.name for node in module.graph.find_nodes(op="placeholder")]
        places = [inputs.index(port.name) for port in graph.parameters]
        self._module, self._graph, self._options = module, graph, options
        self._frozen = {p: i for p, i in zip(graph.parameters, places, strict=True)
                        if i in frozen}  # fmt: skip
        self._fed = [i for i in places if i not in frozen]
        self._weights: dict[int, FrozenWeight] = {}
        self._compiled: Any = None
        self._backends = [*options.backends(bool(self._frozen))]
        self._draws = any(map(draws_random_numbers, module.graph.nodes))
        self._plan = ResultPlan(module)

    def __call__(self, *args: Any) -> list[Any]:
        with torch.no_grad():
            if self._compiled is None:
                return self._call_first(args)
            return self._plan.in_order(self._compute(args), args)

    def _call_first(self, args: Sequence[Any]) -> list[Any]:
        """Run on the first of the backends that supports the graph, or by PyTorch."""
        while self._backends:
            try:
                return self._plan.in_order(self._compute(args), args)
            except AmandaError as error:
                self._compiled = None
                if len(self._backends) == 1:
                    text = f"PyTorch runs a graph that the backend cannot run: {error}"
                    warnings.warn(AmandaWarning(text), stacklevel=2)
                del self._backends[0]
        return list(self._module(*args))

    def _compute(self, args: Sequence[Any]) -> list[Any]:
        """The results that Amanda computes."""
        if not self._plan.are_numbers:
            return []
        if self._compiled is None or self._are_weights_changed(args):
            self._compiled = self._compile(args)
        compiled = self._compiled
        if self._draws:
            compiled = compiled.again(None, None, _draw_seed())
        results = compiled([self._as_feed(args[i]) for i in self._fed]).values()
        return [
            int(value) if is_number else _as_tensor(value)
            for value, is_number in zip(results, self._plan.are_numbers, strict=True)
        ]

    def _as_feed(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return np.asarray(value)
        value = value.detach()
        shares_tensors = self._backends[0].partition(":")[0] == "torch"
        return value if shares_tensors else to_numpy(value)

    # -- compilation ----------------------------------------------------------------

    def _are_weights_changed(self, args: Sequence[Any]) -> bool:
        return any(not w.is_current(args[i]) for i, w in self._weights.items())

    def _compile(self, args: Sequence[Any]) -> Any:
        """The graph compiled, with the current weights as constants."""
        graph, options = self._graph, self._options
        self._weights = {i: FrozenWeight(args[i]) for i in self._frozen.values()}
        if self._frozen:
            memo: dict[Any, Any] = {}
            graph = graph.clone(memo=memo)
            freeze(graph, {memo[p]: args[i] for p, i in self._frozen.items()})
            amanda.improve(graph, "optimize_for_inference")
        seed = torch.initial_seed() if self._draws else None
        return amanda.compile(graph, self._backends[0], seed=seed, **options.others)


class FrozenWeight:
    """A tensor whose content a compiled graph has."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor
        self._state = self._read_state(tensor)

    @staticmethod
    def _read_state(tensor: Any) -> tuple[int, int]:
        version = 0 if tensor.is_inference() else _write_count(tensor)
        return tensor.data_ptr(), version

    def is_current(self, tensor: Any) -> bool:
        """Whether a tensor is still this one, and was not written since."""
        return self._read_state(tensor) == self._state


def draws_random_numbers(node: Any) -> bool:
    """Whether the op of a node draws from a generator of PyTorch."""
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def freeze(graph: Graph, values: Mapping[Any, Any]) -> None:
    """Replace parameters of a graph by constants that share the memory of tensors."""
    with graph.before(next(iter(graph), None)):
        for port, value in values.items():
            constant = graph.constant(Tensor.of(to_numpy(value)), port.name)
            graph.replace_uses(port, constant.output)
    for port in reversed([*values]):
        graph.remove_parameter(port.index)


def _draw_seed() -> int:
    """A seed of PyTorch's generator: `torch.manual_seed` decides it."""
    return int(torch.randint(2**63 - 1, (), device="cpu"))


def _as_tensor(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return to_tensor(value, _CPU)
    return torch.from_dlpack(value)
