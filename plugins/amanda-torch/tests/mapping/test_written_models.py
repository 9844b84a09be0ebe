"""Models of other frameworks as programs of PyTorch, written without PyTorch."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile

import numpy as np
import pytest

import amanda

torch = pytest.importorskip("torch", reason="loads the programs")
onnx = pytest.importorskip("onnx", reason="makes the models")
reference = pytest.importorskip("onnx.reference", reason="the oracle")

BLOCKED = """
import sys
sys.modules["torch"] = None
from amanda.cli import main
sys.exit(main(sys.argv[1:]))
"""


def weights(**shapes):
    rng = np.random.default_rng(3)
    return [
        onnx.numpy_helper.from_array(rng.normal(0.1, 0.3, shape).astype("f"), name)
        for name, shape in shapes.items()
    ]


def network():
    """Convolutions with a branch, pooling and a classifier; any number of images."""
    node = onnx.helper.make_node
    nodes = [
        node("Conv", ["x", "stem.weight", "stem.bias"], ["a"], "/stem/Conv",
             pads=[1, 1, 1, 1], strides=[2, 2]),
        node("BatchNormalization", ["a", "bn.weight", "bn.bias", "bn.mean", "bn.var"],
             ["b"], "/bn/BatchNormalization"),
        node("Relu", ["b"], ["c"], "/Relu"),
        node("MaxPool", ["c"], ["d"], "/pool/MaxPool", kernel_shape=[3, 3],
             pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Conv", ["d", "layer1.0.weight"], ["e"], "/layer1/0/Conv",
             pads=[0, 1, 1, 0], kernel_shape=[2, 2], group=2),
        node("Add", ["d", "e"], ["f"], "/layer1/Add"),
        node("GlobalAveragePool", ["f"], ["g"], "/GlobalAveragePool"),
        node("Flatten", ["g"], ["h"], "/Flatten"),
        node("Gemm", ["h", "fc.weight", "fc.bias"], ["i"], "/fc/Gemm", transB=1),
        node("Softmax", ["i"], ["y"], "/Softmax"),
    ]  # fmt: skip
    value = onnx.helper.make_tensor_value_info
    given = weights(**{
        "stem.weight": (4, 3, 3, 3), "stem.bias": (4,), "bn.weight": (4,),
        "bn.bias": (4,), "bn.mean": (4,), "layer1.0.weight": (4, 2, 2, 2),
        "fc.weight": (5, 4), "fc.bias": (5,),
    })  # fmt: skip
    given.append(onnx.numpy_helper.from_array(np.full(4, 0.5, "f"), "bn.var"))
    graph = onnx.helper.make_graph(
        nodes, "net", [value("x", 1, ["batch", 3, 17, 16])],
        [value("y", 1, ["batch", 5])], given,
    )  # fmt: skip
    return onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 18)]
    )


def sequence_model():
    """Embeddings, a mask from lengths, shapes computed at run time."""
    return onnx.parser.parse_model("""
        <ir_version: 9, opset_import: ["" : 18]>
        net (int64[batch, length] ids, float[50, 8] table, int64[1] heads)
            => (float[batch, length, 8] y) {
          e = Gather (table, ids)
          s = Shape (ids)
          two = Constant <value = int64[2] {2, 4}> ()
          parts = Concat <axis = 0> (s, two)
          r = Reshape (e, parts)
          t = Transpose <perm = [0, 2, 1, 3]> (r)
          k = Transpose <perm = [0, 2, 3, 1]> (r)
          w = MatMul (t, k)
          p = Softmax (w)
          m = MatMul (p, t)
          u = Transpose <perm = [0, 2, 1, 3]> (m)
          eight = Constant <value = int64[1] {8}> ()
          back = Concat <axis = 0> (s, eight)
          y = Reshape (u, back)
        }""")


def convert(model, folder, *options):
    """The file that the command line writes where PyTorch cannot be imported."""
    source, target = folder / "model.onnx", folder / "model.pt2"
    onnx.save(model, source)
    command = [sys.executable, "-c", BLOCKED, "convert", str(source), str(target)]
    command += options
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return target


def program_of(path):
    with zipfile.ZipFile(path) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith("models/model.json"))
        return json.loads(archive.read(name))


def test_a_convolutional_network(tmp_path):
    model = network()
    path = convert(model, tmp_path, "--no-passes")
    program = torch.export.load(path)
    assert sorted(dict(program.named_parameters())) == [
        "bn.bias", "bn.weight", "fc.bias", "fc.weight", "layer1.0.weight",
        "stem.bias", "stem.weight",
    ]  # fmt: skip
    assert sorted(dict(program.named_buffers())) == [
        "bn.running_mean", "bn.running_var",
    ]  # fmt: skip
    called = [n["target"].split(".")[-2] for n in
              program_of(path)["graph_module"]["graph"]["nodes"]]  # fmt: skip
    assert [n for n in called if n not in ("constant_pad_nd", "sym_size")] == [
        "conv2d", "batch_norm", "relu", "max_pool2d", "conv2d", "add", "mean",
        "reshape", "linear", "softmax",
    ]  # fmt: skip
    expect_right(program, model)


@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")
def test_modules_of_a_written_program(tmp_path):
    """Those that the names of weights and ops have, as an exporter records them."""
    path = convert(network(), tmp_path, "--no-passes")
    program = torch.export.load(path)
    unflattened = torch.export.unflatten(program)
    names = [name for name, _ in unflattened.named_modules()]
    assert {"stem", "bn", "pool", "layer1.0", "fc"} <= set(names)
    x = torch.randn(2, 3, 17, 16)
    torch.testing.assert_close(unflattened(x), program.module()(x), rtol=0, atol=0)


def test_folded_weights_are_named_after_their_modules(tmp_path):
    model = network()
    program = torch.export.load(convert(model, tmp_path))
    assert sorted(dict(program.named_parameters())) == [
        "fc.bias", "fc.weight", "layer1.0.weight", "stem.bias", "stem.weight",
    ]  # fmt: skip
    assert not dict(program.named_buffers())
    expect_right(program, model)


def expect_right(program, model):
    """Equal results for batches of several sizes."""
    oracle = reference.ReferenceEvaluator(model)
    for batch in (2, 5):
        x = np.random.default_rng(0).normal(size=(batch, 3, 17, 16)).astype("f")
        got = program.module()(torch.from_numpy(x))
        got = got[0] if isinstance(got, tuple) else got
        np.testing.assert_allclose(
            got.detach().numpy(), oracle.run(None, {"x": x})[0], rtol=1e-4, atol=1e-5
        )


def test_shapes_computed_at_run_time(tmp_path):
    model = sequence_model()
    path = convert(model, tmp_path)
    module = torch.export.load(path).module()
    targets = {n["target"] for n in program_of(path)["graph_module"]["graph"]["nodes"]}
    assert "torch.ops.aten.item.default" not in targets  # sizes follow from dims
    oracle = reference.ReferenceEvaluator(model)
    rng = np.random.default_rng(1)
    table, heads = rng.normal(size=(50, 8)).astype("f"), np.array([2])
    for shape in ((2, 3), (4, 7)):
        ids = rng.integers(-50, 50, shape)
        feeds = {"ids": ids, "table": table, "heads": heads}
        got = module(*map(torch.from_numpy, feeds.values()))
        got = got[0] if isinstance(got, tuple) else got
        np.testing.assert_allclose(got, oracle.run(None, feeds)[0], atol=1e-5)


def test_long_windows_over_an_axis_of_any_length(tmp_path):
    """The sizes with which PyTorch computes all others are long enough for them."""
    model = onnx.parser.parse_model("""
        <ir_version: 9, opset_import: ["" : 18]>
        net (float[1, 1, length] x) => (float[1, 1, short] y) {
          a = AveragePool <kernel_shape = [10], strides = [5]> (x)
          y = AveragePool <kernel_shape = [30]> (a)
        }""")
    module = torch.export.load(convert(model, tmp_path)).module()
    x = np.random.default_rng(2).normal(size=(1, 1, 400)).astype("f")
    got = module(torch.from_numpy(x))
    [expected] = reference.ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_names_that_pytorch_uses_itself(tmp_path):
    """Values named `input`, `input_1` and `output` do not clash with its names."""
    model = onnx.parser.parse_model("""
        <ir_version: 9, opset_import: ["" : 18]>
        net (float[2] input, float[2] input_1) => (float[2] output) {
          output = Sub (input, input_1)
        }""")
    module = torch.export.load(convert(model, tmp_path)).module()
    got = module(torch.tensor([3.0, 5.0]), torch.tensor([1.0, 7.0]))
    assert got.tolist() == [2.0, -2.0]


def test_data_that_decides_sizes(tmp_path):
    """The number of nonzero elements is a symbol of its own."""
    from amanda_std import ops, trace

    graph = trace(
        lambda x: ops.matmul(ops.transpose(ops.nonzero(x)), ops.full([2, 3], 2)),
        [amanda.parse_type("int64[a, b]")],
    )
    path = tmp_path / "model.pt2"
    amanda.save(amanda.convert(graph, "torch"), path)
    module = torch.export.load(path).module()
    x = np.array([[0, 3], [1, 0], [2, 2]])
    got = module(torch.from_numpy(x))
    np.testing.assert_array_equal(got, np.argwhere(x) @ np.full((2, 3), 2))


def test_bodies_of_several_loops(tmp_path):
    """Each op keeps its own graphs, also if their names and those of weights agree."""
    from amanda_std import ops, trace

    def both(x):
        ten, twenty, two, three = map(np.float32, (10, 20, 2, 3))
        return (
            *ops.while_(
                lambda v: ops.less(v, ten), lambda v: [ops.multiply(v, two)], x
            ),
            *ops.while_(
                lambda v: ops.less(v, twenty), lambda v: [ops.add(v, three)], x
            ),
        )

    path = tmp_path / "model.pt2"
    graph = trace(both, [amanda.parse_type("float32[]")])
    amanda.save(amanda.convert(graph, "torch"), path)
    found = torch.export.load(path).module()(torch.tensor(1.0))
    assert [float(each) for each in found] == [16.0, 22.0]


def test_missing_ops_of_bodies_are_reported(tmp_path):
    """Not the op around them, whose types follow from theirs."""
    from amanda.errors import ConversionError
    from amanda_std import ops, trace

    def function(x, axes):
        def reduce(v):
            return [ops.expand_dims(ops.sum_(v, axes), [0])]

        condition = ops.greater(ops.sum_(x), np.float32(0))
        return ops.if_(condition, reduce, lambda v: [ops.relu(v)], x)

    types = map(amanda.parse_type, ("float32[2, 3]", "int64[k]"))
    graph = trace(function, list(types))
    with pytest.raises(ConversionError, match="the axes is known at run time only"):
        amanda.convert(graph, "torch")


def test_rows_that_a_loop_collects_need_no_gradient(tmp_path):
    """The lowering of a loop begins with no rows, which are no parameter."""
    node, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    real, integer, truth = (
        getattr(onnx.TensorProto, name) for name in ("FLOAT", "INT64", "BOOL")
    )
    body = onnx.helper.make_graph(
        [node("Add", ["v", "x"], ["next"]), node("Identity", ["c"], ["c_next"]),
         node("ReduceSum", ["next"], ["row"], keepdims=0)], "body",
        [value("i", integer, []), value("c", truth, []), value("v", real, [3])],
        [value("c_next", truth, []), value("next", real, [3]), value("row", real, [])],
    )  # fmt: skip
    graph = onnx.helper.make_graph(
        [node("Loop", ["n", "", "x"], ["y", "rows"], body=body)], "graph",
        [value("x", real, [3]), value("n", integer, [])],
        [value("y", real, [3]), value("rows", real, [None])],
    )  # fmt: skip
    opset = onnx.helper.make_opsetid("", 17)
    model = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8)
    onnx.save(model, tmp_path / "loop.onnx")
    amanda.save(
        amanda.convert(amanda.load(tmp_path / "loop.onnx"), "torch"),
        tmp_path / "loop.pt2",
    )
    module = torch.export.load(tmp_path / "loop.pt2").module()
    assert not list(module.parameters())
    for count in (3, 1, 0):
        y, rows = module(torch.tensor([1.0, 2.0, 3.0]), torch.tensor(count))
        assert rows.tolist() == [12.0 + 6 * i for i in range(count)]
        assert y.tolist() == [(1.0 + count) * n for n in (1, 2, 3)]
