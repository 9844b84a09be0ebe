"""Modules of equal structure as classes, whose differences are arguments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from amanda_torch.source.layers import Argument
from amanda_torch.source.python_text import Code, constant_text, format_statement

__all__ = ["Construct", "Instance", "Line", "SourceClass", "make_classes"]


class Construct(NamedTuple):
    """A call of a constructor: of a layer, a list of modules, or of a class."""

    name: str
    arguments: Sequence[Argument] = ()
    items: Sequence[Construct] = ()
    instance: Instance | None = None

    @property
    def key(self) -> Any:
        if self.instance is not None:
            return self.instance.key
        names = tuple(argument.name for argument in self.arguments)
        return self.name, names, tuple(item.key for item in self.items)


class Line(NamedTuple):
    """A line of a constructor: a target and its value, or a text."""

    target: str
    construct: Construct | None = None
    text: str = ""
    before: str = ""

    @property
    def key(self) -> Any:
        key = None if self.construct is None else self.construct.key
        return self.target, key, self.text, self.before


class Instance:
    """A module of a program: how it is made, and what it computes."""

    def __init__(
        self, path: str, hint: str, lines: Sequence[Line], forward: Sequence[str]
    ) -> None:
        self.path = path
        self.hint = hint
        self.lines = lines
        self.key = (hint, tuple(line.key for line in lines), tuple(forward))
        self.source: SourceClass | None = None
        self.arguments: list[Argument] = []
        """What it passes to the constructor of its class."""


class SourceClass:
    """A class: its name, the arguments of its constructor, and one of its modules."""

    def __init__(self, name: str, instances: Sequence[Instance]) -> None:
        self.name = name
        self.first = instances[0]
        self.parameters: dict[int, str] = {}
        """The parameters that arguments of the constructors in it are."""
        self._find_parameters(instances)

    def _find_parameters(self, instances: Sequence[Instance]) -> None:
        rows = [list(_arguments(instance)) for instance in instances]
        columns = list(zip(*rows, strict=True))
        names: dict[tuple[Any, ...], str] = {}
        for place, column in enumerate(columns):
            values = tuple(argument.value for _, argument in column)
            if all(value == values[0] for value in values):
                continue
            member, argument = column[0]
            if values not in names:
                name = argument.name
                if name in names.values():
                    name = f"{member}_{name}"
                while name in names.values():
                    name += "_"
                names[values] = name
            self.parameters[place] = names[values]
        for row, instance in enumerate(instances):
            instance.source = self
            instance.arguments = [
                Argument(name, values[row]) for values, name in names.items()
            ]

    def constructor(self) -> list[str]:
        """The lines of `__init__`."""
        names = iter(range(len(list(_arguments(self.first)))))
        types = {
            self.parameters[place]: _type_name(argument.value)
            for place, (_, argument) in enumerate(_arguments(self.first))
            if place in self.parameters
        }
        given = "".join(f", {name}: {type}" for name, type in types.items())
        lines = format_statement(f"def __init__(self{given}) -> None:", 4)
        body = [
            text for line in self.first.lines
            for text in self._line(line, names)
        ]  # fmt: skip
        return [*lines, "        super().__init__()", *body]

    def _line(self, line: Line, places: Iterator[int]) -> list[str]:
        if line.construct is None:
            return format_statement(f"{line.before}{line.text}", 8)
        text = self.text(line.construct, places)
        end = ")" if line.before else ""
        return format_statement(f"{line.before}{line.target}{text}{end}", 8)

    def text(self, construct: Construct, places: Iterator[int]) -> str:
        """The call of a constructor."""
        if construct.name in ("ModuleList", "Sequential"):
            items = [self.text(item, places) for item in construct.items]
            return _list_text(construct.name, items)
        arguments = _own_arguments(construct)
        named = [(next(places), argument) for argument in arguments]
        texts: list[str] = []
        by_name = False
        for place, argument in named:
            parameter = self.parameters.get(place)
            is_required = argument.default == Code("...")
            if (
                parameter is None
                and not is_required
                and argument.value == argument.default
            ):
                by_name = True
                continue
            value = parameter or constant_text(argument.value)
            by_name = by_name or not is_required
            texts.append(f"{argument.name}={value}" if by_name else value)
        prefix = "" if construct.instance is not None else "nn."
        name = construct.name
        if construct.instance is not None:
            assert construct.instance.source is not None
            name = construct.instance.source.name
        return f"{prefix}{name}({', '.join(texts)})"


def _list_text(name: str, items: Sequence[str]) -> str:
    if name == "Sequential":
        return f"nn.Sequential({', '.join(items)})"
    if len(items) > 1 and all(item == items[0] for item in items):
        return f"nn.ModuleList([{items[0]} for _ in range({len(items)})])"
    return f"nn.ModuleList([{', '.join(items)}])"


def _own_arguments(construct: Construct) -> Sequence[Argument]:
    if construct.instance is not None:
        return construct.instance.arguments
    return construct.arguments


def _arguments(instance: Instance) -> Iterator[tuple[str, Argument]]:
    """All arguments of the constructors in a module, with the name of the member."""
    for line in instance.lines:
        if line.construct is not None:
            member = line.target.removeprefix("self.").partition(" ")[0]
            for argument in _all_arguments(line.construct):
                yield member, argument


def _all_arguments(construct: Construct) -> Iterator[Argument]:
    yield from _own_arguments(construct)
    for item in construct.items:
        yield from _all_arguments(item)


def _type_name(value: Any) -> str:
    if isinstance(value, Code):
        return "tuple[int, ...]"
    return {bool: "bool", int: "int", float: "float", str: "str"}.get(
        type(value), "torch.dtype | None" if value is None else "torch.dtype"
    )


def make_classes(instances: Sequence[Instance]) -> list[SourceClass]:
    """A class for each structure; modules stand behind those that they contain."""
    groups: dict[Any, list[Instance]] = {}
    for instance in instances:
        groups.setdefault(instance.key, []).append(instance)
    found: list[SourceClass] = []
    used: set[str] = set()
    for members in groups.values():
        name, count = members[0].hint, 1
        while name in used:
            count += 1
            name = f"{members[0].hint}{count}"
        used.add(name)
        found.append(SourceClass(name, members))
    return found
