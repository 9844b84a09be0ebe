"""Calls of a compiled graph with tensors of PyTorch."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

import amanda
from amanda.errors import AmandaError, AmandaWarning
from amanda.graph import Graph
from amanda_std.backends import inverse_permutation
from amanda_torch.backend.arrays import to_numpy, to_tensor
from amanda_torch.backend.eager_ops import draws_random_numbers
from amanda_torch.compiler.options import CompilerOptions
from amanda_torch.compiler.passed import find_passed, passed_results
from amanda_torch.compiler.programs import output_node
from amanda_torch.compiler.weights import FrozenWeights, are_writes_counted, freeze

__all__ = ["CompiledPart", "computed_results"]

_CPU = torch.device("cpu")


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
        self.forms = [ResultForm.of(node.meta.get("val")) for node in computed]
        """What the results of Amanda are."""

    def pass_on(self, args: Sequence[Any]) -> Sequence[Any]:
        """The results of a call that PyTorch returns itself."""
        return self._pass_on(*args) if self._pass_on else ()

    def in_order(self, values: list[Any]) -> list[Any]:
        """All results of a call: those that Amanda computed, then those of PyTorch."""
        return [other if i is None else values[i] for i, other in self._rows]


class ResultForm(NamedTuple):
    """What PyTorch expects of a result."""

    is_number: bool
    order: tuple[int, ...] | None = None
    """The axes from the outermost in memory; None if elements are not dense."""

    @classmethod
    def of(cls, value: Any) -> ResultForm:
        if not isinstance(value, torch.Tensor):
            return cls(True)
        strides = [getattr(n, "node", n) for n in value.stride()]
        known = [n if isinstance(n, int) else n.hint for n in strides]
        if not all(known):
            return cls(False)
        return cls(False, tuple(sorted(range(value.ndim), key=lambda i: -known[i])))

    def convert(self, value: Any) -> Any:
        """A result of a backend as PyTorch expects it."""
        if self.is_number:
            return int(value)
        tensor = _as_tensor(value)
        if self.order is None or (tensor.is_contiguous() and self.is_usual):
            return tensor
        turned = tensor.permute(self.order)
        if turned.is_contiguous():
            return tensor
        return turned.contiguous().permute(inverse_permutation(self.order))

    @property
    def is_usual(self) -> bool:
        """Whether the last axis is the innermost one."""
        return self.order == tuple(range(len(self.order or ())))


class CompiledPart:
    """A graph of the hub as a function of the inputs of a module.

    It is compiled in its first call, when the weights that it freezes are there. If
    the backend does not support it, PyTorch runs the module."""

    def __init__(
        self, module: Any, graph: Graph, options: CompilerOptions,
        frozen: frozenset[int] = frozenset(),
    ) -> None:  # fmt: skip
        inputs = [node.name for node in module.graph.find_nodes(op="placeholder")]
        self._places = [inputs.index(port.name) for port in graph.parameters]
        self._module, self._graph, self._options = module, graph, options
        self._frozen = [i for i in self._places if i in frozen]
        self._fed = [i for i in self._places if i not in frozen]
        self._backends = [*options.backends(bool(self._frozen))]
        self._draws = any(map(_draws, module.graph.nodes))
        self._plan = ResultPlan(module)
        self._is_supported = False
        """Whether a call of the first backend succeeded."""
        self._general: Any = None
        """The executable that has the weights as inputs."""
        self._constant: Any = None
        """The executable that has them as constants."""
        self._weights: FrozenWeights | None = None
        """The weights since they last changed."""
        self._same_calls = 0
        """Calls in which these were the same."""
        self._patience = 0
        """Calls with the same weights before they become constants."""
        self._until_released: Any = None

    def __call__(self, args: list[Any]) -> list[Any]:
        """The results of arguments; their list is cleared."""
        with torch.no_grad():
            if not self._is_supported:
                return self._call_first(args)
            passed = self._plan.pass_on(args)
            return self._plan.in_order([*self._compute(args), *passed])

    def _call_first(self, args: Sequence[Any]) -> list[Any]:
        """Run on the first of the backends that supports the graph, or by PyTorch."""
        while self._backends:
            try:
                passed = self._plan.pass_on(args)
                results = self._plan.in_order([*self._compute([*args]), *passed])
            except AmandaError as error:
                self._release()
                self._general = None
                if len(self._backends) == 1:
                    text = f"PyTorch runs a graph that the backend cannot run: {error}"
                    warnings.warn(AmandaWarning(text), stacklevel=2)
                del self._backends[0]
            else:
                self._is_supported = True
                return results
        return list(self._module(*args))

    def _compute(self, args: list[Any]) -> list[Any]:
        """The results that Amanda computes."""
        if not self._plan.forms:
            return []
        compiled, places = self._choose_executable(args)
        if self._draws:
            compiled = compiled.again(None, None, _draw_seed())
        feeds = [self._as_feed(args[i]) for i in places]
        args.clear()
        results = compiled.call_consuming(feeds)
        return [
            form.convert(value)
            for form, value in zip(self._plan.forms, results, strict=True)
        ]

    def _as_feed(self, value: Any) -> Any:
        if value is None:  # a token of an effect, which the program has as empty
            return np.zeros(0, np.float32)
        if not isinstance(value, torch.Tensor):
            return np.asarray(value)
        shares_tensors = self._backends[0].partition(":")[0] == "torch"
        return value if shares_tensors else to_numpy(value)

    # -- executables ------------------------------------------------------------------

    def _choose_executable(self, args: Sequence[Any]) -> tuple[Any, Sequence[int]]:
        """The executable for a call, and the places of its feeds in the arguments."""
        if self._frozen and self._are_weights_settled(args):
            if self._constant is None:
                self._constant = self._compile_with_constants(args)
            return self._constant, self._fed
        if self._general is None:
            self._general = self._compile(self._graph)
        return self._general, self._places

    def _are_weights_settled(self, args: Sequence[Any]) -> bool:
        """Whether weights are constants in a call: after `_patience` equal calls.

        It grows with every executable that a change of weights makes useless."""
        is_wanted = self._options.freeze is True
        if not is_wanted and not are_writes_counted(args[i] for i in self._frozen):
            return False
        weights = self._weights
        if weights is not None and weights.are_current(args):
            self._same_calls += 1
        else:
            if self._constant is not None and not is_wanted:
                self._patience = 2 * self._patience or 1
            self._release()
            self._weights = FrozenWeights(args, self._frozen)
        return self._same_calls >= self._patience

    def _release(self) -> None:
        """Drop the executable with constants, and what it keeps in memory."""
        self._constant = self._weights = None
        self._same_calls = 0

    def _compile_with_constants(self, args: Sequence[Any]) -> Any:
        memo: dict[Any, Any] = {}
        graph = self._graph.clone(memo=memo)
        ports = zip(self._graph.parameters, self._places, strict=True)
        freeze(graph, {memo[port]: args[i] for port, i in ports if i in self._frozen})
        amanda.improve(graph, "optimize_for_inference")
        weights = self._weights or FrozenWeights(args, self._frozen)
        weights.take_samples()
        self._until_released = weights.on_release(args, self._release)
        return self._compile(
            graph, keep_executable=False
        )  # to be freed with its weights

    def _compile(self, graph: Graph, *, keep_executable: bool = True) -> Any:
        seed = torch.initial_seed() if self._draws else None
        backend, options = self._backends[0], self._options.others
        return amanda.compile(
            graph, backend, seed=seed, keep_executable=keep_executable, **options
        )


def _draws(node: Any) -> bool:
    """Whether the op of a node draws from a generator of PyTorch."""
    schema = getattr(node.target, "_schema", None)
    names = [] if schema is None else [each.name for each in schema.arguments]
    dropout = None
    if "dropout_p" in names:
        given = dict(zip(names, node.args, strict=False)) | node.kwargs
        dropout = given.get("dropout_p", 0)
    return draws_random_numbers(node.target, dropout)


def _draw_seed() -> int:
    """A seed of PyTorch's generator: `torch.manual_seed` decides it."""
    return int(torch.randint(2**63 - 1, (), device="cpu"))


def _as_tensor(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return to_tensor(value, _CPU)
    return torch.from_dlpack(value)
