"""Custom ops: declared once, for checks, conversions and backends.

    @amanda.custom_op(
        "onnx/com.acme@1",
        "Swish(x: T, *, beta: float = 1.0) -> (y: T)  T in {f32, f64}",
    )
    def swish(x, *, beta):
        \"\"\"x times the logistic function of beta x.\"\"\"
        return x / (1 + np.exp(-beta * x))

    @swish.to("amanda/std/1")
    def _(o, x, *, beta):
        return o.multiply(x, o.sigmoid(o.multiply(x, beta)))

The signature becomes an op definition, for validation, builders and `amanda ops`. The
function is the reference implementation on arrays: tests compare with it, and backends
that can call Python run it if there is no other definition. `to` and `rule` define the
op by ops of another namespace, for every backend and format of that namespace.

`onnx/com.acme@1` is the ONNX domain `com.acme`: models that use the domain find the op.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from amanda.dictionary import (
    DictionaryHeader,
    DictionaryHistory,
    OpDef,
    OpHistory,
    encode_data_file,
    format_definition,
    parse_name,
    parse_signature,
    version_key,
)
from amanda.errors import NumericMismatchError, UsageError
from amanda.frontend.functions import HUB
from amanda.graph import Graph, Op, OutputPort
from amanda.host import host_in_use
from amanda.types import DType, Shape, TensorType, unknown

if TYPE_CHECKING:
    from amanda.host import Host
    from amanda.mapping import RuleSet, Side

__all__ = ["CustomOp", "CustomDictionary", "custom_op"]

_Call = TypeVar("_Call", bound=Callable[..., Any])
_HOOK = "gap_met"


def custom_op(
    namespace: str, signature: str, *, like: str | None = None, host: Host | None = None
) -> Callable[[Callable[..., Any]], CustomOp]:
    """Declare an op; the decorated function implements it on arrays of numpy.

    The function gets the inputs in order and the attributes by name, and returns one
    array for each output. `like` names the input whose shape the outputs have, if any.
    """
    name = parse_name(namespace)
    if name.version is None:
        raise UsageError(
            f"{namespace!r} has no version",
            hint=f"write {name.short}@1",
        )
    entry = parse_signature(signature)
    if like is not None and like not in [port.name for port in entry.inputs]:
        raise UsageError(
            f"{entry.name} has no input {like!r}", expected=entry.signature
        )

    def declare(function: Callable[..., Any]) -> CustomOp:
        made = CustomOp(str(name), entry, function, like, host or host_in_use())
        made.dictionary.add(made)
        return made

    return declare


class CustomOp:
    """A custom op. Called on arrays, it runs its function.

    - `namespace`: the full name, `onnx/com.acme/1`
    - `entry`: its op definition
    - `dictionary`: all custom ops of this namespace; an entry point of
      `amanda.namespaces` may name it, so that other processes find the op
    """

    def __init__(
        self,
        namespace: str,
        entry: OpDef,
        reference: Callable[..., Any],
        like: str | None,
        host: Host,
    ) -> None:
        self.namespace = namespace
        self.entry = entry
        self.reference = reference
        self.like = like
        self.host = host
        self.dictionary = _custom_dictionary(parse_name(namespace).path, host)
        self.__doc__ = reference.__doc__

    @property
    def name(self) -> str:
        return self.entry.name

    def __call__(self, *args: Any, **attrs: Any) -> Any:
        return self.reference(*args, **{**self.defaults, **attrs})

    @property
    def defaults(self) -> dict[str, Any]:
        return {a.name: a.default for a in self.entry.attrs if not a.required}

    def add(self, graph: Graph, *args: Any, **more: Any) -> Any:
        """Add an op of this type to a graph of any namespace; checks arguments."""
        before = graph.ops[-1] if len(graph) else None
        dictionary = self.dictionary.at(parse_name(self.namespace).version or "")
        made = dictionary.build(graph)[self.name](*args, **more)
        at = graph.ops[-1]
        while at is not before and at.type != self.name:
            at = at.previous or at
        if graph.namespace != self.namespace:
            at.namespace = self.namespace
        return made

    # -- in other namespaces -----------------------------------------------------

    def to(self, namespace: str) -> Callable[[_Call], _Call]:
        """Define the op in another namespace, by a function.

        The function gets a builder, the inputs and the attributes; the builder adds
        ops: `o.add(x, y)`. Functions of the namespace, such as those
        of `amanda_std.ops`, may be called as well.
        """
        return self.dictionary.rules(namespace).read(self.name)

    def rule(self, namespace: str, text: str) -> None:
        """Define the op in another namespace by a rule, in one direction or both."""
        self.dictionary.rules(namespace).equations(text, f"rules of {self.name}")

    # -- tests -------------------------------------------------------------------

    def check(
        self, *args: Any, backend: str = "numpy", tolerance: float = 1e-5, **attrs: Any
    ) -> None:
        """Run the op on a backend and compare with its function."""
        import numpy as np

        from amanda.api.compilation import run

        graph = Graph(self.namespace, name=self.name)
        types = [TensorType(DType.of(arg), np.shape(arg)) for arg in args]
        made = self.add(graph, *map(graph.parameter, types), **attrs)
        for value in made if isinstance(made, tuple) else (made,):
            graph.result(value)
        found = run(graph, list(args), backend=backend, host=self.host)
        due = _as_sequence(self(*args, **attrs))
        for i, (got, expected) in enumerate(zip(found.values(), due, strict=True)):
            if not np.allclose(got, expected, rtol=tolerance, atol=tolerance):
                raise NumericMismatchError(
                    f"{self.name} on {backend} differs from its function",
                    where=f"output {i}",
                    expected=np.asarray(expected),
                    got=np.asarray(got),
                )

    def types(self, inputs: Sequence[OutputPort | None]) -> list[TensorType]:
        """The types of the results, as far as the signature determines them."""
        found: dict[str, TensorType] = {}
        for port, value in zip(self.entry.inputs, inputs, strict=False):
            if value is not None and isinstance(value.type, TensorType):
                found[port.name] = value.type
                if isinstance(port.type, str):
                    found.setdefault(port.type, value.type)
        shape = Shape(None) if self.like not in found else found[self.like].shape
        return [
            TensorType(
                found[port.type].dtype
                if isinstance(port.type, str) and port.type in found
                else port.type
                if isinstance(port.type, DType)
                else unknown,
                shape,
            )
            for port in self.entry.outputs
        ]

    def __repr__(self) -> str:
        return f"<the custom op {self.entry.signature} of {self.namespace}>"


class CustomDictionary(DictionaryHistory):
    """The custom ops of one namespace, in all its versions."""

    def __init__(self, path: str, host: Host) -> None:
        super().__init__(path, self._data_file)
        self.host = host
        self.ops: dict[tuple[str, str], CustomOp] = {}
        self._rules: dict[str, RuleSet] = {}

    def _data_file(self) -> bytes:
        versions = sorted({version for _, version in self.ops}, key=version_key)
        steps: dict[str, list[tuple[str, str]]] = {}
        docs: dict[str, str] = {}
        for (name, version), op in sorted(
            self.ops.items(), key=lambda row: version_key(row[0][1])
        ):
            steps.setdefault(name, []).append((version, format_definition(op.entry)))
            docs[name] = " ".join((op.__doc__ or "").split())
        blocks = [OpHistory(n, docs[n], tuple(found)) for n, found in steps.items()]
        return encode_data_file(DictionaryHeader(self.path, tuple(versions)), blocks)

    def add(self, op: CustomOp) -> None:
        """Add an op, or replace the one of this name and version."""
        version = parse_name(op.namespace).version or ""
        self.ops[op.name, version] = op
        self.clear_cache()
        self.host.register_namespace(
            self.path, self, manifest={"versions": list(self.versions())}, replace=True
        )
        self.rules(HUB)  # without rules, backends of the hub call the function

    def of(self, op: Op) -> CustomOp | None:
        """The custom op of an op in a graph, or None."""
        path, version = parse_name(op.namespace or "none/none")
        if path != self.path or op.type is None or version is None:
            return None
        known = [v for name, v in self.ops if name == op.type]
        key = version_key(version)
        fitting = [v for v in known if version_key(v) <= key]
        return self.ops[op.type, max(fitting, key=version_key)] if fitting else None

    # -- conversions ---------------------------------------------------------------

    def rules(self, namespace: str) -> RuleSet:
        """The rules to another namespace; the first call registers the mapping."""
        from amanda.mapping import RuleMapping, RuleSet

        path = parse_name(namespace).path
        if path not in self._rules:
            made = RuleSet(f"{self.path} to {path}", self.path, path)
            right = partial(_side_of, host=self.host)
            mapping = RuleMapping(self._source_side, right, made)
            manifest = {"from": f"{self.path}/*", "to": f"{path}/*"}
            self.host.register_mapping(made.name, mapping, manifest=manifest)
            self._rules[path] = made
        return self._rules[path]

    def _source_side(self, name: str) -> Side:
        from amanda.mapping import PlainSide

        side: Side = PlainSide.of(self.at(parse_name(name).version or ""))
        return side

    def fill(
        self, op: Op, build: Graph, inputs: Sequence[OutputPort | None]
    ) -> Sequence[OutputPort | None] | None:
        """Build an op in a graph of another namespace; None if that is unknown."""
        custom = self.of(op)
        if custom is None or build.namespace is None:
            return None
        is_guest = op.graph is not None and op.graph.namespace != op.namespace
        if is_guest and parse_name(build.namespace).path in self._rules:
            return self._convert_op(op, build, inputs)
        space = self.host.namespace(build.namespace)
        calling = getattr(type(space), "calling", None)
        if calling is None:
            return None
        attrs = {**custom.defaults, **op.attrs}
        told = ", ".join(f"{key}={attrs[key]!r}" for key in sorted(attrs))
        name = f"{custom.namespace}:{custom.name}({told})"
        call = partial(custom.reference, **attrs)
        found: Sequence[OutputPort] = calling(
            space, build, inputs, call, name, _known_types(custom.types(inputs), op)
        )
        return found

    def _convert_op(
        self, op: Op, build: Graph, inputs: Sequence[OutputPort | None]
    ) -> list[OutputPort | None]:
        """Convert one op by the rules, and paste the result."""
        from amanda.api.conversion import convert

        alone = Graph(op.namespace)
        parameters = [None if v is None else alone.parameter(v.type) for v in inputs]
        assert op.type is not None
        made = alone.add(op.type, parameters, op.attrs, outputs=len(op.outputs))
        for new, old in zip(made.outputs, op.outputs, strict=True):
            new.type = old.type
            alone.result(new)
        assert build.namespace is not None
        done = convert(alone, build.namespace, host=self.host)
        return build.paste(done, [value for value in inputs if value is not None])


def _known_types(types: Sequence[TensorType], op: Op) -> list[TensorType]:
    """Types of results; those of the op where the signature leaves the dtype open."""
    return [
        port.type if type.dtype is unknown and isinstance(port.type, TensorType)
        else type
        for type, port in zip(types, op.outputs, strict=True)
    ]  # fmt: skip


def _custom_dictionary(path: str, host: Host) -> CustomDictionary:
    """The dictionary of the namespace in the host, created on first use."""
    for entry in host.entries("namespaces"):
        if not entry.fault and parse_name(entry.name).path == path:
            found = host.load(entry)
            if isinstance(found, CustomDictionary):
                return found
            raise UsageError(
                f"the namespace {path} is that of {entry.source_text}",
                hint="declare your ops in a namespace of your own",
            )
    made = CustomDictionary(path, host)
    host.register_hook(_HOOK, made.fill)
    return made


def _side_of(name: str, host: Host) -> Side:
    """The mapping side of a namespace: its own, or that of its dictionary."""
    from amanda.mapping import PlainSide

    space: Any = host.namespace(name)
    own = getattr(type(space), "side", None)
    side: Side = PlainSide.of(space) if own is None else space.side
    return side


def _as_sequence(value: Any) -> Iterable[Any]:
    return value if isinstance(value, tuple | list) else (value,)
