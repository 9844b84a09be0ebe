"""How `mesh` and `shardings` are read, and what rules divide. Nothing runs here."""

from __future__ import annotations

import numpy as np
import pytest

from amanda.errors import BackendError
from amanda.graph import Graph
from amanda.tensors import Tensor
from amanda.types import parse_type
from amanda_jax.mesh.plan import PortSharding, prepare_for_mesh, sharding_plan
from amanda_jax.mesh.specs import (
    ShardingLine,
    parse_mesh_axes,
    parse_shardings,
    why_not_divisible,
)
from amanda_std import ops, trace

SIZES = {"data": 4, "model": 2}


def array(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype="float32").reshape(shape)


def plan_of(graph: Graph, shardings, sizes=SIZES):
    lines = parse_shardings(shardings, sizes)
    return sharding_plan(prepare_for_mesh(graph, lines, Graph.clone), lines, sizes)


def specs(graph: Graph, shardings, sizes=SIZES) -> list[tuple[object, ...]]:
    """Of the weights, in order."""
    plan = plan_of(graph, shardings, sizes)
    return [placed.spec for _, placed in plan.weights.values()]


class TestReading:
    @pytest.mark.parametrize("given", ["data=4,model=2", " data = 4, model=2 ", SIZES])
    def test_meshes(self, given):
        assert parse_mesh_axes(given) == SIZES

    @pytest.mark.parametrize(
        "given", ["", "data", "data=x", "=4", {}, {"a": 0}, {1: 2}]
    )
    def test_what_is_no_mesh(self, given):
        with pytest.raises(
            BackendError, match="'mesh' of backend 'jax' cannot be read"
        ):
            parse_mesh_axes(given)

    @pytest.mark.parametrize(
        ("given", "wanted"),
        [
            ({"x": ("data",)}, [("x", ("data",))]),
            ({"x": [None, "model"]}, [("x", (None, "model"))]),
            ({"x": (("data", "model"),)}, [("x", (("data", "model"),))]),
            ({"x": (("data",), ())}, [("x", ("data", None))]),
            ({"x": None, "y": ()}, [("x", ()), ("y", ())]),
            ("x=data", [("x", ("data",))]),
            ("x=data; w.*=-,model", [("x", ("data",)), ("w.*", (None, "model"))]),
            ("x=data+model,-", [("x", (("data", "model"), None))]),
        ],
    )
    def test_shardings(self, given, wanted):
        assert parse_shardings(given, SIZES) == [
            ShardingLine(name, spec) for name, spec in wanted
        ]

    def test_rules(self):
        both = ("batch", "data"), ("megatron", "model")
        assert parse_shardings(None, SIZES) == [ShardingLine("*", None, both)]
        assert parse_shardings(None, {"data": 4}) == [ShardingLine("*", None, both[:1])]
        assert parse_shardings("batch, megatron", SIZES) == [
            ShardingLine("*", None, both)
        ]
        fsdp = ShardingLine("w*", None, (("fsdp", "model"),))
        assert parse_shardings("w*=fsdp:model", SIZES) == [fsdp]
        assert parse_shardings({"w*": "fsdp:model"}, SIZES) == [fsdp]

    @pytest.mark.parametrize(
        ("given", "text"),
        [
            ("fdsp", "there is no sharding policy 'fdsp'.*did you mean 'fsdp'"),
            ("fsdp:modle", "the mesh has no axis 'modle'.*did you mean 'model'"),
            ({"x": ("dat",)}, r"no axis 'dat'\n.*shardings\['x'\]\n.*did you mean"),
            ({"x": ("data", "data")}, "sharded over the mesh axis 'data' twice"),
            ({"x": 4}, "'shardings' of backend 'jax' cannot be read"),
            ({"x": (4,)}, "'shardings' of backend 'jax' cannot be read"),
            (7, "'shardings' of backend 'jax' cannot be read"),
        ],
    )
    def test_what_cannot_be_read(self, given, text):
        with pytest.raises(BackendError, match=f"(?s){text}"):
            parse_shardings(given, SIZES)

    def test_a_rule_for_an_axis_that_is_not_there(self):
        with pytest.raises(BackendError, match="fsdp:AXIS shards over another one"):
            parse_shardings("fsdp", {"model": 2})


