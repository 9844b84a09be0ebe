"""Calls with wrong kinds of arguments, generated from the signatures of a face.

Each parameter gets each wrong kind, the others something of their annotated kind, which
`MAKERS` creates by the name of the class.
"""

from __future__ import annotations

import ast
import inspect
import io
import types
import typing
from collections import abc
from collections.abc import Callable, Iterator
from enum import Enum
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from numbers import Integral, Real
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import amanda
from amanda.backend import (
    Compiled,
    GuardedBackend,
    Profile,
    SplitBackend,
    ValueLookup,
    split_graph,
)
from amanda.current_host import NamedPlugin
from amanda.dictionary import DictionaryFolder
from amanda.errors import AmandaError
from amanda.files import ArchiveWriter, MappedFile
from amanda.host import Host
from amanda.mapping import (
    Builder,
    PlainSide,
    Plan,
    Process,
    Route,
    RuleMapping,
    RuleSet,
    Signature,
    VersionChange,
    VersionMapping,
)
from amanda.passes import Rewriting
from amanda.tensors import FileMap

OPERATORS = ("__init__", "__new__", "__call__", "__getitem__")


class World:
    """A small graph and what belongs to it, made anew for each call."""

    def __init__(self) -> None:
        self.graph = graph = amanda.Graph("amanda/std/1", "world")
        x = graph.parameter("float32[2]", "x")
        self.op = graph.add("negative", [x], name="y")
        self.value = self.op.output
        graph.result(self.value, "y")
        self.state = self.look()
        self.being_made: set[type] = set()

    def look(self) -> object:
        graph = self.graph
        names = [op.name for op in graph]
        ports = [p.name for p in (*graph.parameters, *graph.outputs)]
        users = [str(v.users) for op in graph for v in op.outputs]
        return graph.digest(names=True), names, ports, users, graph.check()


WRONG: dict[str, Callable[[World], Any]] = {
    "None": lambda w: None,
    "True": lambda w: True,
    "-1": lambda w: -1,
    "2**70": lambda w: 2**70,
    "nan": lambda w: float("nan"),
    "text": lambda w: "no such thing",
    "bytes": lambda w: b"\xff",
    "object": lambda w: object(),
    "list": lambda w: [object()],
    "tuple of None": lambda w: (None,),
    "dict": lambda w: {5: object()},
    "set": lambda w: {1},
    "lambda": lambda w: lambda *args, **named: None,
    "class": lambda w: int,
    "array": lambda w: np.zeros((2, 2), "float32"),
    "op": lambda w: w.op,
    "graph": lambda w: w.graph,
    "value": lambda w: w.value,
    "input port": lambda w: w.op.input_ports[0],
    "dtype": lambda w: amanda.types.float32,
}


# -- arguments of the annotated kind ---------------------------------------------------


def has_numpy() -> bool:
    """Whether the backend `numpy` is installed, which comes with a plug-in."""
    return any(entry.name == "numpy" for entry in amanda.backends())


def installed_entry(kind: str, name: str) -> Any:
    """What a plug-in offers under this name; None where it is not installed."""
    host = amanda.default_host()
    return host.get(kind, name) if host.has(kind, name) else None


def written_file() -> Path:
    """A small file in the current folder."""
    path = Path("sixteen_bytes.bin")
    path.write_bytes(bytes(16))
    return path


def written_dictionary_folder() -> DictionaryFolder:
    """A folder with the index of no dictionaries."""
    Path("index.json").write_text('{"schema": 1, "namespaces": {}}', "utf-8")
    return DictionaryFolder(Path())


def toy_mapping() -> RuleMapping:
    """A mapping of one op between two versions of two frameworks."""
    rules = RuleSet("toys", "acme/a", "acme/b")
    rules.equations("Relu(x) <=> relu(x)")
    return RuleMapping(
        toy_side("acme/a/1", "Relu"), toy_side("acme/b/1", "relu"), rules
    )


def toy_side(name: str, op_type: str) -> PlainSide:
    return PlainSide(name, {op_type: Signature(("x",))}.get)


def toy_rewriting() -> Rewriting:
    """A pass that replaces an op by another."""
    rules = RuleSet("toys", "acme/a", "acme/a")
    rules.equations("negative(x) => abs(x)")
    known = {name: Signature(("x",)) for name in ("negative", "abs")}
    return Rewriting(rules, PlainSide("acme/a/1", known.get))


