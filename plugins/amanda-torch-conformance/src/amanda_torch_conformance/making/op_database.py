"""Calls of the ops of PyTorch's own tests, `op_db`, as exported programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import torch
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

__all__ = [
    "SAMPLES",
    "Program",
    "SampleCall",
    "first_dtype",
    "is_random",
    "op_names",
    "programs_of",
]

SAMPLES: Final = 3
"""How many samples of an entry become programs: the first that PyTorch exports."""
TRIED: Final = 24
"""How many samples are tried."""
DRAWS: Final = 500
"""How many calls of a random program are recorded."""
ELEMENTS: Final = 256
"""How many elements of each output of them."""
_DTYPES: Final = (
    torch.float32, torch.float64, torch.complex64, torch.int64, torch.uint8, torch.bool,
)  # fmt: skip
"""Element types of samples: the first that the entry supports."""


@dataclass(frozen=True)
class Program:
    """An exported program, its inputs, and what it returns eagerly."""

    exported: torch.export.ExportedProgram
    inputs: tuple[torch.Tensor, ...]
    outputs: tuple[Any, ...]
    draws: tuple[torch.Tensor, ...] = ()
    """For each output of a random program its first elements, of many calls."""


class SampleCall(torch.nn.Module):  # type: ignore[misc,unused-ignore]
    """A call of an op whose tensors are inputs, and whose other arguments are fixed."""

    def __init__(self, op: Any, sample: Any) -> None:
        super().__init__()
        self.op = op
        arguments = ((sample.input, *sample.args), sample.kwargs)
        self.leaves, self.spec = pytree.tree_flatten(arguments)
        self.places = [
            i for i, leaf in enumerate(self.leaves) if isinstance(leaf, torch.Tensor)
        ]

    def tensors(self) -> tuple[torch.Tensor, ...]:
        """The tensors among the arguments."""
        return tuple(self.leaves[i].detach().clone() for i in self.places)

    def forward(self, *tensors: torch.Tensor) -> tuple[Any, ...]:
        leaves = list(self.leaves)
        for i, tensor in zip(self.places, tensors, strict=True):
            leaves[i] = tensor
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        results = pytree.tree_leaves(self.op.op(*args, **kwargs))
        return tuple(y for y in results if isinstance(y, torch.Tensor))


def op_names() -> dict[str, Any]:
    """The entries of the database by name: `add`, `norm-nuc`."""
    names = {
        "-".join(filter(None, (op.name, op.variant_test_name))): op for op in op_db
    }
    assert len(names) == len(op_db)
    return names


def first_dtype(op: Any) -> torch.dtype:
    """The element type of the samples of an entry."""
    supported = op.supported_dtypes("cpu")
    found = [each for each in _DTYPES if each in supported]
    if not found:
        raise ValueError("no element type is supported on a CPU")
    return found[0]


def programs_of(op: Any) -> Iterator[Program]:
    """A program for each of the first samples of an entry that PyTorch exports.

    Raises what PyTorch raises for the first sample where it exports none.
    """
    torch.manual_seed(1)
    samples = op.sample_inputs("cpu", first_dtype(op), requires_grad=False)
    failed: Exception | None = None
    count = 0
    for sample in islice(samples, TRIED):
        call = SampleCall(op, sample)
        try:
            yield _program_of(call)
        except Exception as error:  # noqa: BLE001 - the next sample may be exported
            failed = failed or error
            continue
        count += 1
        if count == SAMPLES:
            return
    if not count:
        raise failed or ValueError("there is no sample for a CPU")


def _program_of(call: SampleCall) -> Program:
    """The program of a call; where data decides what is computed, with checks of it."""
    outputs = call(*call.tensors())
    if not outputs:
        raise ValueError("its result is no tensor")
    try:
        exported = torch.export.export(call, call.tensors(), strict=False)
    except GuardOnDataDependentSymNode:
        exported = torch.export.draft_export(call, call.tensors(), strict=False)
    return Program(exported, call.tensors(), outputs, _draws(exported, call))


def _draws(exported: torch.export.ExportedProgram, call: SampleCall) -> Any:
    """Outputs of many calls, where these differ; without the seeds of the samples."""
    if not any(is_random(node) for node in exported.graph.nodes):
        return ()
    program = exported.module()
    calls = [program(*call.tensors()) for _ in range(DRAWS)]
    columns = [torch.stack([y.reshape(-1)[:ELEMENTS] for y in outputs])
               for outputs in zip(*calls, strict=True)]  # fmt: skip
    differs = any(not torch.equal(rows, rows[:1].expand_as(rows)) for rows in columns)
    return tuple(columns) if differs else ()


def is_random(node: torch.fx.Node) -> bool:
    """Whether a node draws random numbers."""
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
