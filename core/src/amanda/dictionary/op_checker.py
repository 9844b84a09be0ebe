"""Validate one op against its definition: a fast check, and a full one that reports."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from amanda.dictionary.attributes import attribute_fault, fast_check
from amanda.dictionary.call_layout import CallLayout
from amanda.dictionary.history import Dictionary, suggest_names
from amanda.dictionary.names import Name
from amanda.dictionary.op_definition import Attr, OpDef
from amanda.dictionary.port_binding import PortBinding, bind_ports, type_faults
from amanda.graph import NOTE_PREFIX, OutputPort
from amanda.tensors import FunctionRef
from amanda.types import TensorType

if TYPE_CHECKING:
    from amanda.graph import Graph, InputPort, Op
    from amanda.types import Type

__all__ = ["OpChecker", "OpFault", "body_faults", "get_checker"]

_NONE: Final[Mapping[str, Any]] = {}
_CACHE_SIZE: Final = 10_000  # valid combinations of types cached for one op type


class OpFault(NamedTuple):
    """An invalid op: the kind of fault, the message, and a hint."""

    kind: str
    message: str
    hint: str | None = None


class _Given:
    """A number in the place of an input."""


_GIVEN: Final = _Given()
_SAMPLES: Final[Mapping[str, Any]] = {
    "bool": True, "int": 1, "dim": 1, "number": 1, "float": 1.0, "double": 1.0,
    "any": 1,
}  # fmt: skip
"""A value of each kind of attribute that an input can be."""


class OpChecker:
    """Validates ops of one type. Caches valid combinations of types."""

    def __init__(self, op_def: OpDef, dictionary: Dictionary) -> None:
        header = dictionary.header
        self.op_def = op_def
        self.namespace = Name(dictionary.path, dictionary.version).short
        self.hints = (*header.hints, NOTE_PREFIX)
        self.recorded = header.recorded
        self.reference = header.reference
        self.open = op_def.open
        known = (*op_def.attrs, *(op_def.variables if header.recorded else ()))
        self.known: dict[str, Attr] = {attr.name: attr for attr in known}
        bodies = {attr.name for attr in known if attr.base == "graph"}
        self.has_bodies = bool(bodies)
        self.checks: dict[str, Callable[[Any], bool]] = {
            attr.name: fast_check(attr) for attr in known if attr.name not in bodies
        }
        # variables are inferred from the ports, so they are not required
        self.required = frozenset(attr.name for attr in op_def.attrs if attr.required)
        self.required_attrs = self.required - bodies
        self.functions = [a.name for a in op_def.attrs if a.base == "function"]
        ports = (*op_def.inputs, *op_def.outputs)
        used = {port.type for port in ports} | {port.number for port in ports}
        self.port_attrs = tuple(name for name in self.known if name in used)
        self.deprecated = header.deprecated and op_def.deprecated is not None
        self.slow = self.deprecated or self.has_bodies or bool(self.functions)
        self.valid_keys: set[tuple[Any, ...]] = set()
        self.layout = CallLayout(op_def) if header.named_inputs else None

    def passes(self, op: Op) -> bool:
        """Fast check: True if the op is valid; otherwise `faults` has to decide."""
        if self.slow or op.bodies:
            return False
        attrs = op.attrs if op.has_attrs else _NONE
        checks = self.checks
        for name, value in attrs.items():
            check = checks.get(name)
            if check is None:
                if not name.startswith(self.hints) and not self.open:
                    return False
            elif not check(value):
                return False
        if self.required_attrs and not self.required_attrs <= attrs.keys():
            return False
        if self.recorded and op.side_record is not None and op.side_record.extras:
            return False  # attributes of ports, which repeat the definition
        if self.layout is not None and op.side_record is not None:
            return False  # inputs that may have names
        return self._key(op, attrs) in self.valid_keys

    def _key(self, op: Op, attrs: Mapping[str, Any]) -> tuple[Any, ...]:
        """Everything that decides whether the ports are valid."""
        key: list[Any] = [len(op.outputs)]
        add = key.append
        for value in (*op.inputs, None, *op.outputs):
            if value is None:
                add(0)
            else:
                type = value.type
                add(type.dtype if type.__class__ is TensorType else type)
        for name in self.port_attrs:
            value = attrs.get(name)
            add(tuple(value) if value.__class__ is list else value)
        return tuple(key)

    def faults(
        self, op: Op, functions: Collection[str], bodies: Mapping[str, Any] = _NONE
    ) -> list[OpFault]:
        """Full check: all faults of an op. `bodies` are those that it will get."""
        attrs = op.attrs if op.has_attrs else _NONE
        inputs: Sequence[OutputPort | _Given | None] = op.inputs
        if self.layout is not None:
            attrs, inputs = self._resolve_names(self.layout, op, attrs)
        found = [*self._attr_faults(op, attrs, bodies), *self._body_faults(op)]
        found += self._function_faults(attrs, functions)
        if self.deprecated:
            assert self.op_def.deprecated is not None
            hint = self.op_def.deprecated.why or self.op_def.doc or None
            message = f"is deprecated in {self.namespace}, since {self.op_def.since}"
            found.insert(0, OpFault("deprecated", message, hint))
        ports = list(self._port_faults(op, attrs, inputs))
        named = self.layout is not None and op.side_record is not None
        if not (ports or named or _GIVEN in inputs):
            self._cache_key(op, attrs)
        found += ports
        if self.recorded:
            found += self._port_attr_faults(op, attrs)
        return found

    def _cache_key(self, op: Op, attrs: Mapping[str, Any]) -> None:
        try:
            if len(self.valid_keys) < _CACHE_SIZE:
                self.valid_keys.add(self._key(op, attrs))
        except TypeError:
            pass  # an attribute in the key is not hashable

    # -- named inputs --------------------------------------------------------------

    def _resolve_names(
        self, layout: CallLayout, op: Op, attrs: Mapping[str, Any]
    ) -> tuple[Mapping[str, Any], Sequence[OutputPort | _Given | None]]:
        """Attributes with samples in the place of inputs; inputs by port."""
        arguments = layout.arguments(op)
        found = {key: value for key, value in attrs.items() if key not in arguments}
        inputs: list[OutputPort | _Given | None] = []
        for name, port in layout.ports.items():
            value = arguments.pop(name, [] if port.repeats else None)
            items = value if port.repeats and isinstance(value, list) else [value]
            if all(map(_is_input, items)):
                is_value = [i is None or isinstance(i, OutputPort) for i in items]
                inputs += [
                    item if known else _GIVEN
                    for item, known in zip(items, is_value, strict=True)
                ]
            else:
                found[name] = value
        while inputs and inputs[-1] is None and layout.can_be_short:
            inputs.pop()
        inputs += arguments.pop("#rest", [])
        for name, value in arguments.items():
            if name not in op.bodies:
                attr = self.known.get(name)
                sample = None if attr is None else _SAMPLES.get(attr.base)
                found[name] = _with_samples(value, sample)
        return found, inputs

    # -- attributes and bodies -----------------------------------------------------

    def _attr_faults(
        self, op: Op, attrs: Mapping[str, Any], bodies: Mapping[str, Any]
    ) -> Iterator[OpFault]:
        known = self.known
        present = {*attrs, *map(self._body_attr, (*op.bodies, *bodies))}
        missing = [name for name in known if name not in present]
        for name, value in attrs.items():
            attr = known.get(name)
            if attr is None:
                if not (self.open or name.startswith(self.hints)):
                    hint = suggest_names(name, missing) or self._list_attrs()
                    yield OpFault(
                        "unknown attribute", f"has no attribute {name!r}", hint
                    )
            elif isinstance(value, dict) and self.reference in value:
                continue  # the caller of the enclosing function has the value
            elif (why := attribute_fault(attr, value)) is not None and not (
                self.layout is not None and _fits_any_length(attr, value)
            ):
                yield OpFault(_kind_of(attr, value), f"attribute {why}")
        for name in missing:
            if name in self.required:
                what = "body" if known[name].base == "graph" else "attribute"
                yield OpFault(f"missing {what}", f"{what} {name!r} is missing")

    def _body_attr(self, body: str) -> str:
        """The attribute of a body: `branches2` belongs to the list `branches`."""
        stem = body.rstrip("0123456789")
        attr = self.known.get(stem)
        is_item = attr is not None and attr.is_list and body not in self.known
        return stem if is_item else body

    def _list_attrs(self) -> str:
        attrs = ", ".join(self.known)
        return f"its attributes are {attrs}" if attrs else "it has no attributes"

    def _body_faults(self, op: Op) -> Iterator[OpFault]:
        for name, body in op.bodies.items():
            attr = self.known.get(self._body_attr(name))
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
                    message = (
                        f"attribute {name} calls {called!r}, which is not a function"
                    )
                    yield OpFault("function", message, suggest_names(called, functions))

    # -- ports ---------------------------------------------------------------------

    def _port_faults(
        self,
        op: Op,
        attrs: Mapping[str, Any],
        inputs: Sequence[OutputPort | _Given | None],
    ) -> Iterator[OpFault]:
        op_def = self.op_def
        values: list[tuple[str, PortBinding, Type | None]] = []
        bound = bind_ports(op_def.inputs, len(inputs), op_def, attrs)
        if bound.fault:
            yield OpFault("inputs", f"inputs: {bound.fault}")
        for binding, value in zip(bound.bindings or (), inputs, strict=False):
            if isinstance(value, OutputPort):
                values.append(("input", binding, value.type))
            elif value is _GIVEN:
                continue  # a number
            elif not binding.is_optional:
                yield OpFault("missing input", f"input {binding.name} is missing")
        bound = bind_ports(op_def.outputs, len(op.outputs), op_def, attrs)
        if bound.fault:
            yield OpFault("outputs", f"outputs: {bound.fault}")
        for binding, port in zip(bound.bindings or (), op.outputs, strict=False):
            values.append(("output", binding, port.type))
        for why in type_faults(op_def, attrs, values):
            yield OpFault("type", why)

    def _port_attr_faults(self, op: Op, attrs: Mapping[str, Any]) -> Iterator[OpFault]:
        """Attributes of ports that contradict the definition, which they repeat."""
        op_def = self.op_def
        sides: list[tuple[str, Any, Any]] = [
            ("input", op_def.inputs, op.input_ports),
            ("output", op_def.outputs, op.outputs),
        ]
        for side, ports, values in sides:
            bindings = bind_ports(ports, len(values), op_def, attrs).bindings or ()
            for binding, port in zip(bindings, values, strict=False):
                if port.has_attrs:
                    yield from _port_attr_faults(side, binding, port)


def _fits_any_length(attr: Attr, value: Any) -> bool:
    """Whether a value fits, if lists of a fixed length may be of any, as in PyTorch."""
    loose = attr._replace(kind=re.sub(r"\[\d+\]", "[]", attr.kind))
    return loose.kind != attr.kind and attribute_fault(loose, value) is None


def _is_input(value: Any) -> bool:
    """Whether a port accepts a value: one of the graph, none, or a number."""
    if isinstance(value, list):
        return all(map(_is_input, value))
    return value is None or isinstance(value, OutputPort | bool | int | float | complex)


def _with_samples(value: Any, sample: Any) -> Any:
    """A value with a sample in the place of each input; a fault where there is none."""
    if isinstance(value, OutputPort):
        return value.type if sample is None else sample
    if isinstance(value, list):
        return [_with_samples(item, sample) for item in value]
    if isinstance(value, dict):
        return {key: _with_samples(item, sample) for key, item in value.items()}
    return value


def get_checker(dictionary: Dictionary, op_type: str | None) -> OpChecker | None:
    """The cached checker of an op type; None if the dictionary lacks the op."""
    checker: OpChecker | None = dictionary.cache.get(op_type)
    if checker is None:
        op_def = dictionary.get(op_type)
        if op_def is not None:
            checker = dictionary.cache[op_type] = OpChecker(op_def, dictionary)
    return checker


def _port_attr_faults(
    side: str, binding: PortBinding, port: InputPort | OutputPort
) -> Iterator[OpFault]:
    declared = binding.port
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
            message = f"{side} {binding.name} has {key} {port.attrs[key]!r}"
            yield OpFault("port", f"{message}, expected {fact!r}")


def _kind_of(attr: Attr, value: Any) -> str:
    """The kind of fault: a wrong kind, or a value that is not allowed."""
    loose = attr._replace(allowed=(), minimum=None, bounds=None)
    return "attribute kind" if attribute_fault(loose, value) else "attribute value"


def body_faults(op: Op, name: str, attr: Attr, body: Graph) -> Iterator[OpFault]:
    """Compare the numbers of a body's parameters and results with the definition."""
    assert attr.body is not None
    counts = (
        ("parameters", attr.body.parameters, len(body.parameters)),
        ("results", attr.body.results, len(body.results)),
    )
    for what, formula, count in counts:
        expected = _evaluate_count(formula, op)
        if expected != count:
            message = f"body {name!r} has {count} {what}, expected {expected}"
            yield OpFault("body", f"{message} ({formula})")


def _evaluate_count(formula: str, op: Op) -> int:
    """Evaluate the arity of a body: `inputs`, `outputs + 1`, `0`."""
    word, _, rest = formula.partition(" ")
    counts = {"inputs": len(op.inputs), "outputs": len(op.outputs)}
    base = counts[word] if word in counts else int(word)
    return base + (int(rest.replace(" ", "")) if rest else 0)
