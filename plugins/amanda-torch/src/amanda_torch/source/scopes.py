"""Calls of modules: the ops of a program by the modules that computed them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from amanda.graph import Op, OutputPort
from amanda_torch.mapping.module_stacks import UNKNOWN_CLASS
from amanda_torch.records import NODE_RECORDS
from amanda_torch.source.layers import Layer, layer_of
from amanda_torch.source.program import Program, values_of

if TYPE_CHECKING:
    from amanda_torch.source.program import Weight

__all__ = ["Call", "build_calls", "is_below"]

_NO_MODULE: Final = "empty_nn_module_stack_from_metadata_hook"
_FEW: Final = 3
"""So many ops without weights are written where they are used."""


class _Frame(NamedTuple):
    """A module in the stack of an op: which call of it, its path and its class."""

    key: str
    path: str
    type: str


class Call:
    """A call of a module: what it computes, in order."""

    def __init__(self, path: str, type: str = "") -> None:
        self.path = path
        self.type = type
        self.items: list[Op | Call] = []
        self.layer: Layer | None = None
        self.is_sequential = False
        self.key: Any = None

    def ops(self) -> Iterator[Op]:
        """All ops, also of the modules that it calls."""
        for item in self.items:
            if isinstance(item, Call):
                yield from item.ops()
            else:
                yield item

    def calls(self) -> list[Call]:
        return [item for item in self.items if isinstance(item, Call)]


def is_below(path: str, module: str) -> bool:
    """
    >>> is_below("a.b.weight", "a.b"), is_below("a.bc.weight", "a.b")
    (True, False)
    """
    return not module or path.startswith(f"{module}.")


def build_calls(program: Program) -> Call:
    """The call of the whole module."""
    owners = _paths_of_modules(program)
    frames_of = {op: _frames(op, program, owners) for op in program.ops}
    while True:
        root = _tree(program, frames_of)
        dissolved = _split_modules(root) | _modules_of_others(root)
        if not dissolved:
            break
        for frames in frames_of.values():
            frames[:] = [frame for frame in frames if frame.path not in dissolved]
    _simplify(root, program)
    return root


def _split_modules(root: Call) -> set[str]:
    """Modules of unknown class that are computed in parts: they are no calls."""
    paths: list[str] = []
    waiting = [root]
    while waiting:
        call = waiting.pop()
        waiting += call.calls()
        if call.type == UNKNOWN_CLASS:
            paths.append(call.path)
    return {path for path, count in Counter(paths).items() if count > 1}


def _modules_of_others(root: Call) -> set[str]:
    """Modules inside of one that is called, which is not their caller: as members they
    would be unknown to its class."""
    waiting, called = [("", root)], list[tuple[str, str]]()
    while waiting:
        caller, call = waiting.pop()
        called.append((caller, call.path))
        waiting += [(call.path, child) for child in call.calls()]
    paths = {path for _, path in called if path}
    return {
        path
        for caller, path in called
        for around in _paths_around(path)
        if around in paths and caller != around and not is_below(caller, around)
    }


def _paths_around(path: str) -> Iterator[str]:
    while "." in path:
        path = path.rpartition(".")[0]
        yield path


def _tree(program: Program, frames_of: Mapping[Op, Sequence[_Frame]]) -> Call:
    """The calls of modules as they are recorded."""
    root = Call("", _root_type(program))
    open_calls: list[tuple[str, Call]] = []
    for op in _order_by_module(program, frames_of):
        frames = frames_of[op]
        depth = 0
        while (
            depth < min(len(frames), len(open_calls))
            and open_calls[depth][0] == frames[depth].key
        ):
            depth += 1
        del open_calls[depth:]
        for frame in frames[depth:]:
            call = Call(frame.path, frame.type)
            (open_calls[-1][1] if open_calls else root).items.append(call)
            open_calls.append((frame.key, call))
        (open_calls[-1][1] if open_calls else root).items.append(op)
    return root


def _order_by_module(
    program: Program, frames_of: Mapping[Op, Sequence[_Frame]]
) -> list[Op]:
    """The ops in an order in which those of a module stand together.

    Programs that PyTorch exported keep their order, and those that write into tensors.
    """
    ops = program.ops
    types = {frame.type for frames in frames_of.values() for frame in frames}
    if program.writes or UNKNOWN_CLASS not in types:
        return ops
    keys = {op: [frame.key for frame in frames] for op, frames in frames_of.items()}
    made_by = {out: op for op in ops for out in op.outputs}
    sources = {
        op: {made_by[v] for v in values_of(program.arguments[op]) if v in made_by}
        for op in ops
    }
    return _sort_modules(ops, keys, sources, 0)


def _sort_modules(
    ops: Sequence[Op], keys: Mapping[Op, Sequence[str]],
    sources: Mapping[Op, Container[Op]], depth: int,
) -> list[Op]:  # fmt: skip
    """Ops in an order in which those of a module at a depth stand together.

    A module that reads what depends on its own results is split.
    """
    groups: dict[Any, list[Op]] = {}
    for op in ops:
        path = keys[op]
        groups.setdefault(path[depth] if len(path) > depth else op, []).append(op)
    parts = list(groups.values())
    waiting = set(ops)
    found: list[Op] = []
    while parts:
        part = next((p for p in parts if _is_ready(p, waiting, sources)), None)
        if part is None:
            split = next(part for part in parts if len(part) > 1)
            place = parts.index(split)
            parts[place : place + 1] = [[op] for op in split]
            continue
        parts.remove(part)
        waiting -= set(part)
        is_module = len(keys[part[0]]) > depth and len(part) > 1
        found += _sort_modules(part, keys, sources, depth + 1) if is_module else part
    return found


def _is_ready(
    part: Sequence[Op], waiting: Container[Op], sources: Mapping[Op, Any]
) -> bool:
    """Whether all that a module reads from outside is there."""
    inside = set(part)
    return not any(
        source in waiting and source not in inside
        for op in part for source in sources[op]
    )  # fmt: skip


def _stack(op: Op) -> list[_Frame]:
    text = NODE_RECORDS.of(op).get("metadata", {}).get("nn_module_stack", "")
    fields = [part.split(",", 2) for part in text.split(";") if part.count(",") >= 2]
    return [_Frame(*each) for each in fields]


def _root_type(program: Program) -> str:
    for op in program.ops:
        for frame in _stack(op)[:1]:
            if frame.path == "" and not frame.type.endswith(_NO_MODULE):
                return frame.type
    return ""


def _paths_of_modules(program: Program) -> set[str]:
    """The modules that have weights, and those around them."""
    found: set[str] = set()
    for weight in program.weights.values():
        owner = weight.owner
        while owner and owner not in found:
            found.add(owner)
            owner = owner.rpartition(".")[0]
    return found


def _known_paths(frames: Sequence[_Frame], owners: Container[str]) -> Iterator[_Frame]:
    """Modules with the paths that the names of weights have.

    PyTorch records paths that begin at a module which is a part of the model, such as
    `transformer` in `model` for `model.transformer`.
    """
    before = above = ""
    for frame in frames:
        path = inner = f"{above}.{frame.path}" if above else frame.path
        if before and is_below(frame.path, before):
            path = above + frame.path[len(before) :]
        elif inner not in owners or (frame.path in owners and frame.path != before):
            path = frame.path
        before, above = frame.path, path
        yield frame._replace(path=path)


def _frames(op: Op, program: Program, owners: Container[str]) -> list[_Frame]:
    """The modules around an op; one with the weights of a layer is that layer."""
    stack = [frame for frame in _stack(op) if frame.path]
    frames = list(_known_paths(stack, owners))
    layer = layer_of(op, program)
    owners = set() if layer is None else {
        program.weights[value].owner for value in layer.weights.values()
    }  # fmt: skip
    if layer is not None and len(owners) == 1:
        [owner] = owners
        named = all(program.weights[v].name == k for k, v in layer.weights.items())
        inner = frames[-1].path if frames else ""
        if named and owner and is_below(owner, inner):
            frames.append(_Frame(f"{owner} {op.name}", owner, layer.name))
    return frames


# -- simplification ------------------------------------------------------------------


def _simplify(call: Call, program: Program) -> None:
    """Find layers and sequences; write few ops without weights where they are used."""
    for child in call.calls():
        _simplify(child, program)
    if call.path:
        call.layer = _layer(call, program)
    if call.layer is not None:
        return
    call.is_sequential = _is_sequential(call, program)
    if call.is_sequential:
        for child in call.calls():
            child.layer = child.layer or _plain_layer(child, program)
        return
    items: list[Op | Call] = []
    for item in call.items:
        is_small = isinstance(item, Call) and _is_small(item, program)
        items += item.items if isinstance(item, Call) and is_small else [item]
    call.items = items


def _layer(call: Call, program: Program) -> Layer | None:
    """The layer that a call is: of one op, whose weights are those of the module."""
    ops = list(call.ops())
    found = layer_of(ops[-1], program) if ops else None
    if found is None or not found.weights:
        return None
    counters = [op for op in ops[:-1] if _is_counter(op, call, program)]
    if len(counters) + 1 != len(ops):
        return None
    weights = {key: program.weights[value] for key, value in found.weights.items()}
    own = [w for key, w in weights.items() if w.path == f"{call.path}.{key}"]
    tied = [w for w in weights.values() if not is_below(w.path, call.path)]
    if len(own) + len(tied) < len(weights) or (tied and not _ends(call, found)):
        return None
    return found


def _ends(call: Call, layer: Layer) -> bool:
    return call.type.rpartition(".")[2] == layer.name


def _is_counter(op: Op, call: Call, program: Program) -> bool:
    """Whether an op counts the batches of a BatchNorm."""
    value = program.arguments[op].get("self")
    weight = program.weights.get(value) if isinstance(value, OutputPort) else None
    counted = f"{call.path}.num_batches_tracked"
    return op.type == "aten.add_.Tensor" and weight is not None and (
        weight.path == counted
    )  # fmt: skip


def _plain_layer(call: Call, program: Program) -> Layer | None:
    """The layer without weights that a call is."""
    ops = list(call.ops())
    found = layer_of(ops[0], program) if len(ops) == 1 else None
    return None if found is None or found.weights else found


def _is_small(call: Call, program: Program) -> bool:
    if call.layer is not None:
        return False
    ops = list(call.ops())
    return len(ops) <= _FEW and not any(
        is_below(weight.path, call.path) for weight in weights_of(ops, program)
    )


def weights_of(ops: list[Op], program: Program) -> Iterator[Weight]:
    for op in ops:
        for value in values_of(program.arguments[op]):
            if value in program.weights:
                yield program.weights[value]


def _is_sequential(call: Call, program: Program) -> bool:
    """Whether a module calls its numbered modules one after another."""
    children = call.calls()
    if len(children) < 2 or len(children) < len(call.items):
        return False
    last, previous = -1, None
    for child in children:
        number = child.path.removeprefix(f"{call.path}." if call.path else "")
        if not number.isdecimal() or int(number) <= last:
            return False
        last = int(number)
        inputs, outputs = interface(child, program)
        if len(inputs) != 1 or len(outputs) != 1:
            return False
        if previous is not None and inputs != [previous]:
            return False
        [previous] = outputs
    return True


def interface(
    call: Call, program: Program
) -> tuple[list[OutputPort], list[OutputPort]]:
    """The values that a call reads from outside, and those that are used there."""
    ops = list(call.ops())
    inside = set(ops)
    inputs: dict[OutputPort, None] = {}
    for op in ops:
        for value in values_of(program.arguments[op]):
            weight = program.weights.get(value)
            is_own = weight is not None and is_below(weight.path, call.path)
            is_tied = weight is not None and _is_tied(value, call)
            if not is_own and not is_tied and value.op not in inside:
                inputs[value] = None
    outputs = [
        out for op in ops for out in op.outputs if program.is_used_outside(out, inside)
    ]
    return list(inputs), outputs


def _is_tied(value: OutputPort, call: Call) -> bool:
    """Whether a value is a weight that a layer of the call shares with another."""
    if call.layer is not None:
        return value in call.layer.weights.values()
    return any(_is_tied(value, child) for child in call.calls())
