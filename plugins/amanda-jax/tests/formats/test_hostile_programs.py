"""Programs of unknown origin: they end no process, and call no code of their choice."""

from __future__ import annotations

import io
import json
import random
import zipfile
from dataclasses import replace

import jax
import numpy as np
import pytest

import amanda
import amanda_jax
from amanda.errors import AmandaError, BackendError, FormatError, LimitError
from amanda_jax.formats.stablehlo.custom_calls import CustomCall
from amanda_jax.formats.stablehlo.format import portable_artifact
from amanda_jax.formats.stablehlo.isolated_parser import _PARSER
from amanda_jax.formats.stablehlo.mlir_types import context


def load(content: bytes, path):
    path.write_bytes(content)
    return amanda.load(path, "stablehlo")


def entry(body: str, type_: str = "tensor<f32>") -> str:
    return f"func.func @main() -> {type_} {{ {body}\n return %0 : {type_} }}"


def custom_call(target: str, arguments: str = "") -> str:
    return entry(
        f"%0 = stablehlo.custom_call @{target}({arguments}) {{api_version = 4 : i32,"
        " backend_config = {index = 7 : ui64}} : () -> tensor<f32>"
    )


ENDS_THE_PARSER = {
    "an invalid character": b'"stablehlo.\xff\xfe"() : () -> ()',
    "deep nesting": b"module { " * 100_000,
    "deep types": b"func.func @main(%x: " + b"tuple<" * 60_000,
    "deep dense elements": b"#a = dense<" + b"[" * 200_000,
}


@pytest.mark.parametrize("content", ENDS_THE_PARSER.values(), ids=ENDS_THE_PARSER)
def test_what_ends_the_parser_is_an_error(content, tmp_path):
    with pytest.raises(FormatError) as caught:
        load(content, tmp_path / "x.mlir")
    assert str(tmp_path / "x.mlir") in str(caught.value)
    valid = entry("%0 = stablehlo.constant dense<2.0> : tensor<f32>").encode()
    [value] = amanda.run(
        load(valid, tmp_path / "y.mlir"), [], backend="stablehlo"
    ).values()
    assert value == 2


def test_damaged_bytecode(tmp_path):
    program = jax.jit(lambda x: jax.numpy.tanh(x) @ x.T)
    content = jax.export.export(program)(np.ones((3, 4), "f")).mlir_module_serialized
    draw = random.Random(1)
    for _ in range(60):
        damaged = bytearray(content)
        for _ in range(draw.randint(1, 8)):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        try:
            load(bytes(damaged), tmp_path / "x.onnx")
        except AmandaError as error:
            assert isinstance(error, FormatError | LimitError)  # noqa: PT017


def doubling(count: int) -> str:
    functions = [
        f"func.func private @f{i}(%x: tensor<f32>) -> tensor<f32> {{"
        f" %0 = call @f{i - 1}(%x) : (tensor<f32>) -> tensor<f32>"
        f" %1 = call @f{i - 1}(%0) : (tensor<f32>) -> tensor<f32>"
        " return %1 : tensor<f32> }"
        for i in range(1, count + 1)
    ]
    return "\n".join(
        [
            "func.func @main(%x: tensor<f32>) -> tensor<f32> {"
            f" %0 = call @f{count}(%x) : (tensor<f32>) -> tensor<f32>"
            " return %0 : tensor<f32> }",
            "func.func private @f0(%x: tensor<f32>) -> tensor<f32> {"
            " %0 = stablehlo.add %x, %x : tensor<f32> return %0 : tensor<f32> }",
            *functions,
        ]
    )


@pytest.mark.parametrize("count", [30, 2000])
def test_calls_that_double(count, tmp_path):
    with pytest.raises(LimitError, match="expand to too many ops"):
        load(doubling(count).encode(), tmp_path / "x.mlir")


def test_calls_that_are_few_are_inlined(tmp_path):
    graph = load(doubling(6).encode(), tmp_path / "x.mlir")
    assert len(list(graph)) == 64
    [value] = amanda.run(graph, [np.float32(1)], backend="stablehlo").values()
    assert value == 2.0**64


def test_a_function_that_calls_itself(tmp_path):
    text = (
        "func.func @main(%x: tensor<f32>) -> tensor<f32> {"
        " %0 = call @main(%x) : (tensor<f32>) -> tensor<f32>"
        " return %0 : tensor<f32> }"
    )
    with pytest.raises(LimitError, match="calls itself"):
        load(text.encode(), tmp_path / "x.mlir")


def test_splats_take_no_memory(tmp_path):
    type_ = "tensor<1000000000x1000xf32>"
    body = f"%0 = stablehlo.constant dense<1.5> : {type_}"
    graph = load(entry(body, type_).encode(), tmp_path / "x.mlir")
    [constant] = graph
    tensor = constant.attrs["value"]
    assert tensor.stores_one_element
    assert tensor.shape == (1_000_000_000, 1000)
    amanda.save(graph, tmp_path / "y.mlir")
    assert (tmp_path / "y.mlir").stat().st_size < 1000


