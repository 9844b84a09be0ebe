"""The dictionaries of StableHLO, CHLO and JAX beside programs that JAX makes."""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

import jax
import numpy as np
import pytest
from jax import lax
from jax import numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, Primitive, primitives
from jaxlib.mlir import ir

import amanda
from amanda.dictionary import version_key
from amanda.graph import Graph
from amanda.tensors import FunctionRef, Tensor
from amanda.types import DType
from amanda_dictionaries_dev.jax.primitives import list_equations, trace_equations
from amanda_dictionaries_dev.jax.traced_programs import example_programs


def newest(name: str) -> Any:
    return amanda.namespace(name)


# -- what there is ---------------------------------------------------------------------


@pytest.mark.parametrize(("dialect", "count"), [("stablehlo", 117), ("chlo", 51)])
def test_ops_are_those_of_the_bindings(dialect: str, count: int) -> None:
    """The text of the generated bindings names each operation."""
    module = import_module(f"jaxlib.mlir.dialects._{dialect}_ops_gen")
    named = re.findall(
        rf'OPERATION_NAME = "{dialect}\.(\S+)"', inspect.getsource(module)
    )
    assert len(set(named)) == count
    assert set(newest(dialect)) == set(named)


@pytest.mark.parametrize(
    ("op", "told", "since"),
    [
        ("composite", "name: string", "0.19.0"),
        ("dynamic_conv", "padding: any", "0.20.0"),
        ("tan", "operand: any", "1.4.0"),
    ],
)
def test_history_is_the_one_that_the_dialect_publishes(
    op: str, told: str, since: str
) -> None:
    """Since when an op is so, by the dialect of versioned ops (VhloOps.td)."""
    history = newest("stablehlo").history
    versions = sorted(history.versions(), key=version_key)
    later = [v for v in versions if version_key(v) >= version_key(since)]
    before = versions[versions.index(later[0]) - 1]
    assert re.search(rf"[(, ]{told}", str(history.at(later[0])[op]))
    old = history.at(before).get(op)
    assert old is None or not re.search(rf"[(, ]{told}", str(old))


def test_attributes_are_those_that_constructors_write() -> None:
    """And what is required is written whatever the arguments are."""
    for dialect in ("stablehlo", "chlo"):
        module = import_module(f"jaxlib.mlir.dialects._{dialect}_ops_gen")
        for made in vars(module).values():
            name = getattr(made, "OPERATION_NAME", "")
            if not (inspect.isclass(made) and issubclass(made, ir.OpView) and name):
                continue
            code = inspect.getsource(made.__init__)
            written = set(re.findall(r'attributes\["(\w+)"\] =', code))
            asked = set(re.findall(r'^    attributes\["(\w+)"\] =', code, re.MULTILINE))
            entry = newest(dialect)[name.partition(".")[2]]
            held = [attr for attr in entry.attrs if attr.element != "graph"]
            assert {attr.name for attr in held} == written, name
            assert {attr.name for attr in held if attr.required} == asked, name


def test_primitives_are_those_that_jax_lists() -> None:
    listed = {p.name: p for n, p in vars(primitives).items() if n.endswith("_p")}
    held = newest("jax")
    assert len(listed) == 175
    assert listed.keys() <= set(held)
    for name, primitive in listed.items():
        several = "multiple_results" in held[name].tags
        assert several == primitive.multiple_results, name


def test_primitives_of_lax_are_listed() -> None:
    """Also those that `jax.extend.core.primitives` lacks, such as `stack`."""
    from jax._src import lax as internal

    modules = [v for v in vars(internal).values() if isinstance(v, ModuleType)]
    defined = {
        value.name
        for module in modules
        for value in vars(module).values()
        if isinstance(value, Primitive)
    }
    assert {"stack", "unstack", "mulhi", "geqrf"} <= defined
    assert defined <= set(newest("jax"))


