"""Bad files: an error that names the place, in little time and memory."""

from __future__ import annotations

import os
import random
import time
import tracemalloc

import onnx
import pytest
from onnx import helper

import amanda
from amanda.errors import AmandaError, FormatError, InternalError, LimitError
from amanda_onnx.format import Format

CODEC = Format()
ROUNDS = int(os.environ.get("AMANDA_FUZZ_ROUNDS", "500"))
SECONDS, TIMES = 5.0, 400  # for one file, and what it may take of its own size
info = helper.make_tensor_value_info


def model(nodes, weights=(), inputs=("x",), outputs=("y",)):
    ends = [[info(name, 1, [2]) for name in side] for side in (inputs, outputs)]
    return helper.make_model(helper.make_graph(nodes, "g", *ends, weights))


def node(kind, inputs, outputs, **attrs):
    return helper.make_node(kind, inputs.split(), outputs.split(), **attrs)


def assert_refused(proto, *words, **options):
    raw = proto if isinstance(proto, bytes) else proto.SerializeToString()
    with pytest.raises(FormatError) as caught:
        CODEC.read(raw, **options)
    for word in words:
        assert word in str(caught.value), str(caught.value)


def tensor(**fields):
    return onnx.TensorProto(name="w", **fields)


def test_a_value_that_nothing_makes():
    assert_refused(
        model([node("Relu", "gone", "y", name="a")]), "'a'", "'gone'", "input 0"
    )
    assert_refused(model([node("Relu", "x", "z")]), "an output", "'y'", "byte")


@pytest.mark.parametrize("way", ["read", "write"])
def test_no_error_is_its_own_cause(way, tmp_path):
    """Whoever walks the causes comes to an end, and the file is named once."""
    path = tmp_path / "model.onnx"
    with pytest.raises(FormatError) as caught:
        if way == "read":
            path.write_bytes(b"nothing")
            CODEC.read(path)
        else:
            graph = amanda.Graph("amanda/onnx/18")
            graph.control(*(graph.add("A", name=name) for name in "ab"))
            CODEC.write(graph, path)
    seen, error = [], caught.value
    while error is not None:
        assert error not in seen
        seen.append(error)
        error = error.__cause__
    assert caught.value.who.count(str(path)) == 1


def test_values_of_one_name():
    assert_refused(
        model([node("Relu", "x", "y", name="a"), node("Relu", "x", "y")]), "'y'"
    )
    assert_refused(model([node("Relu", "x", "x"), node("Relu", "x", "y")]), "'x'")
    twice = [helper.make_tensor("w", 1, [1], [1.0])] * 2
    assert_refused(model([node("Relu", "x", "y")], twice), "'w'")
    assert_refused(model([node("Relu", "x", "y")], inputs=("x", "x")), "two inputs")


def test_cycles():
    assert_refused(
        model([node("Add", "x b", "a", name="p"), node("Relu", "a", "b", name="q"),
               node("Relu", "a", "y")]),
        "'p'", "'q'",
    )  # fmt: skip
    own = helper.make_graph([node("Relu", "y", "z")], "b", [], [info("z", 1, None)])
    assert_refused(model([node("If", "x", "y", name="i", then_branch=own)]), "'i'")


@pytest.mark.parametrize(
    "weight",
    [
        tensor(data_type=1, dims=[10**15], raw_data=b"1234"),
        tensor(data_type=1, dims=[10**9, 10**9, 10**9], float_data=[1.0]),
        tensor(data_type=7, dims=[10**15], int64_data=[1]),
        tensor(data_type=1, dims=[-2], raw_data=bytes(8)),
        tensor(data_type=1, dims=[-2, -2], raw_data=bytes(16)),
        tensor(data_type=1, dims=[2**62, 4], raw_data=b""),
        tensor(data_type=8, dims=[10**12], string_data=[b"a"]),
        tensor(data_type=1, dims=[2], raw_data=bytes(7)),
        tensor(data_type=99, dims=[2], raw_data=bytes(8)),
        tensor(data_type=1, dims=[1] * 200, raw_data=bytes(4)),
        tensor(data_type=1, dims=[1], raw_data=bytes(4), float_data=[1.0]),
        tensor(data_type=1, dims=[1], int64_data=[1]),
    ],
    ids=str,
)
def test_tensors_that_cannot_be(weight):
    assert_refused(model([node("Relu", "x", "y")], [weight]), "tensor 'w'", "byte")


