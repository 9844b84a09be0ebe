"""The calls of layers in a Functional model: which values each is given.

Keras 3 writes the arguments of every call, with tensors in any place; earlier versions
write a list of tensors, with further arguments beside the first one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from amanda.errors import FormatError
from amanda.types import Shape, TensorType, parse_dim, parse_element
from amanda_keras.records import INPUT
from amanda_keras.variables import class_of, is_model

__all__ = [
    "Call", "CallReader", "Reference", "Structure", "counts_creation", "read_structure",
    "read_type",
]  # fmt: skip


class Reference(NamedTuple):
    """An output of a call of a layer."""

    layer: str
    node: int
    output: int


@dataclass
class Call:
    """The arguments of a call, in which tensors are `{"$input": number}`."""

    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    references: list[Reference] = field(default_factory=list)
    types: list[TensorType | None] = field(default_factory=list)


@dataclass
class Structure:
    """Values of a model's inputs or outputs, and how they are nested."""

    nesting: Any
    references: list[Reference]

    def as_record(self) -> Any:
        """The nesting, unless it is a list, or one value."""
        plain = [{INPUT: i} for i in range(len(self.references))]
        return None if self.nesting == plain else {"nesting": self.nesting}

    def keys(self) -> list[str] | None:
        """The keys of the values, in their order, where they are those of a dict."""
        plain = [{INPUT: i} for i in range(len(self.references))]
        if not isinstance(self.nesting, dict):
            return None
        keys = sorted(self.nesting)
        return keys if [self.nesting[key] for key in keys] == plain else None


class CallReader:
    """The calls of all layers of a model, by layer and number."""

    def __init__(self, layers: Mapping[str, Mapping[str, Any]]) -> None:
        self.layers = layers
        self.calls: dict[tuple[str, int], Call] = {}
        self.types: dict[Reference, TensorType | None] = {}
        for name, layer in layers.items():
            nodes = layer.get("inbound_nodes") or []
            if not isinstance(nodes, list):
                raise FormatError("the calls of a layer are no list", who=name)
            for i, node in enumerate(nodes):
                self.calls[name, i] = self._read(node, name)

    def _read(self, node: Any, name: str) -> Call:
        found: list[Reference] = []
        if isinstance(node, dict):
            args = self._convert(node.get("args", []), found, name)
            kwargs = self._convert(node.get("kwargs", {}), found, name)
        elif isinstance(node, list):
            args, kwargs = self._read_list(node, found, name)
        else:
            raise FormatError("a call of a layer cannot be read", who=name, got=node)
        if not isinstance(args, list) or not isinstance(kwargs, dict):
            raise FormatError("the arguments of a call cannot be read", who=name)
        types = [self.types.get(each) for each in found]
        return Call(args, kwargs, found, types)

    def _convert(self, value: Any, found: list[Reference], name: str) -> Any:
        """An argument, in which tensors are replaced by their numbers."""
        if isinstance(value, dict):
            if value.get("class_name") == "__keras_tensor__":
                config = value.get("config")
                config = config if isinstance(config, dict) else {}
                place = self._add(config.get("keras_history"), found, name)
                if config.get("shape"):  # [] where it was not known
                    self.types[found[-1]] = read_type(
                        config["shape"], config.get("dtype"), found[-1].layer
                    )
                return place
            # Keras numbers the values of dicts that models take by sorted keys
            keys = sorted(value) if is_model(self.layers[name]) else value
            items = {k: self._convert(value[k], found, name) for k in keys}
            return {key: items[key] for key in value}
        if isinstance(value, list):
            return [self._convert(item, found, name) for item in value]
        return value

    def _read_list(
        self, node: list[Any], found: list[Reference], name: str
    ) -> tuple[list[Any], Any]:
        """A call as Keras 2 writes it."""
        if node and isinstance(node[0], str):  # a single tensor
            node = [node]
        values = []
        kwargs: Any = {}
        for item in node:
            if not isinstance(item, list) or len(item) not in (3, 4):
                raise FormatError(
                    "a call of a layer cannot be read", who=name, got=item
                )
            values.append(self._add(item[:3], found, name, is_list=True))
            if len(item) == 4 and item[3]:
                kwargs = self._convert_list(item[3], found, name)
        return ([values[0]] if len(values) == 1 else [values]), kwargs

    def _convert_list(self, value: Any, found: list[Reference], name: str) -> Any:
        if isinstance(value, dict):
            return {k: self._convert_list(v, found, name) for k, v in value.items()}
        if isinstance(value, list):
            if len(value) == 3 and value[0] in self.layers and _are_numbers(value[1:]):
                return self._add(value, found, name, is_list=True)
            return [self._convert_list(item, found, name) for item in value]
        return value

    def _add(
        self, history: Any, found: list[Reference], name: str, *, is_list: bool = False
    ) -> Any:
        reference = reference_of(history, self.layers, name)
        if is_list and is_model(self.layers[reference.layer]):
            reference = _without_first(reference)
        found.append(reference)
        return {INPUT: len(found) - 1}

    # -- order -----------------------------------------------------------------------

    def output_counts(self, results: Iterable[Reference]) -> dict[tuple[str, int], int]:
        """The number of outputs of each call, as far as they are used."""
        counts: dict[tuple[str, int], int] = {}
        every = (r for call in self.calls.values() for r in call.references)
        for layer, node, output in (*every, *results):
            if output >= 1 << 16:
                raise FormatError("an output has an absurd number", who=layer)
            counts[layer, node] = max(counts.get((layer, node), 1), output + 1)
        return counts

    def in_order(
        self, inputs: Mapping[Reference, Any]
    ) -> Iterator[tuple[str, int, Call]]:
        """All calls, each after those whose values it is given."""
        given = {(each.layer, each.node) for each in inputs}
        missing: dict[tuple[str, int], set[tuple[str, int]]] = {}
        users: dict[tuple[str, int], list[tuple[str, int]]] = {}
        for key, call in self.calls.items():
            needed = {(r.layer, r.node) for r in call.references} - given
            missing[key] = needed
            for each in needed:
                if each not in self.calls:
                    raise FormatError("a call of a layer is missing", who=str(each))
                users.setdefault(each, []).append(key)
        ready = deque(
            key for key in self.calls if not missing[key] and key not in given
        )
        count = 0
        while ready:
            key = ready.popleft()
            count += 1
            yield *key, self.calls[key]
            for user in users.get(key, ()):
                missing[user].discard(key)
                if not missing[user]:
                    ready.append(user)
        left = [key for key, needed in missing.items() if needed]
        if left:
            raise FormatError(
                "layers depend on each other in a cycle",
                got=", ".join(f"{layer}:{node}" for layer, node in left[:5]),
            )


