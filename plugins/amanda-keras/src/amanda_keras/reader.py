"""Models of Keras as graphs: an op for every call of a layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from amanda.errors import FormatError, LimitError
from amanda.graph import TRAINABLE_NOTE, Graph, Op, OutputPort, bulk
from amanda.tensors import Tensor
from amanda_keras.calls import (
    Call,
    CallReader,
    Reference,
    read_structure,
    read_type,
)
from amanda_keras.records import (
    CALL,
    DEFAULT_CALL,
    LAYER_RECORDS,
    MODEL_RECORDS,
    MODULES,
    VARIABLES,
    op_type,
)
from amanda_keras.variables import (
    WRAPPERS,
    class_of,
    is_model,
    layer_name,
    layer_variables,
    model_layers,
)

__all__ = ["ModelReader"]

_MAX_LEVELS = 64
_LISTED = ("layers", "input_layers", "output_layers", "name")


class ModelReader:
    """Reads a model's config into a graph; the weights are given by their paths.

    A layer is an op with its arguments as attributes. The last inputs of an op are the
    variables of the layer, constants that several calls of a layer share. A model among
    the layers is a function of the root graph.
    """

    def __init__(self, namespace: str, tensors: Mapping[str, Tensor]) -> None:
        self.namespace = namespace
        self.tensors = tensors
        self.by_layer = _by_layer(tensors)
        self.used: set[str] = set()
        self.root = Graph(namespace)
        self.level = 0
        self.constants: dict[tuple[Graph, str], OutputPort] = {}

    def read(self, entry: Mapping[str, Any]) -> Graph:
        """The graph of a model."""
        with bulk():
            self.root.name = layer_name(entry) or None
            self._fill(self.root, entry, "")
        rest = {k: v for k, v in self.tensors.items() if k not in self.used}
        MODEL_RECORDS.add(self.root, tensors=rest)
        return self.root

    def _fill(self, graph: Graph, entry: Mapping[str, Any], path: str) -> None:
        """Fill a graph from a model's config; its weights are below `path`."""
        self.level += 1
        if self.level > _MAX_LEVELS:
            raise LimitError("models are nested too deeply", who=layer_name(entry))
        if not is_model(entry):
            raise FormatError(
                "the model has no list of layers", who=layer_name(entry) or None,
                expected="a Sequential or Functional model", got=class_of(entry),
                hint="models of other classes are defined by their Python code",
            )  # fmt: skip
        config = entry["config"]
        fields = config if isinstance(config, dict) else {}
        rest = {k: v for k, v in fields.items() if k not in _LISTED}
        hidden = ("config", "class_name", "name", "inbound_nodes")
        others = {k: v for k, v in entry.items() if k not in hidden}
        kind = class_of(entry)
        usual = MODULES.get(kind, MODULES["Functional"])
        others = {k: v for k, v in others.items() if usual.get(k, usual) != v}
        MODEL_RECORDS.add(
            graph, class_name="" if kind == "Functional" else kind, config=rest,
            entry=others,
        )  # fmt: skip
        layers = config if isinstance(config, list) else fields["layers"]
        if not all(isinstance(layer, dict) and class_of(layer) for layer in layers):
            raise FormatError("a layer without a class", who=layer_name(entry) or None)
        places = {layer_name(e): f"{path}layers/{n}" for n, e in model_layers(entry)}
        if kind == "Sequential":
            self._read_sequence(graph, layers, places, fields)
        else:
            self._read_functional(graph, fields, places)
        self.level -= 1

    # -- models ---------------------------------------------------------------------

    def _read_sequence(
        self, graph: Graph, layers: Sequence[Any], places: Mapping[str, str],
        config: Mapping[str, Any],
    ) -> None:  # fmt: skip
        first = layers[0] if layers else {}
        if class_of(first) == "InputLayer":
            value: OutputPort = self._input(graph, first)
            layers = layers[1:]
        else:
            shape = config.get("build_input_shape") or config.get("batch_input_shape")
            own = first.get("config") if isinstance(first, dict) else None
            own = own if isinstance(own, dict) else {}
            shape = own.get("batch_input_shape") or shape
            name = f"{layer_name(first)}_input" if first else "input"
            value = graph.parameter(read_type(shape, own.get("dtype"), name), name)
            MODEL_RECORDS.add(graph, implicit_input=True)
        for i, layer in enumerate(layers):
            name = layer_name(layer) or f"{class_of(layer)}_{i}"
            call = Call(DEFAULT_CALL["args"], {}, [Reference(name, 0, 0)])
            op = self._add(graph, layer, name, places.get(name, ""), call, [value], 1)
            value = op.outputs[0]
        graph.result(value, "output")

    def _read_functional(
        self, graph: Graph, config: Mapping[str, Any], places: Mapping[str, str]
    ) -> None:
        layers = {layer_name(layer): layer for layer in config["layers"]}
        if len(layers) != len(config["layers"]) or "" in layers:
            raise FormatError("two layers of a model have one name, or one has none")
        reader = CallReader(layers)
        inputs = read_structure(config.get("input_layers"), layers, "input_layers")
        outputs = read_structure(config.get("output_layers"), layers, "output_layers")
        values: dict[Reference, OutputPort] = {}
        for each in inputs.references:
            if class_of(layers[each.layer]) != "InputLayer":
                raise FormatError("an input is not an InputLayer", who=each.layer)
            values[each] = self._input(graph, layers[each.layer])
        counts = reader.output_counts(outputs.references)
        for name, node, call in reader.in_order(values):
            given = [_value_of(values, each) for each in call.references]
            for port, type in zip(given, call.types, strict=True):
                port.type = port.type or type
            count = counts.get((name, node), 1)
            place = places.get(name, "")
            op = self._add(graph, layers[name], name, place, call, given, count, node)
            values |= {Reference(name, node, i): p for i, p in enumerate(op.outputs)}
        labels = outputs.keys() or _unique_labels(outputs.references)
        for label, each in zip(labels, outputs.references, strict=True):
            graph.result(_value_of(values, each), label)
        order = list(layers)
        calls = (_layer_of(op) for op in graph if not op.is_constant)
        met = [*(each.layer for each in inputs.references), *dict.fromkeys(calls)]
        MODEL_RECORDS.add(
            graph, layers=order if order != met else None,
            input_layers=inputs.as_record(), output_layers=outputs.as_record(),
        )  # fmt: skip

    def _input(self, graph: Graph, layer: Mapping[str, Any]) -> OutputPort:
        config = layer.get("config")
        own = config if isinstance(config, dict) else {}
        shape = own.get("batch_shape") or own.get("batch_input_shape")
        name = layer_name(layer)
        if any(port.name == name for port in graph.parameters):
            raise FormatError("two inputs of a model have one name", who=name)
        port = graph.parameter(read_type(shape, own.get("dtype"), name), name)
        recorded = dict(MODEL_RECORDS.of(graph).get("inputs", {}))
        hidden = ("name", "inbound_nodes", "class_name", *MODULES["InputLayer"])
        kept = {k: v for k, v in layer.items() if k not in hidden}
        if not own.keys() <= {"batch_shape", "dtype", "name"} or len(kept) > 1:
            MODEL_RECORDS.add(graph, inputs={**recorded, name: kept})
        return port

    # -- layers ---------------------------------------------------------------------

    def _add(
        self, graph: Graph, layer: Mapping[str, Any], name: str, path: str, call: Call,
        inputs: Sequence[OutputPort], outputs: int, node: int = 0,
    ) -> Op:  # fmt: skip
        """Add the op of a call of a layer."""
        config = layer.get("config")
        own = dict(config) if isinstance(config, dict) else {}
        own.pop("name", None)
        empty = [key for key, value in own.items() if value is None]
        own = {key: value for key, value in own.items() if value is not None}
        label = name if node == 0 and name not in graph else graph.fresh_name(name)
        attrs: dict[str, Any] = {}
        weights: list[OutputPort] = []
        bodies: dict[str, Graph] = {}
        if is_model(layer):
            kind = self._function(layer, name, path)
        else:
            kind = op_type(layer)
            if kind in WRAPPERS and isinstance(own.get("layer"), dict):
                bodies["layer"] = self._body(own.pop("layer"), f"{path}/layer")
            attrs = own
            names = self._variables(kind, own, path)
            weights = [
                self._constant(graph, f"{path}/{place}", f"{name}/{variable}")
                for variable, place in names
            ]
            fixed = {v.name for v in layer_variables(kind, own) if not v.is_trainable}
            for weight, (variable, _) in zip(weights, names, strict=True):
                if variable in fixed:
                    weight.op.attrs[TRAINABLE_NOTE] = False
            if names:
                attrs[VARIABLES] = [variable for variable, _ in names]
        recorded = {"args": list(call.args), "kwargs": dict(call.kwargs)}
        if recorded != DEFAULT_CALL:
            attrs[CALL] = recorded
        op = graph.add(
            kind, [*inputs, *weights], attrs, name=label, outputs=outputs, bodies=bodies
        )
        hidden = ("config", "class_name", "name", "inbound_nodes")
        rest = {k: v for k, v in layer.items() if k not in hidden}
        if rest.get("module") == "keras.layers":
            del rest["module"]
        if rest.get("registered_name", "") is None:
            del rest["registered_name"]
        if is_model(layer):
            rest, empty = {}, []
        shared = name if label != name else None
        LAYER_RECORDS.add(op, name=shared, entry=rest, empty=empty)
        return op

    def _variables(
        self, kind: str, config: Mapping[str, Any], path: str
    ) -> list[tuple[str, str]]:
        """The variables that the file has for a layer: names, and paths below it."""
        found = self.by_layer.get(path, ())
        if kind in WRAPPERS:
            found = [each for each in found if not each.startswith("layer/")]
        known = {v.path.lstrip("_"): v.name for v in layer_variables(kind, config)}
        if not known.keys() <= {each.lstrip("_") for each in found}:
            known = {}  # those of a quantized layer, for instance
        named = [(known.get(each.lstrip("_"), each), each) for each in found]
        order = {name: i for i, name in enumerate(known.values())}
        return sorted(named, key=lambda pair: order.get(pair[0], len(order)))

    def _constant(self, graph: Graph, path: str, name: str) -> OutputPort:
        self.used.add(path)
        found = self.constants.get((graph, path))
        if found is None:
            label = graph.fresh_name(name) if name in graph else name
            found = graph.constant(self.tensors[path], label).output
            self.constants[graph, path] = found
        return found

    def _function(self, layer: Mapping[str, Any], name: str, path: str) -> str:
        """The name of the function of a model among the layers."""
        known = self.root.functions
        label = name
        if label in known and MODEL_RECORDS.of(known[label]).get("path") == path:
            return label
        while label in known:
            label += "_"
        function = Graph(self.namespace, label)
        MODEL_RECORDS.add(function, path=path)
        self._fill(function, layer, f"{path}/")
        self.root.add_function(label, function)
        return label

    def _body(self, layer: Mapping[str, Any], path: str) -> Graph:
        """The body of a wrapper: one call of a layer."""
        body = Graph(self.namespace)
        name = layer_name(layer) or class_of(layer)
        call = Call(DEFAULT_CALL["args"], {}, [Reference("x", 0, 0)])
        op = self._add(body, layer, name, path, call, [body.parameter(name="x")], 1)
        body.result(op.outputs[0], "y")
        return body


def _value_of(
    values: Mapping[Reference, OutputPort], reference: Reference
) -> OutputPort:
    """The value that a reference names."""
    if reference not in values:
        raise FormatError("a tensor of the model is not computed", who=str(reference))
    return values[reference]


def _layer_of(op: Op) -> str:
    return str(LAYER_RECORDS.of(op).get("name") or op.name or "")


def _by_layer(tensors: Mapping[str, Tensor]) -> dict[str, list[str]]:
    """The paths of variables below each path, in the order of their numbers."""
    found: dict[str, list[str]] = {}
    for path in sorted(tensors, key=_sort_key):
        parts = path.split("/")
        for i in range(1, len(parts)):
            found.setdefault("/".join(parts[:i]), []).append("/".join(parts[i:]))
    return found


def _sort_key(path: str) -> list[tuple[int, str]]:
    return [(int(p), "") if p.isdecimal() else (-1, p) for p in path.split("/")]


def _unique_labels(references: Sequence[Reference]) -> Iterator[str]:
    """Names of outputs: those of their layers, made unique."""
    seen: set[str] = set()
    for each in references:
        label, count = each.layer, 0
        while label in seen:
            count += 1
            label = f"{each.layer}_{count}"
        seen.add(label)
        yield label