def test_absurd_dims_of_values_are_only_words():
    proto = model([node("Relu", "x", "y")])
    proto.graph.input[0].CopyFrom(info("x", 1, [10**15, 10**15]))
    assert "1000000000000000" in str(CODEC.read(proto).parameters[0].type)


def test_attributes_of_the_wrong_kind():
    for fields in (
        {"type": 2, "f": 1.0},
        {"type": 1, "i": 1},
        {"type": 4},
        {"type": 5},
        {"i": 1, "f": 1.0},
        {},
    ):
        proto = model([node("Relu", "x", "y", name="a")])
        proto.graph.node[0].attribute.add(name="alpha", **fields)
        assert_refused(proto, "'alpha'", "byte")
    attribute = _field(1, b"alpha") + b"\xa0\x01\x4d"  # of kind 77
    inner = _field(4, b"Relu") + _field(5, attribute)
    assert_refused(_field(7, _field(1, inner)), "'alpha'", "does not define", "77")
    twice = model([node("LeakyRelu", "x", "y", name="a", alpha=0.1)])
    twice.graph.node[0].attribute.add(name="alpha", f=1.0, type=1)
    assert_refused(twice, "two attributes 'alpha'", "'a'")


def test_models_without_what_a_model_has():
    assert_refused(b"\x08\x07", "no graph")
    assert_refused(onnx.ModelProto(ir_version=8), "no graph")
    nameless = model([node("Relu", "x", "y")])
    nameless.graph.node[0].op_type = ""
    assert_refused(nameless, "without an op type")
    versions = model([node("Relu", "x", "y")])
    versions.opset_import.add(domain="", version=3)
    assert_refused(versions, "two versions")
    for version in (0, -1, 2**40):
        versions = model([node("Relu", "x", "y")])
        versions.opset_import[0].version = version
        assert_refused(versions, "an invalid version")


def test_graphs_in_graphs_without_end():
    inner = node("Relu", "x", "y").SerializeToString()
    for _ in range(3000):
        graph = _field(1, inner) + _field(2, b"g")
        branch = _field(1, b"body") + _field(6, graph) + b"\xa0\x01\x05"
        inner = _field(4, b"If") + _field(5, branch)
    assert_refused(_field(7, _field(1, inner)), "nested too deeply")


def test_types_in_types_without_end():
    inner = b""
    for _ in range(3000):
        inner = _field(4, _field(1, inner))
    value = _field(1, b"x") + _field(2, inner)
    assert_refused(_field(7, _field(11, value)), "nested too deeply")


def _field(number, payload):
    from amanda.formatkit.wire import encode_field

    return encode_field(number, payload)


def test_many_outputs_cost_what_they_are():
    """As many as somebody likes, of one value: an input that is passed on."""
    value = _field(12, _field(1, b"x"))
    graph = _field(11, _field(1, b"x")) + value * 50_000
    begin = time.process_time()
    made = CODEC.read(_field(7, graph))
    assert len(made.results) == 50_000
    assert time.process_time() - begin < SECONDS


# -- files beside ----------------------------------------------------------------


def beside(folder, location, **more):
    """A model with its weights elsewhere, as a file."""
    weight = tensor(data_type=1, dims=[4], data_location=1)
    for key, value in {"location": location, **more}.items():
        weight.external_data.add(key=key, value=value)
    path = folder / "model.onnx"
    path.write_bytes(model([node("Add", "x w", "y")], [weight]).SerializeToString())
    return path


