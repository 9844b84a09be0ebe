"""Modules of equal structure as classes, whose differences are arguments."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from typing import Any, Final, NamedTuple

from amanda.types import DType
from amanda_torch.source.layers import REQUIRED, Argument
from amanda_torch.source.python_text import (
    Code,
    Number,
    are_equal,
    constant_key,
    constant_text,
    format_statement,
    is_name,
)

__all__ = ["Construct", "Instance", "Line", "SourceClass", "make_classes"]

_MOST: Final = 4
"""Modules that differ in more numbers of `forward` than these have classes of their
own."""


_FEW: Final = 3
"""More arguments than these are passed to a class of the file by name."""


class Construct(NamedTuple):
    """A call of a constructor: of a layer, a list of modules, or of a class."""

    name: str
    arguments: Sequence[Argument] = ()
    items: Sequence[Construct] = ()
    instance: Instance | None = None

    def key(self, exact: bool = False) -> Any:
        """What constructors of one class have in common; `exact`: in each number."""
        if self.instance is not None:
            return self.instance.key if exact else self.instance.source
        named = tuple(
            (a.name, constant_key(a.value) if exact else None) for a in self.arguments
        )
        return self.name, named, tuple(item.key(exact) for item in self.items)

    def instances(self) -> Iterator[Instance]:
        """The modules that it makes which have classes of their own."""
        if self.instance is not None:
            yield self.instance
        for item in self.items:
            yield from item.instances()


class Line(NamedTuple):
    """A line of a constructor: a text, or a constructor's call between two."""

    before: str
    construct: Construct | None = None
    after: str = ""

    def key(self, exact: bool = False) -> Any:
        key = None if self.construct is None else self.construct.key(exact)
        return self.before, key, self.after

    @property
    def member(self) -> str:
        """The name of what the line assigns to."""
        found = re.match(r'self\.(?:\w+\(")?(\w+)', self.before)
        return found[1] if found is not None and is_name(found[1]) else ""


class Instance:
    """A module of a program: how it is made, and what it computes.

    `forward` are the lines of the function, without its numbers; `type` is the name of
    the class where it is known, `hint` a name for it.
    """

    def __init__(
        self, path: str, type: str, hint: str, lines: Sequence[Line],
        forward: Sequence[str], numbers: Sequence[Number],
    ) -> None:  # fmt: skip
        self.path = path
        self.type = type
        self.hint = hint
        self.lines = lines
        self.forward = tuple(forward)
        self.numbers = numbers
        exact = (tuple(line.key(exact=True) for line in lines), self.value_keys)
        self.key = (type, exact, self.forward)
        """Equal for modules that are the same in all but their weights."""
        inner = [
            each for line in lines if line.construct is not None
            for each in line.construct.instances()
        ]  # fmt: skip
        self.height: int = 1 + max((each.height for each in inner), default=0)
        self.source: SourceClass | None = None
        self.arguments: list[Argument] = []
        """What it passes to the constructor of its class."""

    @property
    def value_keys(self) -> tuple[Any, ...]:
        """The numbers of `forward`, by what equal ones have in common."""
        return tuple(constant_key(number.value) for number in self.numbers)

    def structure(self) -> Any:
        """Equal for modules of one class, if those in them have classes."""
        return self.type, tuple(line.key() for line in self.lines), self.forward


class SourceClass:
    """A class: its name, the arguments of its constructor, and one of its modules."""

    def __init__(self, instances: Sequence[Instance]) -> None:
        self.name = ""
        self.first = instances[0]
        self.hint = min((each.hint for each in instances), key=len)
        self.paths = [instance.path for instance in instances]
        rows = [list(_arguments(instance)) for instance in instances]
        numbers = [[Argument(n.name, n.value) for n in i.numbers] for i in instances]
        columns = _Columns()
        for place, column in enumerate(zip(*rows, strict=True)):
            columns.add(place, column[0][0], [argument for _, argument in column])
        for number, found in zip(
            self.first.numbers, zip(*numbers, strict=True), strict=True
        ):
            columns.add(number, "", found)
        self.columns = columns.parameters()
        self.parameters = {
            place: parameter for parameter, column in self.columns
            for place in column.places
        }  # fmt: skip
        """The parameters that arguments of constructors, and numbers, are."""
        for row, instance in enumerate(instances):
            instance.source = self
            instance.arguments = [
                parameter._replace(value=column.values[row])
                for parameter, column in self.columns
            ]

    def constructor(self) -> list[str]:
        """The lines of `__init__`."""
        items = [
            f"{parameter.name}: {_type_of(column.values)}"
            + ("" if parameter.default == REQUIRED
               else f" = {constant_text(parameter.default)}")
            for parameter, column in self.columns
        ]  # fmt: skip
        head = f"def __init__({', '.join(['self', *items])}) -> None:"
        places = iter(range(sum(1 for _ in _arguments(self.first))))
        names = [self.parameters[n].name for n in self.numbers()]
        stored = [f"        self.{name} = {name}" for name in dict.fromkeys(names)]
        body = [
            text for line in self.first.lines
            for text in self._line(line, places)
        ]  # fmt: skip
        lines = format_statement(head, 4)
        return [*lines, "        super().__init__()", *stored, *body]

    def _line(self, line: Line, places: Iterator[int]) -> list[str]:
        text = "" if line.construct is None else self.text(line.construct, places)
        return format_statement(f"{line.before}{text}{line.after}", 8)

    def text(self, construct: Construct, places: Iterator[int]) -> str:
        """The call of a constructor."""
        if construct.name in ("ModuleList", "Sequential"):
            items = [self.text(item, places) for item in construct.items]
            return _list_text(construct.name, items)
        texts: list[str] = []
        arguments = _own_arguments(construct)
        by_name = construct.instance is not None and len(arguments) > _FEW
        for argument in arguments:
            parameter = self.parameters.get(next(places))
            is_required = argument.default == REQUIRED
            if parameter is None and are_equal(argument.value, argument.default):
                by_name = True
                continue
            value = constant_text(argument.value)
            if parameter is not None:
                value = parameter.name
            by_name = by_name or not is_required
            texts.append(f"{argument.name}={value}" if by_name else value)
        return f"{_class_name(construct)}({', '.join(texts)})"

    def numbers(self) -> dict[Number, str]:
        """The numbers of `forward` that are attributes, with their texts."""
        return {
            number: f"self.{self.parameters[number].name}"
            for number in self.first.numbers if number in self.parameters
        }  # fmt: skip


