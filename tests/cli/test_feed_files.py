"""Feeds from files of every kind: folders, images, text, formats of plug-ins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import amanda
from amanda.cli.inputs.feed_files import read_output_files
from amanda.cli.inputs.feeds import read_feeds
from amanda.errors import AmandaError, UsageError
from amanda.files.text.formats import YamlFormat
from amanda.graph import Graph

if TYPE_CHECKING:
    from tests.cli.conftest import Call


def feeds_of(types: dict[str, str], *feeds: object, **options: Any) -> dict[Any, Any]:
    graph = Graph("toy/any/1")
    for name, type_ in types.items():
        graph.parameter(amanda.parse_type(type_), name)
    return read_feeds(graph, [str(f) for f in feeds], None, (), **options)


class Plain:
    """A format of one array: a name, and numbers."""

    def read(self, path: Path) -> tuple[str | None, Any]:
        name, *numbers = path.read_text().split()
        return None if name == "-" else name, np.array(numbers, "float32")


@pytest.fixture
def plain(host: amanda.Host) -> None:
    host.register_array_format("plain", Plain(), manifest={"suffixes": [".plain"]})


@pytest.mark.usefixtures("plain")
def test_files_of_plugins(tmp_path: Path) -> None:
    (tmp_path / "any.plain").write_text("- 1 2")
    found = feeds_of({"x": "float32[2]"}, f"x={tmp_path}/any.plain")
    assert found["x"].tolist() == [1, 2]
    with pytest.raises(UsageError, match="no reader of arrays knows this suffix"):
        feeds_of({"x": "float32[2]"}, f"x={tmp_path}/any.other")
    with pytest.raises(AmandaError, match="there is no such file"):
        feeds_of({"x": "float32[2]"}, f"x={tmp_path}/none.plain")


@pytest.mark.usefixtures("plain")
def test_folders(tmp_path: Path) -> None:
    """By the name in the file, by the file's, or by number; outputs are left alone."""
    (tmp_path / "input_1.plain").write_text("x 1")
    (tmp_path / "input_0.plain").write_text("y 2")
    (tmp_path / "output_0.plain").write_text("z 3")
    types = {"x": "float32[1]", "y": "float32[1]"}
    found = feeds_of(types, tmp_path)
    assert (found["x"].tolist(), found["y"].tolist()) == ([1], [2])
    (tmp_path / "input_1.plain").write_text("- 1")
    (tmp_path / "input_0.plain").write_text("- 2")
    found = feeds_of(types, tmp_path)
    assert (found["x"].tolist(), found["y"].tolist()) == ([2], [1])
    named = tmp_path / "named"
    named.mkdir()
    np.save(named / "y.npy", np.float32([5]))
    np.save(named / "x.npy", np.float32([4]))
    found = feeds_of(types, named)
    assert (found["x"].tolist(), found["y"].tolist()) == ([4], [5])
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="this folder has no arrays"):
        feeds_of(types, tmp_path / "empty")


def test_arrays_without_an_element_type_have_that_of_the_input(tmp_path: Path) -> None:
    """Files of numpy have only the size of the elements that ml_dtypes declares."""
    values = np.array([1.5, -2.0]).astype(amanda.types.bfloat16.numpy)
    np.savez(tmp_path / "x.npz", x=values)
    np.save(tmp_path / "x.npy", values)
    for feed in (tmp_path / "x.npz", f"x={tmp_path}/x.npy"):
        found = feeds_of({"x": "bfloat16[2]"}, feed)["x"]
        assert (found.dtype, found.tolist()) == (values.dtype, [1.5, -2.0])
    assert feeds_of({"x": "float32[2]"}, tmp_path / "x.npz")["x"].dtype.kind == "V"
    outputs = read_output_files(
        f"{tmp_path}/x.npy", {"y": amanda.parse_type("bfloat16[2]")}
    )
    assert outputs[0].tolist() == [1.5, -2.0]


def test_sizes_of_dims_that_no_input_has_are_refused() -> None:
    graph = Graph("toy/any/1")
    graph.parameter("float32[n, 2 * m, ?]", "x")
    found = read_feeds(graph, [], 1, ["n=3", "m=2", "x:2=5"])
    assert found["x"].shape == (3, 4, 5)
    for random, feeds in ((1, []), (None, ["x=missing.npy"])):
        with pytest.raises(UsageError, match="no symbolic dim 'foo'"):
            read_feeds(graph, feeds, random, ["foo=7"])


# -- images ------------------------------------------------------------------------


@pytest.fixture
def photo(tmp_path: Path) -> tuple[Path, np.ndarray]:
    """A file of 4 x 6 pixels, and these."""
    image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(0).integers(0, 256, (4, 6, 3)).astype("uint8")
    path = tmp_path / "photo.png"
    image.fromarray(pixels).save(path)
    return path, pixels


def test_images_follow_the_type_of_the_input(photo: Any) -> None:
    path, pixels = photo
    first = feeds_of({"x": "float32[n, 3, 4, 6]"}, f"x={path}")["x"]
    assert first.dtype == np.float32
    np.testing.assert_array_equal(
        first, (pixels / 255).astype("float32").transpose(2, 0, 1)[None]
    )
    last = feeds_of({"x": "uint8[1, 4, 6, 3]"}, f"x={path}")["x"]
    np.testing.assert_array_equal(last, pixels[None])
    alone = feeds_of({"x": "uint8[3, h, w]"}, f"x={path}")["x"]
    np.testing.assert_array_equal(alone, pixels.transpose(2, 0, 1))
    batch = feeds_of({"x": "uint8[n, 3, 4, 6]"}, f"x={path},{path}")["x"]
    assert batch.shape == (2, 3, 4, 6)