def test_few_primitives_are_in_no_program() -> None:
    """Of all others that JAX lists in public the parameters are known."""
    listed = {p.name for n, p in vars(primitives).items() if n.endswith("_p")}
    open_ = {entry.name for entry in newest("jax").values() if entry.open}
    assert open_ & listed == {
        "call", "closed_call", "custom_lin", "eq_to", "le_to", "lt_to",
        "select_and_scatter", "threefry2x32",
    }  # fmt: skip
    seen = {
        e.primitive.name
        for program in example_programs()
        for e in trace_equations(program)
    }
    assert seen == {e.name for e in newest("jax").values() if not e.open}


# -- programs of JAX -------------------------------------------------------------------


def classified(weights: Any, image: Any) -> Any:
    """A small network: convolution, norm, pooling, attention, a loop and a choice."""
    kernel, projection = weights
    x = lax.conv_general_dilated(
        image, kernel, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    x = jax.nn.relu((x - x.mean((1, 2), keepdims=True)) * lax.rsqrt(x.var() + 1e-5))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = x.reshape(x.shape[0], -1, x.shape[-1])
    scores = jax.nn.softmax(jnp.einsum("bij,bkj->bik", x, x))
    x = jnp.einsum("bik,bkj->bij", scores, x).sum(1) @ projection
    x = lax.fori_loop(0, 3, lambda i, c: c + jnp.sin(c) * i, x)
    x, sums = lax.scan(lambda c, row: (c + row, c.sum()), x[0], x)
    x = lax.cond(sums[0] > 0, jnp.tanh, lambda y: y * 2, x)
    order = jnp.argsort(x)
    return x[order][:2].sum() + jnp.cumsum(x).max() + x.at[0].add(1.0)[1]


WEIGHTS = np.ones((3, 3, 2, 4), "float32"), np.ones((4, 5), "float32")
IMAGE = np.ones((3, 8, 8, 2), "float32")


def graph_of_jaxpr(jaxpr: Any, namespace: str) -> Graph:
    graph = Graph(namespace)
    values = {
        each: graph.parameter(type=None) for each in (*jaxpr.constvars, *jaxpr.invars)
    }
    for equation in jaxpr.eqns:
        inputs = [
            number(graph) if isinstance(each, Literal) else values[each]
            for each in equation.invars
        ]
        bodies = {n: v for n, v in equation.params.items() if is_program(v)}
        branches = equation.params.get("branches", ())
        bodies |= {f"branches{i}": branch for i, branch in enumerate(branches)}
        op = graph.add(
            equation.primitive.name,
            inputs,
            {
                name: plain(value)
                for name, value in equation.params.items()
                if name not in bodies and name != "branches"
            },
            outputs=len(equation.outvars),
            bodies={
                name: graph_of_jaxpr(getattr(value, "jaxpr", value), namespace)
                for name, value in bodies.items()
            },
        )
        values.update(zip(equation.outvars, op.outputs, strict=True))
    for each in jaxpr.outvars:
        graph.result(number(graph) if isinstance(each, Literal) else values[each])
    return graph


def plain(value: Any) -> Any:
    if isinstance(value, np.dtype):
        return DType(value.name)
    return value.name if isinstance(value, enum.Enum) else value


def number(graph: Graph) -> Any:
    """A literal, whose value does not matter here."""
    return graph.constant(Tensor.from_buffer(b"\0" * 4, DType("float32"), ())).output


def is_program(value: Any) -> bool:
    return isinstance(value, ClosedJaxpr | Jaxpr)


def test_parameters_of_a_training_step_are_known() -> None:
    step = jax.make_jaxpr(jax.grad(classified))(WEIGHTS, IMAGE)
    held = newest("jax")
    seen = set()
    for equation in list_equations(step.jaxpr):
        entry = held[equation.primitive.name]
        seen.add(entry.name)
        assert equation.params.keys() == {attr.name for attr in entry.attrs}, entry
    assert len(seen) > 40


def test_a_traced_program_has_no_fault() -> None:
    program = jax.make_jaxpr(classified)(WEIGHTS, IMAGE)
    held = newest("jax")
    graph = graph_of_jaxpr(program.jaxpr, held.name)
    problems = [str(problem) for problem in held.validate(graph)]
    assert len({op.type for op in graph.walk()}) > 30
    assert problems == []


# -- StableHLO -------------------------------------------------------------------------


def fill(graph: Graph, block: Any, outer: dict[Any, Any]) -> Graph:
    """The operations of a block; those in regions read values from around."""
    values = {**outer, **{each: graph.parameter() for each in block.arguments}}
    for operation in block.operations:
        inputs = [values[value] for value in operation.operands]
        dialect, _, name = operation.operation.name.partition(".")
        if name == "return":
            for value in inputs:
                graph.result(value)
            continue
        held = dict(regions(operation.operation.opview))
        op = graph.add(
            name,
            inputs,
            dict(attributes(operation)),
            outputs=len(operation.results),
            bodies={body: Graph(graph.namespace) for body in held},
            namespace=None if dialect == "stablehlo" else f"mlir/{dialect}/1",
        )
        for body, region in held.items():
            fill(op.bodies[body], region.blocks[0], values)
        values.update(zip(operation.results, op.outputs, strict=True))
    return graph


def regions(view: Any) -> Iterator[tuple[str, Any]]:
    for name, found in vars(type(view)).items():
        held = getattr(view, name) if isinstance(found, property) else None
        if isinstance(held, ir.Region):
            yield name, held
        elif isinstance(held, ir.RegionSequence):
            yield from ((f"{name}{i}", region) for i, region in enumerate(held))


def attributes(operation: Any) -> Iterator[tuple[str, Any]]:
    for name in operation.attributes:
        yield name, python_value(operation.attributes[name])


def python_value(value: Any) -> Any:
    match value:
        case ir.BoolAttr() | ir.IntegerAttr() | ir.FloatAttr() | ir.StringAttr():
            return value.value
        case ir.FlatSymbolRefAttr():
            return FunctionRef(value.value)
        case ir.DenseI64ArrayAttr() | ir.DenseBoolArrayAttr():
            return list(value)
        case ir.DenseElementsAttr():
            return Tensor.from_buffer(b"\0" * 8, DType("int64"), (1,))
        case ir.ArrayAttr():
            return [python_value(item) for item in value]
    word = re.fullmatch(r"#stablehlo<\w+ (\w+)>", str(value))
    return word[1] if word else str(value)


@pytest.fixture(scope="module")
def lowered() -> Graph:
    program = jax.jit(jax.grad(classified)).lower(WEIGHTS, IMAGE)
    module = program.compiler_ir("stablehlo")
    held = newest("stablehlo")
    for function in module.body.operations:
        if function.name.value == "main":
            return fill(Graph(held.name), function.regions[0].blocks[0], {})
    raise AssertionError("no main")


def test_a_lowered_program_has_no_fault(lowered: Graph) -> None:
    held = newest("stablehlo")
    ops = [op for op in lowered.walk() if op.namespace == held.name]
    assert len({op.type for op in ops}) >= 25
    assert [str(problem) for problem in held.validate(lowered)] == []


def test_faults_are_found(lowered: Graph) -> None:
    graph = lowered.clone()
    ops = {op.type: op for op in graph.walk()}
    ops["compare"].attrs["comparison_direction"] = "LESS"
    ops["convolution"].attrs["window_stride"] = [1, 1]
    del ops["transpose"].attrs["permutation"]
    ops["dot_general"].type = "dot_generol"
    kinds = sorted(problem.kind for problem in newest("stablehlo").validate(graph))
    assert kinds == [
        "attribute value",
        "missing attribute",
        "unknown attribute",
        "unknown op",
    ]
