"""The forms: one definition, several readings; three kinds of arguments."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import amanda
from amanda.errors import (
    BackendError,
    InvalidTypeError,
    NamespaceError,
    Undecided,
    UsageError,
)
from amanda.graph import Graph
from amanda.types import Sym, TensorType, parse_type
from amanda_std import Value, lower, ops, trace, tracing
from amanda_std.engine.annotations import Array, ShapeArg
from amanda_std.engine.arrays import Kernels, use_kernels
from amanda_std.engine.operation import composite
from amanda_std.engine.rule_binding import BoundRule
from amanda_std.engine.values import Typed
from amanda_std.hub.expansion import is_not_composite

N = Sym.named("n")


def f32(*dims):
    return TensorType("float32", dims)


# -- readings ------------------------------------------------------------------


def test_called_on_arrays_it_computes():
    assert ops.add(np.float32([1, 2]), 1.5).tolist() == [2.5, 3.5]


def test_called_on_types_it_infers():
    assert str(ops.softmax(parse_type("float32[n, 3]")).type) == "float32[n, 3]"


def test_called_on_values_it_adds_one_op():
    graph = Graph("amanda/std/1")
    x = graph.parameter(f32(N, 3))
    with tracing(graph):
        y = ops.softmax(x, name="probabilities")
    assert isinstance(y, Value)
    assert [op.type for op in graph] == ["softmax"]
    assert (y.port.op.name, str(y.type)) == ("probabilities", "float32[n, 3]")


def test_python_operators_are_ops_on_every_reading():
    graph = trace(lambda x: (2.0 * x - x / 4.0) @ x, [f32(3, 3)])
    types = [op.type for op in graph if op.type != "constant"]
    assert types == ["multiply", "divide", "subtract", "matmul"]
    assert str((Typed(f32(N)) * 2.0 + 1.0).type) == "float32[n]"


def test_an_array_on_the_left_leaves_the_operator_to_the_value():
    graph = trace(lambda x: np.ones(3, "float32") + x, [f32(3)])
    assert [op.type for op in graph] == ["constant", "add"]


def test_ops_are_found_by_name():
    assert ops.OPS["relu"] is ops.relu
    assert ops.OPS["if"] is ops.if_
    with pytest.raises(NamespaceError, match="did you mean 'softmax'"):
        ops.find("sofmax")


# -- arguments -----------------------------------------------------------------


def test_a_constant_host_argument_is_an_attribute():
    graph = trace(lambda x: ops.reshape(x, [2, 3]), [f32(6)])
    (op,) = graph
    assert (op.attrs, len(op.inputs)) == ({"shape": (2, 3)}, 1)


def test_a_computed_host_argument_is_an_input(run):
    graph = trace(ops.reshape, [f32(6), parse_type("int64[2]")])
    (op,) = graph
    assert (op.has_attrs, len(op.inputs)) == (False, 2)
    assert str(graph.results[0].type) == "float32[?, ?]"
    for shape in ([2, 3], [3, -1]):
        (got,) = run(graph, np.zeros(6, "float32"), np.array(shape))
        assert got.shape == (shape[0], 6 // shape[0])


def test_a_constant_op_as_host_argument_is_an_attribute_too():
    graph = Graph("amanda/std/1")
    x = graph.parameter(f32(6))
    with tracing(graph):
        two = ops.add(np.int64([1, 2]), np.int64([1, 1]))
        shape = ops.reshape(x, ops.identity(graph_constant(graph, two)))
    assert shape.port.op.attrs == {"shape": (2, 3)}


def graph_constant(graph, array):
    from amanda.tensors import Tensor

    return graph.constant(Tensor.of(array)).output


def test_defaults_are_not_stored():
    graph = trace(lambda x: ops.softmax(x, axes=[-1]), [f32(2)])
    assert not graph[0].has_attrs


def test_values_in_a_list_are_stacked():
    def function(x):
        batch, places, _ = x.shape
        return ops.reshape(x, [batch, places, 2, 4])

    graph = trace(function, [parse_type("float32[b, s, 8]")])
    assert str(graph.results[0].type) == "float32[b, s, 2, 4]"


def test_numbers_take_the_element_type_beside_them():
    graph = trace(lambda x: ops.maximum(x, 0), [parse_type("bfloat16[2]")])
    assert str(graph[0].output.type) == "bfloat16[]"
    with pytest.raises(InvalidTypeError, match=r"0\.5 is none of int64"):
        trace(lambda x: x * 0.5, [parse_type("int64[2]")])
    graph = trace(lambda x: x * 0.5, [TensorType()])
    assert [op.type for op in graph] == ["number_like", "multiply"]
    with pytest.raises(Undecided, match="element type of a number"):
        trace(lambda x: ops.where(x, 0.5, 1.0), [parse_type("bool[2]")])


def test_a_symbol_is_no_value_at_run_time():
    with pytest.raises(InvalidTypeError, match="no value at run time"):
        trace(lambda x: ops.reshape(x, [N, 1]), [f32(N)])


# -- Undecided -------------------------------------------------------------------


def test_what_decides_in_python_raises():
    x = Typed(f32(N))
    with pytest.raises(Undecided, match="run time only"):
        bool(x)
    with pytest.raises(Undecided, match="rank"):
        _ = Typed(parse_type("float32[...]")).ndim
    assert bool(Typed(TensorType("int64", [], value=3)) == 3)
    with pytest.raises(Undecided, match="n == 3"):
        bool(Typed(TensorType("int64", [], value=N)) == 3)


def test_a_composite_stays_whole_until_its_questions_are_answered(run):
    graph = trace(lambda x: ops.layer_norm(x, axis=1), [parse_type("float32[...]")])
    assert str(graph.results[0].type) == "float32[...]"
    (left,) = lower(graph, is_not_composite)
    assert str(left) == "layer_norm #0: the rank of this tensor is not known"
    x = np.float32([[1, 3]])
    np.testing.assert_allclose(run(graph, x)[0], [[-1, 1]], atol=1e-4)
    graph.parameters[0].type = f32(N, 2)
    assert lower(graph, is_not_composite) == []
    np.testing.assert_allclose(run(graph, x)[0], [[-1, 1]], atol=1e-4)


def test_an_open_result_keeps_its_element_type():
    unknown = parse_type("float32[...]")
    assert str(ops.shape_of(unknown).type) == "int64[...]"
    assert str(ops.less(unknown, unknown).type) == "bool[...]"
    assert str(ops.astype(unknown, dtype="int8").type) == "int8[...]"


# -- known content -----------------------------------------------------------------


def test_shape_arithmetic_stays_symbolic():
    def flat(x):
        dims = ops.shape_of(x)
        last = ops.gather(dims, np.int64([2]))
        rest = ops.multiply(ops.gather(dims, np.int64([0])), ops.slice(dims, [1], [2]))
        return ops.reshape(x, ops.concat(rest, last))

    graph = trace(flat, [parse_type("float32[b, s, 8]")])
    assert str(graph.results[0].type) == "float32[b*s, 8]"


def test_one_unknown_number_does_not_hide_the_others():
    def function(x, k):
        return ops.reshape(x, ops.stack(ops.dim(x, axis=0), k))

    graph = trace(function, [parse_type("float32[b, 8]"), parse_type("int64[]")])
    assert str(graph.results[0].type) == "float32[b, ?]"


def test_a_number_at_run_time_may_be_negative():
    """So nothing is proved of it, though symbols are numbers from 0."""
    k = parse_type("int64[1]")
    assert str(ops.slice(f32(9), k, [9]).type) == "float32[?]"
    assert str(ops.reshape(f32(9), k).type) == "float32[?]"
    assert ops.less(k, np.int64([0])).type.value is None


def test_content_that_would_wrap_is_not_followed():
    big = TensorType("int32", [1], value=[2**31 - 1])
    assert ops.add(big, big).type.value is None


# -- the memo ----------------------------------------------------------------------


def test_types_of_composites_are_remembered():
    calls = []

    @composite
    def counted(x: Array) -> Array:
        calls.append(x)
        return x + x

    for _ in range(3):
        counted(f32(N))
    assert len(calls) == 1
    counted(f32(N + 1))
    assert len(calls) == 2


def test_an_unknown_dim_is_a_new_one_each_time():
    @composite
    def places(x: Array) -> Array:
        return ops.nonzero(x)

    one, two = (places(f32(3)).type.shape[1] for _ in range(2))
    assert one.key != two.key


# -- errors --------------------------------------------------------------------------


def test_wrong_use_tells_op_operands_expected_and_got():
    with pytest.raises(InvalidTypeError) as caught:
        ops.matmul(f32(2, 3), f32(4, 5))
    assert str(caught.value) == (
        "columns and rows differ\n"
        "  who:      matmul(float32[2, 3], float32[4, 5])\n"
        "  expected: 3\n"
        "  got:      4"
    )


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: ops.add(f32(2), f32(3)), "do not broadcast"),
        (lambda: ops.add(f32(2), TensorType("float64", [2])), "one element type"),
        (lambda: ops.sqrt(TensorType("int32", [2])), "sqrt does not take int32"),
        (lambda: ops.sqrt(np.int32([2])), "sqrt does not take int32"),
        (lambda: ops.add(np.float32(1), np.float64(1)), "one element type"),
        (lambda: ops.sum(f32(2), (1,)), "no such axis"),
        (lambda: ops.sum(f32(2), (0, -1)), "named twice"),
        (lambda: ops.reshape(f32(6), (4,)), "another number of elements"),
        (lambda: ops.reshape(f32(6), (4, -1)), "not divisible"),
        (lambda: ops.concat(f32(2, 3), f32(2, 4)), "dims of axis 1 differ"),
        (lambda: ops.where(f32(2), f32(2), f32(2)), "does not take float32"),
        (lambda: ops.transpose(f32(2, 3), perm=(0, 0)), "not a permutation"),
        (lambda: ops.conv(f32(1, 3, 5), f32(2, 4, 3)), "number of input channels"),
    ],
)
def test_wrong_types(call, told):
    with pytest.raises(InvalidTypeError, match=told):
        call()


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: ops.relu(), "relu needs x"),
        (lambda: ops.relu(f32(2), f32(2)), "at most 1"),
        (lambda: ops.relu(f32(2), slope=1), "relu has no slope"),
        (lambda: ops.astype(f32(2)), "astype needs dtype="),
    ],
)
def test_wrong_calls(call, told):
    with pytest.raises(UsageError, match=told):
        call()


# -- kernels -------------------------------------------------------------------------


def test_a_table_row_is_what_computes():
    table = Kernels("numpy", {"exp": lambda x: x + 100})
    with use_kernels(table):
        assert ops.exp(np.float64(1)) == 101
        assert ops.softplus(np.float64(0)) > 4  # composites use it too
    assert ops.exp(np.float64(0)) == 1


def test_the_form_is_that_of_the_python_function():
    @composite
    def half(x: Array, axes: ShapeArg = None, *, mode: str = "up") -> Array:
        return x

    assert str(half) == "half(x, axes=None, *, mode='up')"
    assert [p.role for p in half.form.params] == ["tensor", "host"]


def test_forms_are_read_when_they_are_first_needed() -> None:
    program = """