def test_files_outside_the_folder(tmp_path):
    folder = tmp_path / "inside"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(bytes(16))
    (folder / "secret").symlink_to(tmp_path / "secret")
    (folder / "deeper").symlink_to(tmp_path)
    for location, words in {
        "../secret": "outside",
        "sub/../../secret": "outside",
        "..\\secret": "outside",
        str(tmp_path / "secret"): "absolute",
        "C:\\secret": "absolute",
        "\\\\host\\secret": "absolute",
        "/dev/zero": "absolute",
        "secret": "link",
        "deeper/secret": "link",
        "": "no proper name",
        "a\0b": "no proper name",
        ".": "no proper name",
        "missing": "is missing",
    }.items():
        with pytest.raises(FormatError, match=words) as caught:
            amanda.load(beside(folder, location))
        assert "model.onnx" in str(caught.value)


def test_links_that_stay_inside(tmp_path):
    (tmp_path / "data").write_bytes(bytes(16))
    (tmp_path / "link").symlink_to(tmp_path / "data")
    assert amanda.load(beside(tmp_path, "link")).ops[0].attrs["value"].nbytes == 16


@pytest.mark.parametrize(
    "more",
    [
        {"offset": "8"},
        {"offset": "-4"},
        {"offset": "99999999999999999999999"},
        {"offset": "9223372036854775807"},
        {"length": "-1"},
        {"length": "8"},
        {"offset": "1e3"},
    ],
    ids=str,
)
def test_places_outside_the_file(more, tmp_path):
    (tmp_path / "data").write_bytes(bytes(16))
    with pytest.raises(FormatError):
        amanda.load(beside(tmp_path, "data", **more))


def test_objects_have_no_folder(tmp_path):
    (tmp_path / "data").write_bytes(bytes(16))
    proto = onnx.load(beside(tmp_path, "data"), load_external_data=False)
    with pytest.raises(FormatError, match="folder="):
        amanda.load(proto)
    assert len(amanda.load(proto, folder=tmp_path)) == 2


# -- damage ----------------------------------------------------------------------


def damaged(raw, chance):
    """The bytes with a few changes of the kinds that happen, or that somebody makes."""
    data = bytearray(raw)
    for _ in range(chance.randrange(1, 4)):
        place = chance.randrange(len(data))
        match chance.randrange(6):
            case 0:
                data[place] ^= 1 << chance.randrange(8)
            case 1:
                del data[place:]
            case 2:
                data[place : place + chance.randrange(1, 9)] = b""
            case 3:
                data[place:place] = chance.randbytes(chance.randrange(1, 9))
            case 4:
                data[place : place + 9] = b"\xff" * 9  # a length of 2^63
            case 5:
                other = chance.randrange(len(data))
                data[place:place] = data[other : other + chance.randrange(1, 64)]
        data = data or bytearray(b"\x00")
    return bytes(data)


@pytest.mark.fuzz
def test_damage_is_refused_or_read(models):
    chance = random.Random(0)
    small = [raw for raw in models.values() if len(raw) < 20_000]
    read = 0
    for _ in range(ROUNDS):
        raw = damaged(chance.choice(small), chance)
        begin = time.process_time()
        tracemalloc.start()
        try:
            graph = CODEC.read(raw)
            assert graph.check() == []
            read += 1
            CODEC.read(CODEC.dumps(graph))
        except InternalError:
            raise
        except AmandaError:
            pass
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert time.process_time() - begin < SECONDS
        assert peak < (1 << 22) + TIMES * len(raw)
    assert 0 < read < ROUNDS


HEADER = '<ir_version: 8, opset_import: ["" : 18]>\n'


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("g (" + "seq(" * 5000 + "float[1]" + ")" * 5000 + " x) => (float[1] y)"
         " { y = Relu(x) }", LimitError),
        ("g (float[1] x, bool c) => (float[1] y) { y = If (c) <then_branch = b () => "
         "(float z) { " * 300 + "z = Relu(x) " + "}>" * 300 + " }", LimitError),
        ("g (float[99999999999999999999] x) => (float[1] y) { y = Relu(x) }",
         FormatError),
    ],
    ids=["types", "graphs", "number"],
)  # fmt: skip
def test_text_that_the_parser_of_onnx_cannot_stand(text, kind, tmp_path):
    """It is recursive, and raises IndexError for numbers that are out of range."""
    pytest.importorskip("onnx")
    path = tmp_path / "model.onnxtxt"
    path.write_text(HEADER + text)
    with pytest.raises(kind):
        amanda.load(path)