def _class_name(construct: Construct) -> str:
    if construct.instance is not None:
        assert construct.instance.source is not None
        return construct.instance.source.name
    return construct.name if "." in construct.name else f"nn.{construct.name}"


class _Column(NamedTuple):
    """Arguments that are equal in each module of a class."""

    values: tuple[Any, ...]
    default: Any
    names: list[tuple[str, str]]
    """The member of each argument, and its name."""
    places: list[int | Number]

    def order(self) -> tuple[bool, bool]:
        """Sizes of inputs stand before others, and parameters with defaults last."""
        is_input = any(name.startswith("in_") for _, name in self.names)
        return self.default != REQUIRED, not is_input


class _Columns:
    """The parameters of a class, and the value that each of its modules has."""

    def __init__(self) -> None:
        self._columns: dict[Any, _Column] = {}

    def add(self, place: int | Number, member: str, column: Sequence[Argument]) -> None:
        """Note what an argument is in each module, if it is not the same."""
        values = tuple(argument.value for argument in column)
        keys = tuple(map(constant_key, values))
        if len(set(keys)) == 1:
            return
        name, _, default = column[0]
        if any(argument.default != default for argument in column):
            default = REQUIRED
        key = keys, "" if default == REQUIRED else name
        found = self._columns.setdefault(key, _Column(values, default, [], []))
        found.names.append((member, name))
        found.places.append(place)

    def parameters(self) -> list[tuple[Argument, _Column]]:
        """The parameters, those with defaults last."""
        columns = sorted(self._columns.values(), key=_Column.order)
        names: list[str] = []
        for column in columns:
            names.append(_free_name(column, names))
        return [
            (Argument(name, None, column.default), column)
            for name, column in zip(names, columns, strict=True)
        ]


def _free_name(column: _Column, taken: Container[str]) -> str:
    """The name of a parameter: the one that says most."""
    member, name = min(column.names, key=lambda each: each[1] in _GENERAL)
    stem = f"{member}_{name}" if name in taken and member else name
    name, count = stem, 1
    while name in taken:
        count += 1
        name = f"{stem}_{count}"
    return name


_GENERAL: Final = ("size", "num_features", "value", "scale", "offset")


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
            for argument in _all_arguments(line.construct):
                yield line.member, argument


def _all_arguments(construct: Construct) -> Iterator[Argument]:
    yield from _own_arguments(construct)
    for item in construct.items:
        yield from _all_arguments(item)


def _type_of(values: Sequence[Any]) -> str:
    """The type of a parameter that has these values."""
    names = {_type_name(value) for value in values}
    if "float" in names:
        names.discard("int")
    return " | ".join(sorted(names, key=lambda name: (name == "None", name)))


def _type_name(value: Any) -> str:
    if isinstance(value, Code):
        return "tuple[int, ...]"
    if isinstance(value, DType):
        return "torch.dtype"
    return "None" if value is None else type(value).__name__


def make_classes(instances: Sequence[Instance]) -> list[SourceClass]:
    """A class for each structure; modules stand behind those that they contain."""
    classes: list[SourceClass] = []
    for height in sorted({instance.height for instance in instances}):
        groups: dict[Any, list[Instance]] = {}
        for instance in instances:
            if instance.height == height:
                groups.setdefault(instance.structure(), []).append(instance)
        for members in groups.values():
            classes += map(SourceClass, _split(members))
    order = {instance: place for place, instance in enumerate(instances)}
    classes.sort(key=lambda each: order[each.first])
    used: set[str] = set()
    for each in [*classes[-1:], *classes[:-1]]:  # the whole module, then those in it
        each.name, count = each.hint, 1
        while each.name in used:
            count += 1
            each.name = f"{each.hint}{count}"
        used.add(each.name)
    return classes


def _split(instances: Sequence[Instance]) -> list[list[Instance]]:
    """Modules of one structure, apart where they differ in too many numbers."""
    values = [instance.value_keys for instance in instances]
    columns = {column for column in zip(*values, strict=True) if len(set(column)) > 1}
    if len(columns) <= _MOST:
        return [list(instances)]
    groups: dict[Any, list[Instance]] = {}
    for instance in instances:
        groups.setdefault(instance.value_keys, []).append(instance)
    return list(groups.values())