@pytest.mark.parametrize(
    ("spec", "shape", "why"),
    [
        (("data",), (8, 3), ""),
        (("data",), (0,), ""),
        ((None, "model"), (3, 4), ""),
        ((("data", "model"),), (8,), ""),
        (
            ("data",),
            (6,),
            "its axis 0 has 6 elements, which the 4 devices along 'data'",
        ),
        ((("data", "model"),), (4,), "the 8 devices along 'data' and 'model'"),
        (("data", None), (8,), "it has 1 axis, and ('data', None) is for 2"),
    ],
)
def test_what_divides(spec, shape, why):
    told = why_not_divisible(spec, shape, SIZES)
    assert why in told
    assert bool(told) == bool(why)


class TestRules:
    def graph(self, function, *types: str) -> Graph:
        names = ["x", "y", "z"][: len(types)]
        return trace(function, [parse_type(t) for t in types], names=names)

    def test_columns_and_rows_in_turn(self):
        def network(x):
            x = ops.gelu(ops.matmul(x, array(8, 32)) + array(32))
            x = ops.layer_norm(x + 1.0)
            x = ops.matmul(x, array(32, 8)) + array(1, 1, 32)[..., :8]
            return ops.matmul(x, array(8, 40))

        found = specs(self.graph(network, "float32[n, 8]"), "megatron")
        assert found == [(None, "model"), ("model",), ("model",), (None, "model")]

    def test_attention_is_by_heads(self):
        def network(x):
            q, k, v = (ops.matmul(x, array(8, 8)) for _ in range(3))
            scores = ops.softmax(ops.matmul(q, ops.transpose(k, perm=(0, 2, 1))))
            return x + ops.matmul(ops.matmul(scores, v), array(8, 8))

        found = specs(self.graph(network, "float32[n, 5, 8]"), "megatron")
        assert found == [(None, "model")] * 3 + [("model",)]

    @pytest.mark.parametrize(
        ("equation", "shape", "wanted"),
        [
            ("...k,kn->...n", (8, 32), (None, "model")),
            ("...k,nk->...n", (32, 8), ("model",)),
            ("ij,kj->ik", (32, 8), ("model",)),
            ("ij,kj->ikj", (32, 8), ()),
            ("ij,kj->ki", (32, 8), ()),
        ],
    )
    def test_products_by_equation(self, equation, shape, wanted):
        def network(x):
            return ops.einsum(x, array(*shape), equation=equation)

        assert specs(self.graph(network, "float32[4, 8]"), "megatron") == [wanted]

    def test_a_bias_of_a_layer(self):
        def network(x):
            return ops.linear(ops.linear(x, array(8, 32), array(32)), array(32, 20))

        found = specs(self.graph(network, "float32[4, 8]"), "megatron")
        assert found == [(None, "model"), ("model",), ("model",)]

    def test_what_cannot_be_divided_is_whole_and_told(self):
        graph = self.graph(lambda x: ops.matmul(x, array(7, 9)), "float32[4, 7]")
        for rule, why in (
            ("megatron", "its columns cannot be sharded evenly"),
            ("fsdp", "no axis of it can be sharded evenly"),
        ):
            [(_, placed)] = plan_of(graph, rule).weights.values()
            assert placed == PortSharding("weight", "weight0", (), why)

    def test_the_largest_axis_that_can_be_divided(self):
        def network(x):
            return ops.matmul(ops.matmul(x, array(8, 30)), array(30, 12))

        graph = self.graph(network, "float32[4, 8]")
        assert specs(graph, "fsdp") == [("data",), (None, "data")]
        assert specs(graph, "fsdp:model") == [(None, "model"), ("model",)]
        both = [("data", "model"), ("model", "data")]
        assert specs(graph, "megatron, fsdp") == both

    def test_inputs_that_share_their_first_axis(self):
        def network(x, y, z):
            return ops.matmul(x, z) + ops.expand_dims(y, (1,))

        kinds = ("float32[n, 8]", "float32[n]", "float32[8, 4]")
        plan = plan_of(self.graph(network, *kinds), "batch")
        assert [placed.spec for placed in plan.inputs] == [("data",), ("data",), ()]

    def test_what_decides_shapes_stays_whole(self):
        graph = self.graph(ops.reshape, "float32[4]", "int64[4]")
        plan = plan_of(graph, "batch")
        assert [placed.spec for placed in plan.inputs] == [("data",), ()]

    def test_results_lie_as_they_are_told_to_or_anyhow(self):
        graph = self.graph(lambda x: (x * 2.0, x * 3.0, x * 4.0), "float32[4, 8]")
        for port, name in zip(graph.outputs, "abc", strict=True):
            port.name = name
        told = {"x": ("data",), "a": (None, "model"), "b": ()}
        assert plan_of(graph, told).results == (
            PortSharding("result", "a", (None, "model")),
            PortSharding("result", "b", ()),
            None,
        )

    @pytest.mark.parametrize(
        ("told", "wanted"),
        [
            ({"a": ("data",)}, ("data",)),
            ({"b": ("data",)}, ("data",)),
            ({"a": "fsdp:model", "b": ("data",)}, ("data",)),
            ({"a": (None, "model"), "b": [None, ("model",)]}, (None, "model")),
            ({"a": ("data", None), "b": (("data",),)}, ("data",)),
            ({"a": (), "b": "fsdp"}, ()),
            ({"a": ("data",), "b": (None, "model")}, None),
            ({"a": ("data",), "b": ()}, None),
            ({"a": (), "b": ("data",)}, None),
        ],
    )
    def test_a_tensor_with_two_names(self, told, wanted):
        tensor = Tensor.of(array(8, 8))
        graph = Graph("amanda/std/1")
        x = graph.parameter(parse_type("float32[4, 8]"), "x")
        for name in ("a", "b"):
            x = graph.add("matmul", [x, graph.constant(tensor, name).output]).output
        graph.result(x)
        if wanted is not None:
            assert plan_of(graph, told).weight(tensor).spec == wanted
            return
        text = "weight '.' and weight '.' are one tensor, and cannot be sharded both by"
        with pytest.raises(BackendError, match=text):
            plan_of(graph, told)

    def test_all_that_does_not_fit_is_told_at_once(self):
        graph = self.graph(lambda x: ops.matmul(x, array(8, 6)), "float32[3, 8]")
        graph.outputs[0].name = "y"
        prepare_for_mesh = {"x": ("data",), "weight0": (None, "data"), "y": ("model",)}
        with pytest.raises(BackendError) as caught:
            plan_of(graph, prepare_for_mesh)
        assert len(caught.value.problems) == 3
        told = str(caught.value)
        assert "input 'x' is float32[3, 8]: its axis 0 has 3 elements" in told
        assert "weight 'weight0' is float32[8, 6]: its axis 1 has 6 elements" in told
        assert "result 'y' is float32[3, 6]: its axis 0 has 3 elements" in told

    @pytest.mark.parametrize(
        ("spec", "why"),
        [
            ((None, "data"), "its axis 1 has 6 elements, which the 4 devices along"),
            (("data", "model"), ""),
            ((("data", "model"), None), ""),
            (("data", None, "model"), "it has 2 axes, and ('data', None, 'model') is"),
            ((None, ("data", "model")), "the 8 devices along 'data' and 'model' do"),
        ],
    )
    def test_results_as_far_as_their_sizes_are_known(self, spec, why):
        graph = self.graph(lambda x: ops.matmul(x, array(8, 6)), "float32[n, 8]")
        graph.outputs[0].name = "y"
        if not why:
            assert plan_of(graph, {"y": spec}).results == (
                PortSharding("result", "y", spec),
            )
            return
        with pytest.raises(BackendError) as caught:
            plan_of(graph, {"y": spec})
        [told] = caught.value.problems
        assert told.startswith("result 'y' is float32[n, 6]: ")
        assert why in told

    def test_sizes_of_results_that_inputs_tell(self):
        graph = self.graph(
            lambda x, y: (ops.concat(x, x, y), ops.nonzero(x), x + 1.0),
            "float32[n, 2]",
            "float32[m, 2]",
        )
        for port, name in zip(graph.outputs, "abc", strict=True):
            port.name = name
        plan = plan_of(graph, {"a": ("data",), "b": (None, "data")})
        (a, found), (b, partly) = plan.result_shapes([(5, 2), (7, 2)])
        assert (a, b) == plan.results[:2]
        assert found == [5 + 5 + 7, 2]
        assert partly[0] == 2
        assert not isinstance(partly[1], int)  # data decides it

    def test_a_size_that_is_divided_by_none(self):
        """There is no telling before the call what it is, or whether it can be."""
        graph = self.graph(
            lambda x, y: ops.reshape(x, ops.stack(ops.dim(y, axis=0), np.array(-1))),
            "float32[n]",
            "float32[m]",
        )
        graph.outputs[0].name = "out"
        plan = plan_of(graph, {"out": (None, "data")})
        [(_, found)] = plan.result_shapes([(12,), (3,)])
        assert found == [3, 4]
        [(_, found)] = plan.result_shapes([(0,), (0,)])
        assert found[0] == 0
        assert not isinstance(found[1], int)