def test_options_of_images(photo: Any) -> None:
    path, pixels = photo
    mean, std = np.float64([0.1, 0.2, 0.3]), np.float64([0.5, 0.25, 2])
    found = feeds_of(
        {"x": "float32[n, h, w, c]"}, f"x={path}",
        images=["layout=NHWC", "mean=0.1,0.2,0.3", "std=0.5,0.25,2", "channels=BGR"],
    )["x"]  # fmt: skip
    wanted = (pixels[..., ::-1] / 255 - mean) / std
    np.testing.assert_allclose(found[0], wanted, rtol=1e-6)
    sized = feeds_of({"x": "float32[n, 3, h, w]"}, f"x={path}", images=["size=8x10"])
    assert sized["x"].shape == (1, 3, 8, 10)
    grey = feeds_of({"x": "float32[1, 1, 2, 2]"}, f"x={path}", images=["scale=1"])
    assert grey["x"].shape == (1, 1, 2, 2)
    luminance = pixels @ np.array([0.299, 0.587, 0.114])
    assert abs(grey["x"].mean() - luminance.mean()) < 8


@pytest.mark.parametrize(
    ("type", "images", "why"),
    [
        ("float32[n, a, b, c]", [], "does not tell which axis"),
        ("float32[4]", [], "is no image"),
        ("float32[n, 3, h, w]", ["mean=1,2"], "mean has no number for each channel"),
        ("float32[n, 3, h, w]", ["size=wide"], "size is no number"),
        ("float32[n, 3, h, w]", ["layout=CHWN"], "layout is unknown"),
        ("float32[n, 3, h, w]", ["colour=red"], "each name once"),
    ],
)
def test_images_that_cannot_be_fed(
    photo: Any, type: str, images: list[str], why: str
) -> None:
    with pytest.raises(UsageError, match=why):
        feeds_of({"x": type}, f"x={photo[0]}", images=images)


def test_files_that_are_no_images(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    (tmp_path / "x.png").write_bytes(b"no image")
    with pytest.raises(AmandaError, match="this image cannot be read"):
        feeds_of({"x": "float32[1, 3, 4, 4]"}, f"x={tmp_path}/x.png")


# -- text --------------------------------------------------------------------------


@pytest.fixture
def tokenizer(tmp_path: Path) -> str:
    """Words by number: [PAD] 0, [UNK] 1, a 2, b 3, c 4."""
    pytest.importorskip("tokenizers")
    vocabulary = {"[PAD]": 0, "[UNK]": 1, "a": 2, "b": 3, "c": 4}
    model = {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"}
    file = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
        "normalizer": None, "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": None, "decoder": None, "model": model,
    }  # fmt: skip
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(file))
    return str(path)


def test_text_is_fed_by_the_names_of_inputs(tokenizer: str, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("c b d")
    types = dict.fromkeys(
        ("input_ids", "attention_mask", "token_type_ids", "position_ids"), "int32[n, s]"
    )
    found = feeds_of(types, texts=["a b", f"@{tmp_path}/text.txt"], tokenizer=tokenizer)
    assert found["input_ids"].tolist() == [[2, 3, 0], [4, 3, 1]]
    assert found["attention_mask"].tolist() == [[1, 1, 0], [1, 1, 1]]
    assert found["token_type_ids"].tolist() == [[0, 0, 0], [0, 0, 0]]
    assert found["position_ids"].tolist() == [[0, 1, 2], [0, 1, 2]]
    assert found["input_ids"].dtype == np.int32


def test_text_has_the_length_of_the_input(tokenizer: str) -> None:
    found = feeds_of({"tokens": "int64[2, 2]"}, texts=["a", "a b c"],
                     tokenizer=tokenizer)  # fmt: skip
    assert found["tokens"].tolist() == [[2, 0], [2, 3]]


def test_what_text_needs(tokenizer: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="given together"):
        feeds_of({"input_ids": "int64[n, s]"}, texts=["a"])
    with pytest.raises(UsageError, match="no input for token ids"):
        feeds_of({"x": "float32[n]"}, texts=["a"], tokenizer=tokenizer)
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(AmandaError, match="this is no tokenizer file"):
        feeds_of({"input_ids": "int64[n, s]"}, texts=["a"],
                 tokenizer=f"{tmp_path}/bad.json")  # fmt: skip


@pytest.mark.parametrize(
    ("module", "given", "install"),
    [
        ("PIL", {"feed": "x=photo.png"}, "pip install pillow"),
        ("tokenizers", {"text": "a", "tokenizer": "t.json"}, "pip install tokenizers"),
    ],
)
def test_what_is_not_installed(
    call: Call, host: amanda.Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    module: str, given: dict[str, str], install: str,
) -> None:  # fmt: skip
    """The exit code is that of a missing plug-in, and the message says what to do."""
    host.register_format("yaml", YamlFormat(), manifest={"suffixes": [".yaml"]})
    monkeypatch.setitem(__import__("sys").modules, module, None)
    graph = Graph("toy/any/1")
    name = "x" if module == "PIL" else "input_ids"
    x = graph.parameter(amanda.parse_type("float32[1, 3, 4, 4]"), name)
    graph.result(x, "y")
    amanda.save(graph, tmp_path / "m.yaml")
    options = [part for key, value in given.items() for part in (f"--{key}", value)]
    ended = call("run", tmp_path / "m.yaml", *options)
    assert ended.code == 3
    assert install in ended.err
