"""A declaration on its way to a row: what its rules said so far about both ops.

Rules tell the draft where inputs go and what attributes become; the draft knows both
ops, names variables and writes the text. It writes up to four rows of one declaration:

- `both`      the equation, where everything that the source op says comes back
- `forth` and `back`, in place of it, where the element type of a constant that becomes
              a number is told by nothing: there it must be the usual one, here it is
- `loose`     one way, for ops that say more than nd4j is told; it tells what is lost
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any, Final, Literal, TypeAlias

from amanda.dictionary import Attr, OpDef, Port
from amanda.types import DType
from amanda_nd4j.namespace import Descriptor

__all__ = ["TENSOR", "Draft", "Mode", "literal"]

Mode: TypeAlias = Literal["both", "forth", "back", "loose"]
_Text: TypeAlias = "Callable[[Mode], str]"
TENSOR: Final = "INPUT_TENSOR"
_NO_VARIABLES: Final = {
    *("_", "after", "and", "if", "in", "losing", "not", "or"),
    *("False", "None", "True", "false", "inf", "nan", "none", "true"),
}
_OF_KIND: Final = {
    "bool": "BOOL", "double": "DOUBLE", "dtype": "DATA_TYPE", "enum": "INT64",
    "float": "DOUBLE", "int": "INT64", "string": "STRING", "type": "DATA_TYPE",
}  # fmt: skip


def _same(text: str, _mode: Mode) -> str:
    return text


def literal(value: Any) -> str:
    """A value as rules write it.

    >>> literal([True, None, "a", 0.5])
    '[true, none, "a", 0.5]'
    """
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, str):
        quoted = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{quoted}"'
    words = {True: "true", False: "false", None: "none"}
    return words[value] if value is None or isinstance(value, bool) else repr(value)


class Draft:
    """Both ops of a declaration; `fixed` holds what is known of the source in one of
    several cases: the value of an attribute, or None where it is left out; `present`
    has those that other cases leave out."""

    def __init__(
        self,
        entry: OpDef,
        target: Descriptor,
        fixed: Mapping[str, Any],
        *,
        present: Collection[str] = (),
        framing: str,
    ) -> None:
        self.entry = entry
        self.target = target
        self.fixed = fixed
        self.present = present
        self.framing = framing
        self.guards: list[str] = []
        self.one_way: list[str] = []
        """Why nothing leads back; where there is something, no equation is written."""
        self.partial: list[str] = []
        """Of what the equation covers some values only."""
        self.extra: dict[str, str] = {}
        """Arguments that the descriptors do not have, with their kinds."""
        self.all_inputs = False
        self._names: dict[tuple[str, str], str] = {}
        self._ports = {port.name: port for port in entry.inputs}
        self._attrs = {a.name: a for a in (*entry.attrs, *entry.variables)}
        self._said: dict[str, _Text] = {}
        self._items: dict[str, dict[int, str]] = {}
        self._stated: dict[str, dict[int, Any]] = {}
        self._numbers: dict[str, str] = {}
        self._placed: dict[int, _Text] = {}
        self._kept: set[str] = set()
        self._results: dict[str, _Text] = {}
        self._writers: dict[str, str] = {}

    # -- what there is -------------------------------------------------------------

    def port(self, name: str) -> Port | None:
        return self._ports.get(name)

    def attr(self, name: str) -> Attr | None:
        return self._attrs.get(name)

    def kind(self, name: str) -> str:
        """The kind that nd4j has for an attribute of the source."""
        found = self._attrs.get(name)
        return _OF_KIND.get(found.element if found else "", "INT64")

    def kinds(self, key: str, *among: str) -> list[str]:
        """The kinds, of these, under which nd4j has an argument of this name."""
        have = [a.kind for a in self.target.arguments if a.name == key]
        return [kind for kind in among if kind in have]

    def variable(self, name: str, side: str = "source") -> str:
        """A name that rules take for a variable, and that no other one has."""
        found = self._names.get((side, name))
        if found is None:
            plain = re.sub(r"\W", "_", name).lstrip("0123456789") or "value"
            while plain in _NO_VARIABLES or plain in self._names.values():
                plain += "_"
            found = self._names[side, name] = plain
        return found

    # -- what rules say of the source ----------------------------------------------

    def say(self, name: str) -> str:
        """An attribute as a variable; the constant that it is, where that is known."""
        known = name in self.fixed
        text = literal(self.fixed[name]) if known else self.variable(name)
        self._said[name] = partial(_same, text)
        return text

    def say_as(self, name: str, exact: str, loose: str) -> None:
        """An attribute by a text of its own."""
        self._said[name] = lambda mode: loose if mode == "loose" else exact

    def item(self, name: str, index: int, key: str, default: Any = None) -> str:
        """An item of a list, which is an attribute or a constant input."""
        found = self._items.setdefault(name, {})
        if name in self.present and not found:
            self.guards.append(f"given({self.variable(key, 'target')})")
        if default is not None:
            self._stated.setdefault(name, {})[index] = default
        return found.setdefault(index, self.variable(key, "target"))

    def number(self, name: str, how: str) -> str:
        """A constant input as a number (`first`) or as all its numbers (`all`)."""
        self._numbers[name] = how
        return self.variable(name)

    # -- what they say of nd4j -----------------------------------------------------

    def place(self, key: str, name: str) -> None:
        """An input of the source as one of nd4j."""
        self._kept.add(name)
        self.place_text(key, self._input(name))

    def place_all(self) -> None:
        """All inputs as they are; where several are lists, nothing tells them apart."""
        self.all_inputs = sum(port.repeats for port in self._ports.values()) > 1
        for at, name in enumerate([] if self.all_inputs else self._ports):
            self._kept.add(name)
            self._placed[at] = partial(_same, self._input(name))

    def place_text(self, key: str, text: str) -> None:
        """An input of nd4j by a text."""
        places = [a.place for a in self.target.of(TENSOR) if a.name == key]
        at = places[0] if places else len(self._placed)
        self._placed[at] = partial(_same, text)

    def put(
        self, key: str, kind: str, text: str, place: int | None = None, loose: str = ""
    ) -> None:
        """An argument of nd4j; the place tells which, where the rule says it."""
        name = self._argument(key, kind, place)
        self._results[name] = lambda mode: (loose or text) if mode == "loose" else text

    def put_number(self, key: str, kind: str, name: str) -> None:
        """A constant input as an argument."""
        variable = self.variable(name)

        def text(mode: Mode) -> str:
            is_raw = name in self._kept or mode in ("forth", "loose")
            first = is_raw and self._numbers[name] == "first"
            told = f"first({variable})" if first else variable
            return f"double({told})" if kind == "DOUBLE" else told

        self._results[self._argument(key, kind, None)] = text

    def _argument(self, key: str, kind: str, place: int | None) -> str:
        """The argument at a place; by its name where another rule was there before."""
        known = [each for each in self.target.arguments if each.kind == kind]
        found = [each for each in known if each.place == place]
        if not found or self._writers.get(found[0].called, key) != key:
            found = [each for each in known if each.name == key]
        name = found[0].called if found else self._undeclared(key, kind)
        self._writers[name] = key
        return name

    def _undeclared(self, key: str, kind: str) -> str:
        plain = re.sub(r"\W", "", key) or "arg"
        taken = {each.called for each in self.target.arguments}
        name = f"{plain}.{kind.lower()}" if plain in taken else plain
        self.extra[name] = kind
        return name

    # -- rows ----------------------------------------------------------------------

    def rows(self) -> list[str]:
        """The texts of all rows of this case."""
        losses = self.losses()
        found = []
        if not self.one_way and not self._unreturned():
            if any(self._told_by(name) is None for name in self._consumed()):
                found += [self._row("forth", "=>"), self._row("back", "<=")]
            else:
                found.append(self._row("both", "<=>"))
        if losses or not found:
            told = f"  losing {literal(', '.join(losses))}" if losses else ""
            found.append(self._row("loose", "=>") + told)
        return found

    def needed(self) -> frozenset[int]:
        """The places of the inputs that have to be constant."""
        names = {*self._numbers, *self._items}
        return frozenset(i for i, name in enumerate(self._ports) if name in names)

    def losses(self) -> list[str]:
        """What is not told to nd4j, or not so that it can be told back."""
        attrs = [a.name for a in self.entry.attrs if a.name not in self._covered()]
        inputs = [] if self.all_inputs else self._unused()
        vague = [f"items of {name}" for name in self._items]
        types = [
            f"the element type of {name}"
            for name in self._consumed()
            if self._told_by(name) is None
        ]
        partial = [
            f"values of {name} that nd4j does not tell apart"
            for name in dict.fromkeys(self.partial)
        ]
        return [*attrs, *inputs, *vague, *types, *partial, *self.one_way]

    def _covered(self) -> set[str]:
        return {*self._said, *self._items, *self.fixed}

    def _unused(self) -> list[str]:
        used = {*self._kept, *self._numbers, *self._items}
        return [name for name in self._ports if name not in used]

    def _unreturned(self) -> bool:
        """Is something of the source op told by nothing of nd4j?"""
        missing = [
            a.name
            for a in self.entry.attrs
            if a.required and a.name not in self._covered()
        ]
        missing += [
            name
            for name, value in self.fixed.items()
            if name in self._attrs and value is not None and name not in self._said
        ]
        inputs = [] if self.all_inputs else self._unused()
        return bool(missing) or any(
            self._ports[name].form != "optional" and not self._ports[name].nullable
            for name in inputs
        )

    def _row(self, mode: Mode, arrow: str) -> str:
        left = f"{self.entry.name}({', '.join(self._left(mode))})"
        right = f"{self.target.name}({', '.join(self._right(mode))})"
        guards = list(self.guards)
        if mode == "forth":
            for name in self._consumed():
                if self._told_by(name) is None:
                    usual = literal(self._usual(name))
                    guards.append(f"dtype({self.variable(name)}) == {usual}")
        told = f"  if {' and '.join(guards)}" if guards else ""
        return f"{left}  {arrow}  {right}{told}"

    def _left(self, mode: Mode) -> Iterable[str]:
        yield from self._left_inputs(mode)
        for name, text in self._said.items():
            yield f"{name}={text(mode)}"
        for name in self._items:
            if name not in self._ports:
                yield f"{name}={self._pattern(name, mode)}"
        for name, value in self.fixed.items():
            if name in self._attrs and not (name in self._said or name in self._items):
                yield f"{name}={literal(value)}"
        if mode == "loose":
            for attr in self.entry.attrs:
                if attr.name not in self._covered():
                    yield f"{attr.name}=_"

    def _left_inputs(self, mode: Mode) -> list[str]:
        if self.all_inputs:
            return ["*inputs"]
        found = [self._left_input(name, mode) for name in self._ports]
        while found and not found[-1]:
            found.pop()
        return [text or "none" for text in found]

    def _left_input(self, name: str, mode: Mode) -> str:
        if name in self._kept:
            return self._input(name)
        if name in self._items:
            return self._pattern(name, mode)
        if name in self._numbers:
            variable, how = self.variable(name), self._numbers[name]
            if mode in ("forth", "loose"):
                return variable
            lens = "number" if how == "first" else "numbers"
            told = self._told_by(name) or literal(self._usual(name))
            return f"{lens}({variable}, {told})"
        if mode == "loose":
            return "*_" if self._ports[name].repeats else "_"
        return ""

    def _right(self, mode: Mode) -> Iterable[str]:
        if self.all_inputs:
            yield "*inputs"
        else:
            for at in range(max(self._placed, default=-1) + 1):
                text = self._placed.get(at)
                yield "none" if text is None else text(mode)
        for key, text in self._results.items():
            yield f"{key}={text(mode)}"

    # -- lists and numbers ---------------------------------------------------------

    def _input(self, name: str) -> str:
        """An input as both sides write it: one, one that may be left out, or all."""
        port, variable = self._ports[name], self.variable(name)
        if port.repeats:
            return f"*{variable}"
        return f"{variable}?" if port.form == "optional" or port.nullable else variable

    def _pattern(self, name: str, mode: Mode) -> str:
        """A list by its items: what no rule reads is 1, or as at the other end."""
        items = self._items[name]
        if mode == "loose":
            told = [items.get(i, "_") for i in range(max(items) + 1)]
            text = f"[{', '.join([*told, '*_'])}]"
        else:
            text = f"[{', '.join(self._framed(name, items))}]"
        stated = self._stated.get(name, {})
        attr = self._attrs.get(name)
        if stated and attr is not None and attr.default is None and not attr.required:
            values = [stated.get(i, 0) for i in sorted(items)]
            if len(self._framed(name, items)) == 2 * len(values):
                values *= 2
            return f"stated({text}, {literal(values)})"
        return text

    def _framed(self, name: str, items: Mapping[int, str]) -> list[str]:
        if self.framing == "both ends":  # begins, then ends
            told = [items[i] for i in sorted(items)]
            return told * 2 if "pad" in name else told
        return [items.get(i, "1") for i in range(len(items) + 2)]

    def _consumed(self) -> list[str]:
        """Constant inputs of which only the numbers are told."""
        return [name for name in self._numbers if name not in self._kept]

    def _told_by(self, name: str) -> str | None:
        """What tells the element type of an input: its port, or an attribute."""
        type = self._ports[name].type
        if isinstance(type, DType):
            return literal(str(type))
        if isinstance(type, str) and type in self._said:
            return self._said[type]("both")
        return None

    def _usual(self, name: str) -> str:
        """The element type that an input has where nothing tells it."""
        type = self._ports[name].type
        attr = self._attrs.get(type) if isinstance(type, str) else None
        if attr is not None and isinstance(attr.default, DType):
            return str(attr.default)
        allowed = {str(each) for each in attr.allowed} if attr is not None else set()
        order = ("int32", "int64") if self.framing != "both ends" else ("int64",)
        known = [each for each in (*order, "float32") if not allowed or each in allowed]
        return known[0] if known else min(allowed)