def version_mapping() -> Any:
    through = installed_entry("mappings", "onnx-std")
    return through and VersionMapping("onnx-versions", through)


def version_change(world: World) -> Any:
    mapping = version_mapping()
    graph = amanda.Graph("amanda/onnx/18")
    return mapping and VersionChange(mapping, graph, "amanda/onnx/19")


class ToyBackend:
    """A backend that supports everything and computes nothing."""

    name = "toy"
    namespace = "amanda/std/1"

    def devices(self) -> list[str]:
        return ["cpu"]

    def takes(self, op: amanda.Op) -> bool:
        return op.type is not None

    def compile(self, graph: amanda.Graph, device: object, options: object) -> Any:
        def execute(feeds: Any, out: object = None) -> Any:
            return [np.zeros(2, "float32") for _ in graph.results]

        return execute


def toy_function(x: Any) -> Any:
    return x


def toy_operation() -> Any:
    """A new op of the hub, as `primitive` makes it; None without the hub."""
    if find_spec("amanda_std") is None:
        return None
    import amanda_std
    from amanda_std.engine.annotations import Floating

    def toy(x: Any) -> Any:
        return x

    toy.__annotations__ = {"x": Floating, "return": Floating}
    return amanda_std.Operation(toy, composite=False)


def toy_value(world: World) -> Any:
    if find_spec("amanda_std") is None:
        return None
    import amanda_std

    return amanda_std.Value(world.graph.parameters[0])


def step_runner(world: World) -> Any:
    from amanda_std.backends import NUMPY, StepRunner

    return StepRunner(world.graph, NUMPY)


def page(world: World) -> Any:
    from amanda_inspect import view

    return view(world.graph)


def toy_compiled(graph: amanda.Graph) -> Compiled:
    executable = ToyBackend().compile(graph, "cpu", {})
    return Compiled(graph, executable, backend="toy", device="cpu")


MAKERS: dict[str, Callable[[World], Any]] = {
    "Graph": lambda w: w.graph,
    "Contents": lambda w: w.graph,
    "Op": lambda w: w.op,
    "OutputPort": lambda w: w.value,
    "Parameter": lambda w: w.graph.parameters[0],
    "InputPort": lambda w: w.op.input_ports[0],
    "ControlPort": lambda w: w.op.output_port("^control"),
    "Edge": lambda w: next(w.graph.edges),
    "Ops": lambda w: w.graph.ops,
    "Type": lambda w: amanda.parse_type("float32[2]"),
    "TensorType": lambda w: amanda.parse_type("float32[2]"),
    "Shape": lambda w: amanda.Shape([2]),
    "Sym": lambda w: amanda.Sym.named("n"),
    "Tensor": lambda w: amanda.Tensor.of(np.zeros(2, "float32")),
    "DType": lambda w: amanda.types.float32,
    "Host": lambda w: amanda.default_host(),
    "Path": lambda w: Path("no-such-file.yaml"),
    "PathLike": lambda w: Path("no-such-file.yaml"),
    "Traversable": lambda w: Path(),
    "Session": lambda w: amanda.Session(w.graph, "numpy") if has_numpy() else None,
    "Profile": lambda w: Profile("op by op", [], 0.0),
    "Compiled": lambda w: amanda.compile(w.graph, "numpy") if has_numpy() else None,
    "Namespace": lambda w: amanda.default_host().namespace("amanda/onnx/18"),
    "Dictionary": lambda w: amanda.namespace("onnx@18"),
    "OpDef": lambda w: amanda.namespace("onnx@18").Relu,
    "DictionaryHistory": lambda w: amanda.namespace("onnx@18").history,
    "DictionaryFolder": lambda w: written_dictionary_folder(),
    "FileMap": lambda w: FileMap.of(written_file()),
    "MappedFile": lambda w: MappedFile.open(written_file()),
    "Plan": lambda w: Plan([], Route(())),
    "PluginEntry": lambda w: next(iter(Host().entries("backends")), None),
    "ValueLookup": lambda w: ValueLookup(
        (w.graph.digest(), ""), lambda graph: graph, toy_compiled
    ),
    "GuardedBackend": lambda w: GuardedBackend(ToyBackend(), NamedPlugin("toy")),
    "SplitExecutable": lambda w: split_graph(
        w.graph, {"toy": SplitBackend(MAKERS["GuardedBackend"](w))}
    ),
    "RuleSet": lambda w: toy_mapping().rules,
    "RuleMapping": lambda w: toy_mapping(),
    "RuleProgram": lambda w: toy_mapping().program("acme/a/1", "acme/b/1"),
    "Process": lambda w: Process.of(toy_mapping(), "Relu", "acme/a/1", "acme/b/1"),
    "Side": lambda w: toy_side("acme/a/1", "Relu"),
    "Builder": lambda w: Builder(toy_side("acme/b/1", "relu"), w.graph, w.op),
    "Rewriting": lambda w: toy_rewriting(),
    "HubMapping": lambda w: installed_entry("mappings", "onnx-std"),
    "VersionMapping": lambda w: version_mapping(),
    "VersionChange": version_change,
    "Function": lambda w: amanda.function(toy_function),
    "Operation": lambda w: toy_operation(),
    "Value": toy_value,
    "ArrayLike": toy_value,
    "GraphPage": page,
    "ArchiveWriter": lambda w: ArchiveWriter(io.BytesIO()),
    "StepRunner": step_runner,
    "function": lambda w: lambda *args, **named: None,
}
PLAIN: dict[Any, Any] = {
    int: 0, float: 0.5, complex: 1j, str: "x", bool: False, bytes: b"x", object: 0,
    dict: {}, list: [], tuple: (), set: set(), frozenset: frozenset(), type: int,
}  # fmt: skip


