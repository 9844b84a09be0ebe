"""One op against its entry: quickly where all is well, in words where it is not."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from amanda.dictionary.attributes import attribute_fault, fast_check
from amanda.dictionary.history import Dictionary, suggest_names
from amanda.dictionary.names import Name
from amanda.dictionary.op_definition import Attr, OpDef
from amanda.dictionary.port_binding import PortBinding, bind_ports, type_faults
from amanda.tensors import FunctionRef
from amanda.types import TensorType

if TYPE_CHECKING:
    from amanda.graph import Graph, InputPort, Op, OutputPort
    from amanda.types import Type

__all__ = ["OpChecker", "OpFault", "body_faults", "get_checker"]

_NONE: Final[Mapping[str, Any]] = {}
_SEEN: Final = 10_000  # combinations of types kept for one op type


class OpFault(NamedTuple):
    """What is wrong with an op: a word for programs, the text, and what to do."""

    kind: str
    message: str
    hint: str | None = None


class OpChecker:
    """What ops of one type have to be. Remembers the combinations that were fine."""

    def __init__(self, entry: OpDef, dictionary: Dictionary) -> None:
        head = dictionary.header
        self.entry = entry
        self.space = Name(dictionary.path, dictionary.version).short
        self.hints = head.hints
        self.recorded = head.recorded
        self.reference = head.reference
        self.open = entry.open
        known = (*entry.attrs, *(entry.variables if head.recorded else ()))
        self.known: dict[str, Attr] = {attr.name: attr for attr in known}
        bodies = {attr.name for attr in known if attr.base == "graph"}
        self.takes_bodies = bool(bodies)
        self.accepts: dict[str, Callable[[Any], bool]] = {
            attr.name: fast_check(attr) for attr in known if attr.name not in bodies
        }
        # variables follow from the ports, so they need not be told
        self.required = frozenset(attr.name for attr in entry.attrs if attr.required)
        self.plain_required = self.required - bodies
        self.functions = [a.name for a in entry.attrs if a.base == "function"]
        told = {port.type for port in (*entry.inputs, *entry.outputs)}
        told |= {port.number for port in (*entry.inputs, *entry.outputs)}
        self.telling = tuple(name for name in self.known if name in told)
        self.deprecated = head.deprecated and entry.deprecated is not None
        self.slow = self.deprecated or self.takes_bodies or bool(self.functions)
        self.fine: set[tuple[Any, ...]] = set()

    def passes(self, op: Op) -> bool:
        """True where a quick look finds all well; else `faults` has to look."""
        if self.slow or op.bodies:
            return False
        attrs = op.attrs if op.has_attrs else _NONE
        accepts = self.accepts
        for name, value in attrs.items():
            accept = accepts.get(name)
            if accept is None:
                if not (self.hints and name.startswith(self.hints)) and not self.open:
                    return False
            elif not accept(value):
                return False
        if self.plain_required and not self.plain_required <= attrs.keys():
            return False
        if self.recorded and op.side_record is not None and op.side_record.extras:
            return False  # attributes of ports, which repeat what the entry says
        return self._key(op, attrs) in self.fine

    def _key(self, op: Op, attrs: Mapping[str, Any]) -> tuple[Any, ...]:
        """Everything that decides whether the ports are fine."""
        key: list[Any] = [len(op.outputs)]
        add = key.append
        for value in (*op.inputs, None, *op.outputs):
            if value is None:
                add(0)
            else:
                type = value.type
                add(type.dtype if type.__class__ is TensorType else type)
        for name in self.telling:
            told = attrs.get(name)
            add(tuple(told) if told.__class__ is list else told)
        return tuple(key)

    def faults(
        self, op: Op, functions: Collection[str], bodies: Mapping[str, Any] = _NONE
    ) -> list[OpFault]:
        """Everything that is wrong with an op; `bodies` are those that it will have."""
        attrs = op.attrs if op.has_attrs else _NONE
        found = [*self._attr_faults(op, attrs, bodies), *self._body_faults(op)]
        found += self._function_faults(attrs, functions)
        if self.deprecated:
            assert self.entry.deprecated is not None
            hint = self.entry.deprecated.why or self.entry.doc or None
            message = f"is deprecated in {self.space}, since {self.entry.since}"
            found.insert(0, OpFault("deprecated", message, hint))
        ports = list(self._port_faults(op, attrs))
        if not ports:
            self._remember(op, attrs)
        found += ports
        if self.recorded:
            found += self._told_faults(op, attrs)
        return found

    def _remember(self, op: Op, attrs: Mapping[str, Any]) -> None:
        try:
            if len(self.fine) < _SEEN:
                self.fine.add(self._key(op, attrs))
        except TypeError:
            pass  # an attribute in the key cannot be hashed, so nothing is remembered

    # -- attributes and bodies -----------------------------------------------------

    def _attr_faults(
        self, op: Op, attrs: Mapping[str, Any], bodies: Mapping[str, Any]
    ) -> Iterator[OpFault]:
        known, given = self.known, {*attrs, *map(self._of, (*op.bodies, *bodies))}
        missing = [name for name in known if name not in given]
        for name, value in attrs.items():
            attr = known.get(name)
            if attr is None:
                if not (self.open or name.startswith(self.hints or ("\0",))):
                    hint = suggest_names(name, missing) or self._others()
                    yield OpFault(
                        "unknown attribute", f"has no attribute {name!r}", hint
                    )
            elif isinstance(value, dict) and self.reference in value:
                continue  # the caller of the function around says which value
            elif (why := attribute_fault(attr, value)) is not None:
                yield OpFault(_kind_of(attr, value), f"attribute {why}")
        for name in missing:
            if name in self.required:
                what = "body" if known[name].base == "graph" else "attribute"
                yield OpFault(f"missing {what}", f"{what} {name!r} is missing")

    def _of(self, body: str) -> str:
        """The attribute that a body is of: `branches2` is one of `branches`, a list."""
        stem = body.rstrip("0123456789")
        attr = self.known.get(stem)
        listed = attr is not None and attr.is_list and body not in self.known
        return stem if listed else body

    def _others(self) -> str:
        attrs = ", ".join(self.known)
        return f"its attributes are {attrs}" if attrs else "it has no attributes"

    def _body_faults(self, op: Op) -> Iterator[OpFault]:
        for name, body in op.bodies.items():
            attr = self.known.get(self._of(name))
            if attr is None or attr.base not in ("graph", "function"):
                names = [a.name for a in self.known.values() if a.base == "graph"]
                hint = suggest_names(name, names) or None
                yield OpFault("body", f"has no body {name!r}", hint)
            elif attr.body is not None:
                yield from body_faults(op, name, attr, body)

    def _function_faults(
        self, attrs: Mapping[str, Any], functions: Collection[str]
    ) -> Iterator[OpFault]:
        for name in self.functions:
            value = attrs.get(name)
            for each in value if isinstance(value, list | tuple) else [value]:
                called = each.name if isinstance(each, FunctionRef) else each
                if isinstance(called, str) and called and called not in functions:
                    message = f"attribute {name} calls {called!r}, which is no function"
                    yield OpFault("function", message, suggest_names(called, functions))

    # -- ports ---------------------------------------------------------------------

    def _port_faults(self, op: Op, attrs: Mapping[str, Any]) -> Iterator[OpFault]:
        entry, inputs = self.entry, op.inputs
        values: list[tuple[str, PortBinding, Type | None]] = []
        taken = bind_ports(entry.inputs, len(inputs), entry, attrs)
        if taken.fault:
            yield OpFault("inputs", f"inputs: {taken.fault}")
        for slot, value in zip(taken.slots or (), inputs, strict=False):
            if value is not None:
                values.append(("input", slot, value.type))
            elif not slot.may_lack:
                yield OpFault("missing input", f"input {slot.name} is missing")
        given = bind_ports(entry.outputs, len(op.outputs), entry, attrs)
        if given.fault:
            yield OpFault("outputs", f"outputs: {given.fault}")
        for slot, port in zip(given.slots or (), op.outputs, strict=False):
            values.append(("output", slot, port.type))
        for why in type_faults(entry, attrs, values):
            yield OpFault("type", why)

    def _told_faults(self, op: Op, attrs: Mapping[str, Any]) -> Iterator[OpFault]:
        """What the attributes of ports repeat of the entry, as published graphs do."""
        entry = self.entry
        sides: list[tuple[str, Any, Any]] = [
            ("input", entry.inputs, op.input_ports),
            ("output", entry.outputs, op.outputs),
        ]
        for side, ports, given in sides:
            slots = bind_ports(ports, len(given), entry, attrs).slots or ()
            for slot, port in zip(slots, given, strict=False):
                if port.has_attrs:
                    yield from _retold(side, slot, port)


def get_checker(dictionary: Dictionary, op_type: str | None) -> OpChecker | None:
    """The checker of an op type, made once; None where there is no such op."""
    made: OpChecker | None = dictionary.made.get(op_type)
    if made is None:
        entry = dictionary.get(op_type)
        if entry is not None:
            made = dictionary.made[op_type] = OpChecker(entry, dictionary)
    return made


def _retold(
    side: str, slot: PortBinding, port: InputPort | OutputPort
) -> Iterator[OpFault]:
    declared = slot.port
    by_name = declared.type if isinstance(declared.type, str) else None
    is_list = declared.form == "list"
    facts = {
        "is_ref": declared.ref,
        "type_attr": None if is_list else by_name,
        "type_list_attr": by_name if is_list else None,
        "number_attr": declared.number or None,
    }
    for key, fact in facts.items():
        if key in port.attrs and port.attrs[key] != fact:
            message = f"{side} {slot.name} says {key} {port.attrs[key]!r}"
            due = f"it is {fact!r}" if fact is not None else "it has none"
            yield OpFault("port", f"{message}, {due}")


def _kind_of(attr: Attr, value: Any) -> str:
    """Is a value of the wrong kind, or one that is not allowed?"""
    loose = attr._replace(allowed=(), minimum=None)
    return "attribute kind" if attribute_fault(loose, value) else "attribute value"


def body_faults(op: Op, name: str, attr: Attr, body: Graph) -> Iterator[OpFault]:
    """Does a body take and give as many values as its entry says?"""
    assert attr.body is not None
    counts = (
        ("takes", attr.body.parameters, len(body.parameters)),
        ("gives", attr.body.results, len(body.results)),
    )
    for verb, formula, count in counts:
        due = _number(formula, op)
        if due != count:
            message = f"body {name!r} {verb} {_values(count)}, {_values(due)} due"
            yield OpFault("body", f"{message} ({formula})")


def _values(count: int) -> str:
    return "1 value" if count == 1 else f"{count} values"


def _number(formula: str, op: Op) -> int:
    """
    `inputs`, `outputs + 1`, `0`: what a signature says of a body.
    """
    word, _, rest = formula.partition(" ")
    counts = {"inputs": len(op.inputs), "outputs": len(op.outputs)}
    base = counts[word] if word in counts else int(word)
    return base + (int(rest.replace(" ", "")) if rest else 0)