from amanda_std.ops import OPS, find
assert not any("form" in vars(op) for op in OPS.values())
find("relu").form
print([name for name, op in OPS.items() if "form" in vars(op)])
"""
    run = [sys.executable, "-c", program]
    assert subprocess.check_output(run, text=True) == "['relu']\n"


def test_every_op_has_a_form_and_rules_that_fit_it() -> None:
    """What a wrong declaration would raise at the first call."""
    rules = [rule for op in ops.OPS.values() for rule in vars(op).values()]
    bound = [rule.binding for rule in rules if isinstance(rule, BoundRule)]
    assert len(bound) > 400
    assert all(op.form.results for op in ops.OPS.values())


def test_a_rule_that_names_what_the_op_has_not() -> None:
    @composite
    def half(x: Array) -> Array:
        return x

    half.gradient(lambda g, z: [g])
    with pytest.raises(TypeError, match="names 'z', which the op has not"):
        half.gradient_rule([np.float32(1)], {}, g=np.float32(1))


def test_element_types_unknown_when_compiling_are_checked_when_running():
    graph = Graph("amanda/std/1")
    x, y = graph.parameter(), graph.parameter()
    graph.result(graph.add("add", [x, y]).output)
    compiled = amanda.compile(graph, "numpy")
    assert compiled([np.int32([1]), np.int32([2])])[0].tolist() == [3]
    with pytest.raises(InvalidTypeError, match="one element type"):
        compiled([np.int32([1]), np.float32([2])])


def test_a_kernel_that_fails_names_the_op():
    graph = trace(
        lambda x, i: ops.gather(x, i, name="row"), [f32(3), parse_type("int64[]")]
    )
    with pytest.raises(BackendError, match="gather 'row' failed") as caught:
        amanda.run(graph, [np.zeros(3, "float32"), np.int64(7)], backend="numpy")
    assert "out of bounds" in str(caught.value)


def test_an_operand_is_written_over_only_where_nothing_else_reads_it():
    def function(x):
        once = ops.exp(x)
        turned = ops.transpose(once)
        return ops.add(once, 1.0), ops.add(turned, ops.negative(ops.sin(x)))

    graph = trace(function, [f32(N, N)])
    x = np.arange(4, dtype="float32").reshape(2, 2)
    one, two = amanda.run(graph, [x], backend="numpy").values()
    np.testing.assert_allclose(one, np.exp(x) + 1, rtol=1e-6)
    np.testing.assert_allclose(two, np.exp(x).T - np.sin(x), rtol=1e-6)
    np.testing.assert_array_equal(x, np.arange(4).reshape(2, 2))