def a_valid_argument(wanted: Any, world: World) -> Any:
    """Something of the annotated kind; None if there is nothing."""
    origin, words = typing.get_origin(wanted), typing.get_args(wanted)
    if origin in (typing.Union, types.UnionType):
        return a_valid_argument(words[0], world)
    if origin is typing.Literal:
        return words[0]
    if origin is typing.Annotated:
        return a_valid_argument(words[0], world)
    kind = origin or wanted
    if kind is abc.Callable:
        return MAKERS["function"](world)
    if kind in PLAIN:
        return PLAIN[kind]
    if not isinstance(kind, type) or getattr(kind, "_is_protocol", False):
        return None
    if kind.__name__ in MAKERS:
        return MAKERS[kind.__name__](world)
    if issubclass(kind, Enum):
        return next(iter(kind))
    for base, value in ((abc.Mapping, {}), (abc.Sequence, []), (abc.Iterable, [])):
        if issubclass(base, kind):
            return value
    return an_instance(kind, world)


def an_instance(kind: type, world: World) -> Any:
    if kind in world.being_made:  # a class that refers to itself, such as a scope
        return None
    world.being_made.add(kind)
    given = valid_arguments(kind, world)
    world.being_made.remove(kind)
    known = annotations(kind)
    if not all(allows(known.get(name, Any), value) for name, value in given.items()):
        return None
    try:
        return kind(*given.values())
    except (AmandaError, TypeError):
        return None


def constructor(kind: type) -> Any:
    """The Python function that makes an instance, or None."""
    for base in kind.__mro__:
        for name in ("__new__", "__init__"):
            if isinstance(vars(base).get(name), types.FunctionType | staticmethod):
                return getattr(base, name)
    return None


def annotations(function: Any) -> dict[str, Any]:
    """The annotations of a function, with what is imported for type checkers only."""
    if inspect.isclass(function):
        function = constructor(function)
    function = inspect.unwrap(function)
    return evaluated_annotations(getattr(function, "__func__", function))


@cache
def evaluated_annotations(function: Any) -> dict[str, Any]:
    if not hasattr(function, "__code__") or function.__module__.startswith("named"):
        return {}
    module = import_module(function.__module__)
    names = {**vars(typing), **vars(abc), **vars(module)}
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            exec(compile(ast.Module(node.body, []), module.__name__, "exec"), names)
    return typing.get_type_hints(function, names, names)


@cache
def parameters(function: Any) -> dict[str, inspect.Parameter]:
    found = inspect.signature(function).parameters.values()
    return {p.name: p for p in found if p.kind is not p.VAR_KEYWORD}


def valid_arguments(function: Any, world: World) -> dict[str, Any]:
    known = annotations(function)
    return {
        name: a_valid_argument(known.get(name, Any), world)
        for name, p in parameters(function).items()
        if p.default is p.empty and p.kind is not p.VAR_POSITIONAL
    }


# -- the calls -------------------------------------------------------------------------


