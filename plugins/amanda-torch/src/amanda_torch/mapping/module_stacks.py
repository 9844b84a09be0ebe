"""The modules of programs that are written: in which one each op is computed.

PyTorch records for each node the modules around it (`nn_module_stack`), which
`unflatten`, the profiler and the source of modules show. Of graphs from elsewhere they
follow from names:

- an op with weights is in the module that has them: of `layer1.conv.weight` in
  `layer1.conv`
- an op whose name has scopes is in the module that these are: `/layer1/relu/Relu` is in
  `layer1.relu`, if this agrees with the names of weights
- any other is in the innermost module around what it reads and what reads it; between
  two modules of a list it belongs to the first

The mapping notes a stack only where a program has none yet.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from amanda.graph import Graph, Op, OutputPort
from amanda_torch.node_writer import is_weight
from amanda_torch.records import NODE_RECORDS

__all__ = ["UNKNOWN_CLASS", "add_module_stacks"]

UNKNOWN_CLASS: Final = "torch.nn.modules.module.Module"
"""The class of modules of which only the name is known."""

_NUMBERED: Final = re.compile(r"(constant|parameter|buffer)(_\d+)?")
"""Names of weights that have none."""

_MOST: Final = 16
"""More ops than these are no normalization."""

_Path = tuple[str, ...]


def add_module_stacks(graph: Graph) -> None:
    """Record the modules around each op of a program."""
    scopes = _Scopes(graph)
    paths = scopes.paths()
    for op in list(graph):
        if is_weight(op) and "." not in (target := str(op.attrs["target"])):
            users = {each for each in op.output.user_ops if each in paths}
            scope = scopes.without_list(
                _common([scopes.container(each, paths) for each in users])
            )
            if scope and _NUMBERED.fullmatch(target):
                op.attrs["target"] = scopes.free_name(".".join((*scope, target)))
    for op, path in paths.items():
        metadata = NODE_RECORDS.of(op).get("metadata", {})
        if "nn_module_stack" not in metadata:
            stack = {"nn_module_stack": _stack_text(path)}
            NODE_RECORDS.add(op, metadata={**metadata, **stack})


def _stack_text(path: _Path) -> str:
    """
    >>> _stack_text(("fc",))
    'L__self__,,torch.nn.modules.module.Module;L__self___fc,fc,torch.nn.modules.module.Module'
    """
    is_list = [part.isdecimal() for part in path[1:]] + [False]
    paths = [""] + [
        ".".join(path[:end]) for end, above in enumerate(is_list, 1) if not above
    ]
    return ";".join(
        f"L__self__{'_' * bool(each)}{each},{each},{UNKNOWN_CLASS}" for each in paths
    )


class _Scopes:
    """What is known of the modules of a program, and what follows."""

    def __init__(self, graph: Graph) -> None:
        self.ops = [op for op in graph if not is_weight(op)]
        self.targets = {str(op.attrs["target"]) for op in graph if is_weight(op)}
        self.order = {op: place for place, op in enumerate(self.ops)}
        self.inputs = {op: list(_values_read(op)) for op in self.ops}
        self.users: dict[Op, list[Op]] = {op: [] for op in self.ops}
        for op, values in self.inputs.items():
            for value in values:
                if value.op in self.users:
                    self.users[value.op].append(op)
        owners = self._owners(graph)
        named = {op: path for op in self.ops if (path := scope_of_name(_name_of(op)))}
        both = [op for op in owners if op in named]
        agreeing = sum(named[op] == owners[op] for op in both)
        is_named = not owners or 2 * agreeing > len(both) > 0
        self.known = {**(named if is_named else {}), **owners}
        self.lists = {
            path[:i] for path in self.known.values()
            for i, part in enumerate(path) if part.isdecimal()
        }  # fmt: skip
        self._add_normalizations()
        self._types: dict[_Path, list[str]] = {}
        self._first: dict[_Path, _Path] = {}

    def _owners(self, graph: Graph) -> dict[Op, _Path]:
        """The modules of ops that are the first to read weights of a module."""
        weights: dict[Op, list[_Path]] = {
            op: [tuple(str(op.attrs["target"]).split(".")[:-1])]
            for op in graph if is_weight(op)
        }  # fmt: skip
        read: set[OutputPort] = set()
        found: dict[Op, _Path] = {}
        computed: list[Op] = []
        for op in self.ops:
            values = self.inputs[op]
            own = [value for value in values if value.op in weights]
            paths = [path for value in own for path in weights[value.op] if path]
            if values and len(own) == len(values):  # computed of weights only
                weights[op] = paths
                computed.append(op)
                continue
            if paths and any(value not in read for value in own):
                found[op] = _common(paths)
            read.update(own)
        found = {op: path for op, path in found.items() if path}
        for op in reversed(computed):
            path = _common([found.get(user, ()) for user in self.users[op]])
            if path:
                found[op] = path
        return found

    def _add_normalizations(self) -> None:
        """Put what a factor of weights is computed of into the module of the weights.

        So a normalization is one module: `x / sqrt(mean(x * x)) * weight`.
        """
        for op, path in list(self.known.items()):
            values = [value for value in self.inputs[op] if value.op in self.users]
            if len(values) == 1 and len(self.inputs[op]) > 1:
                found = self._between_value_and(op, values[0])
                self.known.update(dict.fromkeys(found, path))

    def _between_value_and(self, op: Op, value: OutputPort) -> set[Op]:
        """The ops between one value, which several of them read, and an op."""
        found: set[Op] = set()
        outside = {value}
        has_branched = False
        while outside and len(found) < _MOST:
            if has_branched and len(outside) == 1:
                return found
            last = max(outside, key=lambda each: self.order.get(each.op, -1)).op
            is_only_read_here = all(
                u is op or u in found for u in self.users.get(last, ())
            )
            if last not in self.users or last in self.known or not is_only_read_here:
                return set()
            found.add(last)
            outside |= {v for v in self.inputs[last] if not is_weight(v.op)}
            outside = {v for v in outside if v.op not in found}
            has_branched = has_branched or len(outside) > 1
        return set()

    def paths(self) -> dict[Op, _Path]:
        """The path of each op; of one that depends on no module: that of its users."""
        behind: set[Op] = set()
        for op in self.ops:
            if op in self.known or any(v.op in behind for v in self.inputs[op]):
                behind.add(op)
        above: dict[Op, _Path] = {}
        for op in reversed(self.ops):
            users = sorted(self.users[op], key=self.order.__getitem__)
            users = users[:1] if op in behind else users
            above[op] = _common([self.container(user, above) for user in users])
        found: dict[Op, _Path] = {}
        for op in self.ops:
            made = {v.op for v in self.inputs[op] if v.op in behind}
            if op in self.known:
                found[op] = self.known[op]
            elif made:
                found[op] = self._behind(op, made, found, above[op])
            else:
                found[op] = self.without_list(above[op])
        return found

    def _behind(
        self, op: Op, made: set[Op], found: dict[Op, _Path], above: _Path
    ) -> _Path:
        """The path of an op that reads results of others in modules."""
        below = {each: self.container(each, found) for each in made}

        def nearness(each: Op) -> tuple[int, int]:
            return len(_common([below[each], above])), self.order[each]

        last = max(made, key=nearness)
        return self._path_between(op, below[last], list(below.values()), above)

    def container(self, op: Op, paths: dict[Op, _Path]) -> _Path:
        """The module around the one that an op is computed in."""
        return self.known[op][:-1] if op in self.known else paths[op]

    def _path_between(
        self, op: Op, last: _Path, below: Sequence[_Path], above: _Path
    ) -> _Path:
        """The module of an op: it reads from `below`, and `above` reads it.

        Between two modules of a list it is in the one that it reads `last`.
        """
        found = _common([last, above])
        item = self._item(op, last, len(found), above)
        if item is not None:
            own = [path if path[: len(item)] == item else item for path in below]
            found = self._in_item(_common(own), last)
            for end in range(len(found) + 1):
                if found[:end] != above[:end] and found[end - 1].isdecimal():
                    self._types.setdefault(found[:end], []).append(op.type or "")
                    self._first.setdefault(_pattern(found[:end]), found[:end])
        return self.without_list(found)

    def _item(self, op: Op, last: _Path, start: int, above: _Path) -> _Path | None:
        """The module of a list whose end an op is.

        The end of the last module of a list has the ops that the first one's has.
        """
        ends = [i + 1 for i in range(start, len(last)) if last[i].isdecimal()]
        for end in reversed(ends):
            item = last[:end]
            first = self._first.get(_pattern(item), item)
            place = len(self._types.get(item, []))
            types = self._types.get(first, []) if first != item else []
            if types[place : place + 1] == [op.type or ""]:
                return item
        is_next = len(above) > start and above[start].isdecimal()
        return last[: start + 1] if ends[:1] == [start + 1] and is_next else None

    def _in_item(self, path: _Path, last: _Path) -> _Path:
        """A module for what reads several modules of a list: the last of these."""
        if path in self.lists and last[: len(path)] == path:
            return last[: len(path) + 1]
        return path

    def free_name(self, stem: str) -> str:
        """A name for a weight that no other has, without its number if that is free."""
        plain = re.sub(r"_\d+$", "", stem)
        names = itertools.chain([plain], (f"{plain}_{i}" for i in itertools.count(1)))
        name = next(name for name in names if name not in self.targets)
        self.targets.add(name)
        return name

    def without_list(self, path: _Path) -> _Path:
        """The module around a list, which computes nothing itself."""
        while path and path in self.lists:
            path = path[:-1]
        return path


def _pattern(path: _Path) -> _Path:
    """
    >>> _pattern(("layers", "2", "fc"))
    ('layers', '', 'fc')
    """
    return tuple("" if part.isdecimal() else part for part in path)


def _common(paths: Sequence[_Path]) -> _Path:
    """
    >>> _common([("a", "b"), ("a", "c")])
    ('a',)
    """
    found: list[str] = []
    for parts in zip(*paths, strict=False):
        if len(set(parts)) > 1:
            break
        found.append(parts[0])
    return tuple(found)


def _values_read(op: Op) -> Iterator[OutputPort]:
    """The values that an op reads, its bodies included."""
    yield from (value for value in op.inputs if value is not None)
    for body in op.bodies.values():
        yield from body.captures


def _name_of(op: Op) -> str:
    """The name of an op in the graph that it comes from."""
    sources: Iterable[str] = () if op.provenance is None else op.provenance.sources
    return next(iter(sources), op.name or "")


def scope_of_name(name: str) -> _Path:
    """The modules in the name of an op, as ONNX exporters of PyTorch write it.

    >>> scope_of_name("/layer1/layer1.0/conv1/Conv"), scope_of_name("MatMul_3")
    (('layer1', '0', 'conv1'), ())
    """
    parts = name.strip("/").split("/")
    path: list[str] = []
    last = ""
    for part in parts[:-1]:
        own = part.removeprefix(f"{last}.") if last else part
        path += [each for each in re.split(r"\W+", own) if each]
        last = part
    return tuple(path)