def reference_of(history: Any, layers: Mapping[str, Any], where: str) -> Reference:
    """The value that a config names; FormatError where no layer has it."""
    fits = isinstance(history, list) and len(history) == 3
    if not (fits and isinstance(history[0], str) and _are_numbers(history[1:])):
        raise FormatError(
            "a tensor of the model cannot be read", who=where,
            expected="[layer, call, output]", got=repr(history)[:80],
        )  # fmt: skip
    if history[0] not in layers:
        raise FormatError(
            "the model has no such layer", who=where, got=repr(history[0])
        )
    return Reference(*history)


def _without_first(reference: Reference) -> Reference:
    """A call of a model, of which Keras counts the creation as the first."""
    return reference._replace(node=max(reference.node - 1, 0))


def counts_creation(layer: Mapping[str, Any]) -> bool:
    """Whether the inputs and outputs of a config count the creation of a layer."""
    nodes = layer.get("inbound_nodes")
    is_old = isinstance(nodes, list) and bool(nodes) and isinstance(nodes[0], list)
    return is_model(layer) and (is_old or class_of(layer) != "Sequential")


def _are_numbers(values: Sequence[Any]) -> bool:
    return all(type(v) is int and v >= 0 for v in values)


def read_structure(value: Any, layers: Mapping[str, Any], where: str) -> Structure:
    """The inputs or outputs of a model, nested as the config has them.

    Those in a dict are in the order of its sorted keys, as Keras numbers them."""
    found: list[Reference] = []

    def read(item: Any) -> Any:
        if isinstance(item, list) and len(item) == 3 and isinstance(item[0], str):
            reference = reference_of(item, layers, where)
            if counts_creation(layers[reference.layer]):
                reference = _without_first(reference)
            found.append(reference)
            return {INPUT: len(found) - 1}
        if isinstance(item, list):
            return [read(each) for each in item]
        if isinstance(item, dict):
            items = {key: read(item[key]) for key in sorted(item)}
            return {key: items[key] for key in item}
        raise FormatError(f"the {where} of a model cannot be read", got=repr(item)[:80])

    return Structure(read(value), found)


def read_type(shape: Any, dtype: Any, name: str) -> TensorType:
    """The type of a value of a layer; dims that are not static are symbols."""
    if isinstance(dtype, dict):
        config = dtype.get("config")
        dtype = config.get("name") if isinstance(config, dict) else None
    element = parse_element(dtype if isinstance(dtype, str) else "float32")
    if not isinstance(shape, list):
        return TensorType(element, None)
    dims: list[Any] = []
    for i, size in enumerate(shape):
        if size is not None and not (type(size) is int and size >= 0):
            raise FormatError("a value has an invalid shape", who=name, got=shape)
        label = "batch" if i == 0 else f"{_identifier(name)}_{i}"
        dims.append(parse_dim(label) if size is None else size)
    return TensorType(element, Shape(dims))


def _identifier(name: str) -> str:
    text = "".join(c if c.isalnum() and c.isascii() else "_" for c in name)
    return text if text[:1].isalpha() else f"x{text}"