class Place(NamedTuple):
    """A public function, a class, or a method of one."""

    label: str
    owner: type | None
    name: str

    def get(self, world: World) -> Any:
        """The callable; None if there is no instance to call it on."""
        if self.owner is None:
            face, _, name = self.label.rpartition(".")
            return getattr(import_module(face), name)
        if isinstance(inspect.getattr_static(self.owner, self.name), staticmethod):
            return getattr(self.owner, self.name)
        if isinstance(inspect.getattr_static(self.owner, self.name), classmethod):
            return getattr(self.owner, self.name)
        return getattr(a_valid_argument(self.owner, world), self.name, None)


def places(*faces: str) -> Iterator[Place]:
    """The functions of modules, and the constructors and methods of their classes."""
    seen = set()
    for face in faces:
        for name in import_module(face).__all__:
            member = getattr(import_module(face), name)
            if id(member) in seen or getattr(member, "_is_protocol", False):
                continue
            seen.add(id(member))
            is_class = inspect.isclass(member)
            if is_class and issubclass(member, BaseException | Enum):
                continue
            if inspect.isfunction(member) or (is_class and constructor(member)):
                yield Place(f"{face}.{name}", None, name)
            if is_class:
                yield from methods(f"{face}.{name}", member)


def methods(label: str, kind: type) -> Iterator[Place]:
    for name in dir(kind):
        held = inspect.getattr_static(kind, name)
        home = next((base for base in kind.__mro__ if name in vars(base)), object)
        is_plain = isinstance(held, types.FunctionType | staticmethod | classmethod)
        is_plain = is_plain and home.__module__.startswith("amanda")
        if is_plain and (not name.startswith("_") or name in OPERATORS[2:]):
            yield Place(f"{label}.{name}", kind, name)


def kind_of(wanted: Any) -> Any:
    """The class that an annotation names; of several, Callable."""
    if typing.get_origin(wanted) in (typing.Union, types.UnionType):
        kinds = [kind_of(word) for word in typing.get_args(wanted)]
        return abc.Callable if abc.Callable in kinds else kinds[0]
    return typing.get_origin(wanted) or wanted


def allows(wanted: Any, value: Any) -> bool:
    """Whether an annotation includes a value, elements aside."""
    origin, words = typing.get_origin(wanted), typing.get_args(wanted)
    if wanted is Any or isinstance(wanted, typing.TypeVar | str):
        return True
    if "numpy" in str(wanted):  # what numpy reads as an array is for numpy to say
        return True
    if origin in (typing.Union, types.UnionType):
        return any(allows(word, value) for word in words)
    if wanted is None or wanted is type(None):
        return value is None
    if origin is typing.Literal:
        return value in words
    kind = origin or wanted
    if kind in (int, float):
        return isinstance(value, Integral if kind is int else Real)
    if not isinstance(kind, type) or getattr(kind, "_is_protocol", False):
        return True
    if isinstance(value, str | bytes) and issubclass(abc.Sequence, kind):
        return kind in (object, abc.Hashable)
    try:
        return isinstance(value, kind)
    except TypeError:
        return True


def faults_of(place: Place) -> Iterator[str]:
    """What happens with each wrong kind in each parameter, where it should not."""
    first = World()
    function = place.get(first)
    known = annotations(function)
    for name, p in parameters(function).items():
        for label, make in WRONG.items():
            world = World()
            function = place.get(world)
            value = make(world)
            named = valid_arguments(function, world)
            if p.kind is p.VAR_POSITIONAL:
                call = lambda: function(*named.values(), value)  # noqa: B023, E731
            elif p.kind is p.POSITIONAL_ONLY:
                call = lambda: function(*(named | {name: value}).values())  # noqa: B023, E731
            else:
                call = lambda: function(**(named | {name: value}))  # noqa: B023, E731
            before = world.look()
            what = f"{place.label}({name}={label})"
            try:
                answer = call()
                if isinstance(answer, Iterator):
                    list(zip(answer, range(100), strict=False))
            except AmandaError as error:
                if world.look() != before:
                    yield f"{what}: the graph is changed"
                if not error.message:
                    yield f"{what}: no message"
            except LookupError as error:
                if not place.label.endswith("__getitem__"):
                    yield f"{what}: {type(error).__name__}: {error}"
            except Exception as error:  # noqa: BLE001
                if callable(value) and kind_of(known.get(name)) is abc.Callable:
                    continue  # the error is that of the callable
                yield f"{what}: {type(error).__name__}: {error}"
            else:
                if not allows(known.get(name, Any), value):
                    yield f"{what}: is accepted, annotated {known.get(name)}"
