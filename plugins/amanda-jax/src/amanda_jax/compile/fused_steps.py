"""Convolutions fused with the sum and the ReLU that follow them.

XLA does not fuse what follows a custom call with it. So a convolution, a sum with
another value and a ReLU are one step; where the weights are not packed for oneDNN, that
step runs their kernels one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from amanda.graph import Graph, Op, OutputPort
from amanda_jax.cpu_tuning.packed_weights import PackedWeights, is_like_result
from amanda_jax.kernels import JAX
from amanda_jax.kernels.convolution import FUSED
from amanda_std.backends import RunStep, StepRunner, UnscheduledStep, is_std

__all__ = ["FusedSteps"]


_CONVOLUTION: Final = next(
    name for name, part in FUSED.items() if part == "convolution"
)


class FusedSteps(StepRunner):
    """Steps over arrays of JAX, some of which compute several ops."""

    def __init__(self, graph: Graph) -> None:
        self.step_ops: list[Op] = []
        """The op of each step, the last one if it computes several."""
        self._kept = {value for value in graph.results if value is not None}
        super().__init__(graph, JAX)

    def schedule(self, rows: Sequence[UnscheduledStep]) -> list[RunStep]:
        fused = _fuse(rows, self._kept)
        self.step_ops = [row.op for row in fused]
        return super().schedule(fused)


class _Chain(NamedTuple):
    """A convolution and what follows it: at least one of the others is there."""

    convolution: UnscheduledStep
    addition: UnscheduledStep | None
    relu: UnscheduledStep | None

    @property
    def last(self) -> UnscheduledStep:
        found = self.relu or self.addition
        assert found is not None
        return found


def _fuse(
    rows: Sequence[UnscheduledStep], kept: set[OutputPort]
) -> list[UnscheduledStep]:
    """The rows, with chains as one row each, at the place of their last op."""
    producers = {slot: row for row in rows for slot in row.outs}
    places = {id(row): i for i, row in enumerate(rows)}
    fused: dict[int, UnscheduledStep] = {}
    dropped: set[int] = set()
    for row in reversed(rows):
        if id(row) in dropped:
            continue
        chain = _chain_to(row, producers, places, kept)
        if chain is not None:
            fused[id(row)] = _fused_row(chain)
            parts = (chain.convolution, chain.addition, chain.relu)
            dropped |= {id(part) for part in parts if part is not row}
    return [fused.get(id(row), row) for row in rows if id(row) not in dropped]


def _chain_to(
    row: UnscheduledStep,
    producers: dict[int, UnscheduledStep],
    places: dict[int, int],
    kept: set[OutputPort],
) -> _Chain | None:
    """The chain that ends with an op, if there is one."""

    def sources(user: UnscheduledStep, part: str) -> list[UnscheduledStep]:
        """The parts whose results only this one reads, the latest first."""
        found = [producers[slot] for slot in user.ins if slot in producers]
        own = [
            each
            for each in found
            if _part_of(each) == part
            and each.op.output not in kept
            and len(each.op.output.users) == 1
        ]
        return sorted(own, key=lambda each: -places[id(each)])

    part = _part_of(row)
    relu = row if part == "relu" else None
    addition = row if part == "addition" else None
    if relu is not None:
        addition = next(iter(sources(relu, "addition")), None)
    for user in (addition, relu):
        if user is not None:
            found = next(filter(_is_plain_call, sources(user, "convolution")), None)
            if found is not None:
                return _Chain(found, user if user is addition else None, relu)
            if user is addition:
                return None
    return None


def _part_of(row: UnscheduledStep) -> str | None:
    return FUSED.get(row.op.type or "") if is_std(row.op) else None


def _is_plain_call(row: UnscheduledStep) -> bool:
    """Whether a step calls the kernel itself, which may be given more arguments."""
    return isinstance(row.call, partial) and row.call.func is JAX[_CONVOLUTION]


def _fused_row(chain: _Chain) -> UnscheduledStep:
    convolution, addition, last = chain.convolution, chain.addition, chain.last
    ins, before = [*convolution.ins], False
    if addition is not None:
        (result,) = convolution.outs
        before = addition.ins[1] == result  # the other operand comes first
        ins.append(addition.ins[0 if before else 1])
    assert isinstance(convolution.call, partial)
    call = partial(
        _call_fused,
        convolution.call,
        None if addition is None else addition.call,
        None if chain.relu is None else chain.relu.call,
        before,
    )
    return last._replace(call=call, ins=ins)


def _call_fused(
    convolve: partial[Any],
    add: Callable[..., Any] | None,
    relu: Callable[..., Any] | None,
    before: bool,
    *args: Any,
) -> Any:
    """`before`: the addend, the last of the arguments, is the first operand."""
    inputs, addend = args, None
    if add is not None:
        inputs, addend = args[:-1], args[-1]
    x, weights, *_ = inputs
    if isinstance(weights, PackedWeights) and (
        addend is None or is_like_result(addend, x, weights, convolve.keywords)
    ):
        return convolve(*inputs, addend=addend, relu=relu is not None)
    y = convolve(*inputs)
    if add is not None:
        y = add(addend, y) if before else add(y, addend)
    return y if relu is None else relu(y)
