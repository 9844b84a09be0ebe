"""Rows of rule text, built up from the rules of one declaration.

Rules map inputs and attributes of the source op; the draft has both op definitions,
names variables and writes the text. It writes up to four rows for one declaration:

- `both`      the equation, where the source op is recovered completely
- `forth` and `back`, instead of it, where the element type of a constant that becomes a
              number is not determined: `forth` requires the usual type, `back` uses it
- `loose`     one way, for ops with more information than nd4j has; it states the loss
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any, Final, Literal, TypeAlias

from amanda.dictionary import Attr, OpDef, Port
from amanda.types import DType
from amanda_nd4j.namespace import Descriptor

__all__ = ["TENSOR", "RowDraft", "Mode", "format_literal"]

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


def _keep_text(text: str, _mode: Mode) -> str:
    return text


def format_literal(value: Any) -> str:
    """A value in the notation of rules.

    >>> format_literal([True, None, "a", 0.5])
    '[true, none, "a", 0.5]'
    """
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(format_literal, value))}]"
    if isinstance(value, str):
        quoted = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{quoted}"'
    words = {True: "true", False: "false", None: "none"}
    return words[value] if value is None or isinstance(value, bool) else repr(value)


class RowDraft:
    """Both ops of a declaration. `fixed` is what one of several cases assumes of the
    source: the value of an attribute, or None if it is absent; `present` has the
    attributes that are absent in other cases."""

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
        """Names of which the equation covers some values only."""
        self.extra: dict[str, str] = {}
        """Arguments that are not in the descriptors, with their kinds."""
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

    # -- names and kinds -----------------------------------------------------------

    def port(self, name: str) -> Port | None:
        return self._ports.get(name)

    def attr(self, name: str) -> Attr | None:
        return self._attrs.get(name)

    def kind(self, name: str) -> str:
        """The kind in nd4j of an attribute of the source."""
        found = self._attrs.get(name)
        return _OF_KIND.get(found.element if found else "", "INT64")

    def kinds(self, key: str, *among: str) -> list[str]:
        """The kinds, of these, under which nd4j has an argument of this name."""
        have = [a.kind for a in self.target.arguments if a.name == key]
        return [kind for kind in among if kind in have]

    def variable(self, name: str, side: str = "source") -> str:
        """A unique name that is valid for a variable in rules."""
        found = self._names.get((side, name))
        if found is None:
            plain = re.sub(r"\W", "_", name).lstrip("0123456789") or "value"
            while plain in _NO_VARIABLES or plain in self._names.values():
                plain += "_"
            found = self._names[side, name] = plain
        return found

    # -- the source side ---------------------------------------------------------

    def text_of(self, name: str) -> str:
        """An attribute as a variable, or as a constant where its value is known."""
        known = name in self.fixed
        text = format_literal(self.fixed[name]) if known else self.variable(name)
        self._said[name] = partial(_keep_text, text)
        return text

    def set_source(self, name: str, exact: str, loose: str) -> None:
        """An attribute with a given text."""
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

    # -- the side of nd4j ---------------------------------------------------------

    def map_input(self, key: str, name: str) -> None:
        """Map an input of the source to one of nd4j."""
        self._kept.add(name)
        self.set_input(key, self._input(name))

    def map_all_inputs(self) -> None:
        """Map all inputs in order; several variadic ones cannot be distinguished."""
        self.all_inputs = sum(port.repeats for port in self._ports.values()) > 1
        for at, name in enumerate([] if self.all_inputs else self._ports):
            self._kept.add(name)
            self._placed[at] = partial(_keep_text, self._input(name))

    def set_input(self, key: str, text: str) -> None:
        """Set an input of nd4j to a text."""
        places = [a.place for a in self.target.of(TENSOR) if a.name == key]
        at = places[0] if places else len(self._placed)
        self._placed[at] = partial(_keep_text, text)

    def set_argument(
        self, key: str, kind: str, text: str, place: int | None = None, loose: str = ""
    ) -> None:
        """Set an argument of nd4j, by its index where the rule has one."""
        name = self._argument(key, kind, place)
        self._results[name] = lambda mode: (loose or text) if mode == "loose" else text

    def set_number_argument(self, key: str, kind: str, name: str) -> None:
        """Map a constant input to an argument."""
        variable = self.variable(name)

        def text(mode: Mode) -> str:
            is_raw = name in self._kept or mode in ("forth", "loose")
            first = is_raw and self._numbers[name] == "first"
            told = f"first({variable})" if first else variable
            return f"double({told})" if kind == "DOUBLE" else told

        self._results[self._argument(key, kind, None)] = text

    def _argument(self, key: str, kind: str, place: int | None) -> str:
        """The argument at an index; by name where another rule used the index."""
        known = [each for each in self.target.arguments if each.kind == kind]
        found = [each for each in known if each.place == place]
        if not found or self._writers.get(found[0].called, key) != key:
            found = [each for each in known if each.name == key]
        name = found[0].called if found else self._add_undeclared(key, kind)
        self._writers[name] = key
        return name

    def _add_undeclared(self, key: str, kind: str) -> str:
        plain = re.sub(r"\W", "", key) or "arg"
        taken = {each.called for each in self.target.arguments}
        name = f"{plain}.{kind.lower()}" if plain in taken else plain
        self.extra[name] = kind
        return name

    # -- rows ----------------------------------------------------------------------

    def rows(self) -> list[str]:
        """All rows of this case."""
        losses = self.losses()
        found = []
        if not self.one_way and not self._is_partial():
            if any(self._type_source(name) is None for name in self._consumed_inputs()):
                found += [self._row("forth", "=>"), self._row("back", "<=")]
            else:
                found.append(self._row("both", "<=>"))
        if losses or not found:
            told = f"  losing {format_literal(', '.join(losses))}" if losses else ""
            found.append(self._row("loose", "=>") + told)
        return found

    def constant_inputs(self) -> frozenset[int]:
        """The indices of the inputs that must be constant."""
        names = {*self._numbers, *self._items}
        return frozenset(i for i, name in enumerate(self._ports) if name in names)

    def losses(self) -> list[str]:
        """What nd4j does not represent, or not so that it can be recovered."""
        attrs = [
            a.name for a in self.entry.attrs if a.name not in self._covered_names()
        ]
        inputs = [] if self.all_inputs else self._unused_attributes()
        vague = [f"items of {name}" for name in self._items]
        types = [
            f"the element type of {name}"
            for name in self._consumed_inputs()
            if self._type_source(name) is None
        ]
        partial = [
            f"values of {name} that nd4j does not distinguish"
            for name in dict.fromkeys(self.partial)
        ]
        return [*attrs, *inputs, *vague, *types, *partial, *self.one_way]

    def _covered_names(self) -> set[str]:
        return {*self._said, *self._items, *self.fixed}

    def _unused_attributes(self) -> list[str]:
        used = {*self._kept, *self._numbers, *self._items}
        return [name for name in self._ports if name not in used]

    def _is_partial(self) -> bool:
        """Whether some part of the source op is not represented in nd4j."""
        missing = [
            a.name
            for a in self.entry.attrs
            if a.required and a.name not in self._covered_names()
        ]
        missing += [
            name
            for name, value in self.fixed.items()
            if name in self._attrs and value is not None and name not in self._said
        ]
        inputs = [] if self.all_inputs else self._unused_attributes()
        return bool(missing) or any(
            self._ports[name].form != "optional" and not self._ports[name].nullable
            for name in inputs
        )

    def _row(self, mode: Mode, arrow: str) -> str:
        left = f"{self.entry.name}({', '.join(self._source_parts(mode))})"
        right = f"{self.target.name}({', '.join(self._target_parts(mode))})"
        guards = list(self.guards)
        if mode == "forth":
            for name in self._consumed_inputs():
                if self._type_source(name) is None:
                    usual = format_literal(self._usual(name))
                    guards.append(f"dtype({self.variable(name)}) == {usual}")
        told = f"  if {' and '.join(guards)}" if guards else ""
        return f"{left}  {arrow}  {right}{told}"

    def _source_parts(self, mode: Mode) -> Iterable[str]:
        yield from self._source_inputs(mode)
        for name, text in self._said.items():
            yield f"{name}={text(mode)}"
        for name in self._items:
            if name not in self._ports:
                yield f"{name}={self._pattern(name, mode)}"
        for name, value in self.fixed.items():
            if name in self._attrs and not (name in self._said or name in self._items):
                yield f"{name}={format_literal(value)}"
        if mode == "loose":
            for attr in self.entry.attrs:
                if attr.name not in self._covered_names():
                    yield f"{attr.name}=_"

    def _source_inputs(self, mode: Mode) -> list[str]:
        if self.all_inputs:
            return ["*inputs"]
        found = [self._source_input(name, mode) for name in self._ports]
        while found and not found[-1]:
            found.pop()
        return [text or "none" for text in found]

    def _source_input(self, name: str, mode: Mode) -> str:
        if name in self._kept:
            return self._input(name)
        if name in self._items:
            return self._pattern(name, mode)
        if name in self._numbers:
            variable, how = self.variable(name), self._numbers[name]
            if mode in ("forth", "loose"):
                return variable
            lens = "number" if how == "first" else "numbers"
            told = self._type_source(name) or format_literal(self._usual(name))
            return f"{lens}({variable}, {told})"
        if mode == "loose":
            return "*_" if self._ports[name].repeats else "_"
        return ""

    def _target_parts(self, mode: Mode) -> Iterable[str]:
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
        """An input in the notation: `x`, `x?` or `*x`."""
        port, variable = self._ports[name], self.variable(name)
        if port.repeats:
            return f"*{variable}"
        return f"{variable}?" if port.form == "optional" or port.nullable else variable

    def _pattern(self, name: str, mode: Mode) -> str:
        """A list by its items; items that no rule reads are 1, or mirror the others."""
        items = self._items[name]
        if mode == "loose":
            told = [items.get(i, "_") for i in range(max(items) + 1)]
            text = f"[{', '.join([*told, '*_'])}]"
        else:
            text = f"[{', '.join(self._with_framing(name, items))}]"
        stated = self._stated.get(name, {})
        attr = self._attrs.get(name)
        if stated and attr is not None and attr.default is None and not attr.required:
            values = [stated.get(i, 0) for i in sorted(items)]
            if len(self._with_framing(name, items)) == 2 * len(values):
                values *= 2
            return f"stated({text}, {format_literal(values)})"
        return text

    def _with_framing(self, name: str, items: Mapping[int, str]) -> list[str]:
        if self.framing == "both ends":  # begins, then ends
            told = [items[i] for i in sorted(items)]
            return told * 2 if "pad" in name else told
        return [items.get(i, "1") for i in range(len(items) + 2)]

    def _consumed_inputs(self) -> list[str]:
        """Constant inputs of which only the numbers are used."""
        return [name for name in self._numbers if name not in self._kept]

    def _type_source(self, name: str) -> str | None:
        """What determines the element type of an input: its port, or an attribute."""
        type = self._ports[name].type
        if isinstance(type, DType):
            return format_literal(str(type))
        if isinstance(type, str) and type in self._said:
            return self._said[type]("both")
        return None

    def _usual(self, name: str) -> str:
        """The usual element type of an input, where nothing determines it."""
        type = self._ports[name].type
        attr = self._attrs.get(type) if isinstance(type, str) else None
        if attr is not None and isinstance(attr.default, DType):
            return str(attr.default)
        allowed = {str(each) for each in attr.allowed} if attr is not None else set()
        order = ("int32", "int64") if self.framing != "both ends" else ("int64",)
        known = [each for each in (*order, "float32") if not allowed or each in allowed]
        return known[0] if known else min(allowed)
