"""Live objects of an imported TensorFlow as graphs: functions, modules, graphs.

A function is read as its FuncGraph: arguments become parameters, results have the names
of the structure that the function returns, and what it captures becomes a
`VarHandleOp`, a table or a constant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from amanda.errors import FormatError, UsageError
from amanda.formatkit import MessageFile
from amanda.graph import Graph, Op, OutputPort
from amanda.tensors import FunctionRef, Tensor
from amanda.types import DType, Shape, Sym, TensorType, resource
from amanda_tf.backend import import_tensorflow
from amanda_tf.graphdef import read_graph
from amanda_tf.notes import CONTROL_OUTPUT, TABLE_KEYS, TABLE_VALUES, VALUE

if TYPE_CHECKING:
    from amanda.dictionary import Dictionary

__all__ = ["LiveArguments", "read_live_object"]


class LiveArguments(NamedTuple):
    """What a function is traced with: arrays or `tf.TensorSpec`s, in any structure."""

    args: Sequence[Any] | None = None
    kwargs: Mapping[str, Any] | None = None

    @property
    def are_given(self) -> bool:
        return self.args is not None or self.kwargs is not None


def read_live_object(
    source: Any, dictionary: Dictionary, given: LiveArguments
) -> Graph:
    """The graph of a `tf.Graph`, a function, a module or a layer."""
    tf = import_tensorflow()
    if isinstance(source, tf.Graph):
        return _read_graph_def(source, dictionary)
    concrete = _concrete_function(source, given)
    graph = _read_graph_def(concrete.graph, dictionary)
    graph.name = _plain_name(concrete)
    for operation in concrete.graph.control_outputs:
        graph.ops[operation.name].attrs[CONTROL_OUTPUT] = True
    results = _names(concrete.structured_outputs, None)
    for tensor, name in zip(concrete.graph.outputs, results, strict=True):
        node = graph.ops[tensor.op.name]
        graph.result(node.outputs[tensor.value_index], name)
    for op in list(graph):
        if op.type == "PlaceholderWithDefault":  # an input of graphs, not of functions
            graph.replace(op, [op.inputs[0]], "default")
    count = len(concrete.graph.inputs) - len(concrete.captured_inputs)
    _replace_captures(graph, concrete, count)
    names = _names(concrete.structured_input_signature, _parameter_names(concrete))
    for tensor, name in zip(concrete.graph.inputs[:count], names, strict=True):
        _replace_placeholder(graph, graph.ops[tensor.op.name], name)
    return graph


def _read_graph_def(graph: Any, dictionary: Dictionary) -> Graph:
    data = graph.as_graph_def(add_shapes=False).SerializeToString()
    return read_graph(MessageFile(memoryview(data)), dictionary)


# -- which function ----------------------------------------------------------------


def _concrete_function(source: Any, given: LiveArguments) -> Any:
    """The concrete function of a function, a module or a layer."""
    if hasattr(source, "captured_inputs") and hasattr(source, "graph"):
        return source
    function = _function_of(source)
    if given.are_given:
        return _trace(function, given)
    if getattr(function, "input_signature", None) is not None:
        return _trace(function, LiveArguments())
    inputs = getattr(source, "inputs", None)  # of a Keras model
    if inputs and hasattr(source, "get_config"):
        return _trace(function, LiveArguments([_keras_arguments(source)]))
    traced = list(getattr(function, "_list_all_concrete_functions", list)())
    if len(traced) == 1:
        return traced[0]
    raise UsageError(
        "a function of TensorFlow is read by tracing it",
        expected="arguments, an input signature, or one concrete function",
        got=f"{len(traced)} concrete functions of {_label(source)}",
        hint="pass its arguments: amanda.load(f, args=(tf.TensorSpec([2, 3]),))",
    )


def _function_of(source: Any) -> Any:
    """The `tf.function` of an object, which may be one."""
    tf = import_tensorflow()
    if hasattr(source, "get_concrete_function"):
        return source
    if hasattr(source, "get_config"):  # a layer of Keras, in inference mode
        return tf.function(source.call if not source.built else source)
    call = getattr(source, "__call__", None)  # noqa: B004  may be a tf.function
    if hasattr(call, "get_concrete_function"):
        return call
    named = dict(_functions_of(source))
    if not named and callable(source):
        return tf.function(source)
    if len(named) == 1:
        return next(iter(named.values()))
    raise UsageError(
        f"{_label(source)} has no single function to read",
        expected="one tf.function, or a call method",
        got=", ".join(named) or "none",
        hint="pass the function itself: amanda.load(module.function)",
    )


def _functions_of(source: Any) -> Iterator[tuple[str, Any]]:
    """The attributes of an object that are functions of TensorFlow, by name."""
    for name in dir(type(source)) + list(getattr(source, "__dict__", ())):
        if not name.startswith("_"):
            value = getattr(source, name, None)
            if hasattr(value, "get_concrete_function"):
                yield name, value


def _keras_arguments(model: Any) -> Any:
    """The inputs of a Keras model as specifications, in its structure."""
    tf = import_tensorflow()

    def spec(value: Any) -> Any:
        return tf.TensorSpec(value.shape, value.dtype, name=value.name)

    functional = getattr(model, "_functional", None) or model  # of a Sequential
    return tf.nest.map_structure(spec, functional.input)


def _trace(function: Any, given: LiveArguments) -> Any:
    try:
        return function.get_concrete_function(*(given.args or ()), **given.kwargs or {})
    except Exception as cause:  # the function may raise anything
        raise FormatError(
            f"{_label(function)} cannot be traced",
            got=f"{type(cause).__name__}: {cause}",
            hint="it has to run with the same arguments",
        ) from cause


def _label(source: Any) -> str:
    return str(getattr(source, "__name__", None) or type(source).__name__)


def _plain_name(concrete: Any) -> str:
    """`train` of `__inference_train_123`."""
    name = getattr(concrete, "name", "")
    name = name.decode() if isinstance(name, bytes) else str(name)
    stem, _, number = name.removeprefix("__inference_").rpartition("_")
    return stem if stem and number.isdigit() else name


# -- arguments and results -----------------------------------------------------------


def _parameter_names(concrete: Any) -> list[str]:
    """The names of the positional parameters of the Python function."""
    kind = getattr(concrete, "function_type", None)
    parameters = getattr(kind, "parameters", {})
    return [name for name in parameters if name != "self"]


def _names(structure: Any, parameters: list[str] | None) -> list[str]:
    """The names of the tensors in a structure of arguments, or of results.

    Arguments are `x`, or `x.key` within `x`; results `key` or `output_0`.
    """
    from tensorflow.python.util import nest  # tf.nest has no paths

    flat = nest.flatten_with_joined_string_paths(
        structure, separator="/", expand_composites=True
    )
    tensors = [(path, leaf) for path, leaf in flat if hasattr(leaf, "dtype")]
    if parameters is None:
        return _unique([_result_name(path) for path, _ in tensors])
    return _unique([_argument_name(path, parameters) for path, _ in tensors])


def _argument_name(path: str, parameters: list[str]) -> str:
    side, _, rest = path.partition("/")
    if side == "1":  # keyword arguments
        return rest.replace("/", ".")
    place, _, inner = rest.partition("/")
    index = int(place)
    own = parameters[index] if index < len(parameters) else f"args.{index}"
    return f"{own}.{inner.replace('/', '.')}" if inner else own


def _result_name(path: str) -> str:
    first, _, rest = path.partition("/")
    own = f"output_{first or 0}" if not first or first.isdigit() else first
    return f"{own}.{rest.replace('/', '.')}" if rest else own


def _unique(names: list[str]) -> list[str]:
    found: dict[str, None] = {}
    for name in names:
        free, count = name, 0
        while free in found:
            count += 1
            free = f"{name}_{count}"
        found[free] = None
    return list(found)


def _replace_placeholder(graph: Graph, op: Op, name: str) -> None:
    """Replace a placeholder of an argument by a parameter."""
    dtype, shape = op.attrs["dtype"], op.attrs.get("shape")
    port = graph.parameter(
        TensorType(dtype, shape if isinstance(shape, Shape) else None), name
    )
    graph.replace_uses(op.output, port)
    graph.remove(op)


# -- captures --------------------------------------------------------------------------


def _replace_captures(graph: Graph, concrete: Any, count: int) -> None:
    """Replace the placeholders of captured tensors by what they stand for."""
    variables = {id(v.handle): v for v in concrete.graph.variables}
    made: dict[int, OutputPort] = {}
    pairs = zip(concrete.captured_inputs, concrete.graph.inputs[count:], strict=True)
    for tensor, inner in pairs:
        op = graph.ops[inner.op.name]
        if op.type != "Placeholder":  # small constants are captured by value
            continue
        value = made.get(id(tensor))
        if value is None:
            value = _captured_value(graph, op, tensor, variables.get(id(tensor)))
            made[id(tensor)] = value
        graph.replace_uses(op.output, value)
        graph.remove(op)


def _captured_value(graph: Graph, op: Op, tensor: Any, variable: Any) -> OutputPort:
    """The value that stands for a captured tensor."""
    if op.attrs["dtype"] != resource:
        if not hasattr(tensor, "numpy"):
            raise FormatError("a captured tensor has no value", who=op.label)
        dtype, shape = DType(tensor.dtype.name), tuple(tensor.shape)
        value = Tensor.lazy(tensor.numpy, dtype, shape)
        constant = graph.constant(value, _free_name(graph, f"{op.name}/value"))
        constant.output.type = value.type
        return constant.output
    held = getattr(tensor, "_handle_data", None)
    if held is not None and held.is_set and len(held.shape_and_type) == 1:
        return _add_variable(graph, op, tensor, variable, held.shape_and_type[0])
    return _add_table(graph, op, tensor)


def _add_variable(
    graph: Graph, op: Op, handle: Any, variable: Any, held: Any
) -> OutputPort:
    """A `VarHandleOp` with the value of a variable."""
    tf = import_tensorflow()
    kind = tf.dtypes.as_dtype(held.dtype)
    dims = tf.TensorShape(held.shape)
    sizes = [] if dims.rank is None else dims
    known = [Sym.unknown() if size is None else size for size in sizes]
    name = _free_name(graph, _variable_name(variable) or op.name or "")
    attrs: dict[str, Any] = {
        "dtype": DType(kind.name), "container": "", "shared_name": name,
        "shape": Shape(None if dims.rank is None else known),
    }  # fmt: skip

    if dims.is_fully_defined() and _is_initialized(handle):
        # a snapshot, without a copy: assignments leave buffers that are shared
        value = tf.raw_ops.ReadVariableOp(resource=handle, dtype=kind)
        attrs[VALUE] = Tensor.lazy(value.numpy, attrs["dtype"], tuple(dims))
    made = graph.add("VarHandleOp", [], attrs, name=name)
    made.output.type = TensorType(resource)
    return made.output


def _is_initialized(handle: Any) -> bool:
    tf = import_tensorflow()
    return bool(tf.raw_ops.VarIsInitializedOp(resource=handle))


def _variable_name(variable: Any) -> str | None:
    name = getattr(variable, "name", None)
    return name.removesuffix(":0") if isinstance(name, str) else None


def _free_name(graph: Graph, name: str) -> str:
    free, count = name, 0
    while free in graph:
        count += 1
        free = f"{name}_{count}"
    return free


def _add_table(graph: Graph, op: Op, handle: Any) -> OutputPort:
    """A `HashTableV2` with the content of a lookup table."""
    tf = import_tensorflow()
    kinds = _table_types(graph, op.output)
    if kinds is None:
        raise FormatError(
            "a captured resource is neither a variable nor a lookup table that is used",
            who=op.label, got=str(handle),
        )  # fmt: skip
    found = tf.raw_ops.LookupTableExportV2(
        table_handle=handle,
        Tkeys=tf.dtypes.as_dtype(str(kinds[0])),
        Tvalues=tf.dtypes.as_dtype(str(kinds[1])),
    )
    name = _free_name(graph, f"{op.name}/table")
    attrs = {
        "container": "", "shared_name": name, "use_node_name_sharing": False,
        "key_dtype": kinds[0], "value_dtype": kinds[1],
        TABLE_KEYS: _vector(found.keys.numpy(), kinds[0]),
        TABLE_VALUES: _vector(found.values.numpy(), kinds[1]),
    }  # fmt: skip
    made = graph.add("HashTableV2", [], attrs, name=name)
    made.output.type = TensorType(resource)
    return made.output


def _vector(array: Any, dtype: DType) -> Tensor:
    if dtype.kind == "string":
        return Tensor.strings([bytes(each) for each in array.flat], array.shape)
    return Tensor.of(array)


def _table_types(graph: Graph, table: OutputPort) -> tuple[DType, DType] | None:
    """The types of keys and values, by a lookup that uses the table."""
    waiting, seen = [table], {table}
    while waiting:
        value = waiting.pop()
        for op in value.user_ops:
            if op.type == "LookupTableFindV2":
                return op.attrs["Tin"], op.attrs["Tout"]
            for inner in _inner_values(graph.root, op, value):
                if inner not in seen:
                    seen.add(inner)
                    waiting.append(inner)
    return None


def _inner_values(root: Graph, op: Op, value: OutputPort) -> Iterator[OutputPort]:
    """The parameters of functions that an op calls which may get one of its inputs."""
    for given in op.attrs.values() if op.has_attrs else ():
        for ref in given if isinstance(given, list | tuple) else [given]:
            if isinstance(ref, FunctionRef) and ref.name in root.functions:
                function = root.functions[ref.name]
                skipped = len(op.inputs) - len(function.parameters)
                for place, own in enumerate(op.inputs):
                    if own is value and place - skipped >= 0:
                        yield function.parameters[place - skipped]