@pytest.mark.parametrize(
    "target", ["xla_ffi_python_cpu_callback", "xla_python_cpu_callback", "anything",
               "tpu_custom_call", "mosaic_gpu_v2", "tf.call_tf_function", "Sharding"],
)  # fmt: skip
def test_custom_calls_are_allowed_by_name(target, tmp_path):
    graph = load(custom_call(target).encode(), tmp_path / "x.mlir")
    with pytest.raises(BackendError, match=target):
        amanda.compile(graph, "stablehlo")


def test_the_allowed_custom_calls_are_those_that_jax_keeps():
    export = pytest.importorskip("jax._src.export._export")
    kept = export._CUSTOM_CALL_TARGETS_GUARANTEED_STABLE
    refused = {target for target in kept if CustomCall(target, 1, 1).refusal}
    assert refused == {"tpu_custom_call", "mosaic_gpu_v2", "tf.call_tf_function"}


def test_linear_algebra_is_allowed(tmp_path):
    matrix = np.array([[4, 1], [1, 3]], "f")
    exported = jax.export.export(jax.jit(jax.numpy.linalg.cholesky))(matrix)
    graph = load(exported.mlir_module_serialized, tmp_path / "x.stablehlo")
    [value] = amanda.run(graph, [matrix], backend="stablehlo").values()
    np.testing.assert_allclose(value, np.linalg.cholesky(matrix), rtol=1e-6)


# -- saved programs ------------------------------------------------------------------


def members(path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(path, content: dict[str, bytes], compression=zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in content.items():
            archive.writestr(name, data)


@pytest.fixture
def saved(tmp_path):
    graph = amanda.Graph("amanda/std/1")
    x = graph.parameter(amanda.parse_type("float32[50]"), name="x")
    weight = graph.constant(amanda.Tensor.of(np.arange(50, dtype="f")))
    graph.result(graph.add("add", [x, weight.output]).output, name="y")
    path = tmp_path / "program"
    amanda.compile(graph, "jax").executable.save(path)
    return path


def test_callbacks_in_saved_programs(saved):
    content = members(saved)
    type_ = "tensor<50xf32>"
    text = (
        f"func.func public @main(%w: {type_}, %x: {type_}) -> {type_} {{"
        " %0 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%w)"
        " {api_version = 4 : i32, backend_config = {index = 7 : ui64}}"
        f" : ({type_}) -> {type_} return %0 : {type_} }}"
    )
    with context():
        hostile = portable_artifact(text)
    program = jax.export.deserialize(bytearray(content["program"]))
    other = replace(program, mlir_module_serialized=hostile)
    write(saved, {**content, "program": bytes(other.serialize())})
    with pytest.raises(FormatError, match="xla_ffi_python_cpu_callback"):
        amanda_jax.load_saved_program(saved)


def changed(content: dict[str, bytes], **fields) -> dict[str, bytes]:
    about = {**json.loads(content["about.json"]), **fields}
    return {**content, "about.json": json.dumps(about).encode()}


def npy(array) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


DAMAGES = {
    "no list": lambda c: {**c, "about.json": b"[]"},
    "no text": lambda c: {**c, "about.json": b"\xff\xfe"},
    "deep": lambda c: {**c, "about.json": b"[" * 100_000},
    "weights": lambda c: changed(c, weights=7),
    "an unknown dtype": lambda c: changed(c, weights=["float33"]),
    "names": lambda c: changed(c, inputs=5),
    "names of numbers": lambda c: changed(c, inputs=[{}]),
    "more names": lambda c: changed(c, results=["y", "z"]),
    "an empty program": lambda c: {**c, "program": b""},
    "half a program": lambda c: {
        **c,
        "program": c["program"][: len(c["program"]) // 2],
    },
    "another shape": lambda c: {**c, "weights/0.npy": npy(np.ones(3, "f"))},
    "no array": lambda c: {**c, "weights/0.npy": b"\x93NUMPY\1\0\6\0{'a':"},
    "a missing weight": lambda c: {k: v for k, v in c.items() if "npy" not in k},
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_saved_programs(damage, saved):
    write(saved, DAMAGES[damage](members(saved)))
    with pytest.raises(FormatError) as caught:
        amanda_jax.load_saved_program(saved)
    assert str(saved) in str(caught.value)


def test_mutated_saved_programs(saved):
    content = saved.read_bytes()
    draw = random.Random(2)
    for _ in range(150):
        damaged = bytearray(content)
        for _ in range(draw.randint(1, 20)):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        saved.write_bytes(damaged)
        try:
            amanda_jax.load_saved_program(saved)
        except AmandaError as error:
            assert str(saved) in str(error)  # noqa: PT017


def test_compressed_and_missing_files(saved, tmp_path):
    write(saved, members(saved), zipfile.ZIP_DEFLATED)
    with pytest.raises(FormatError, match="compressed"):
        amanda_jax.load_saved_program(saved)
    for path in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(FormatError, match="cannot read"):
            amanda_jax.load_saved_program(path)


def test_trusted_programs_start_no_process(saved):
    _PARSER.close()
    x = np.ones(50, "f")
    result = amanda_jax.load_saved_program(saved, trusted=True)([x])["y"]
    np.testing.assert_array_equal(result, x + np.arange(50))
    assert _PARSER._process is None
    amanda_jax.load_saved_program(saved)
    assert _PARSER._process is not None
