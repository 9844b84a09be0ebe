"""`amanda compare` between files of different formats, and against stored outputs.

The results that are wanted are computed by numpy here, or are those of the ONNX
specification.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pytest
from routes.verbs.verb_goldens import call, host_in_calls

import amanda
from amanda_std import ops

for _plugin in ("amanda_onnx", "amanda_tf", "amanda_torch"):
    pytest.importorskip(_plugin, reason=f"{_plugin} is not installed")

X = np.random.default_rng(4).normal(size=(5, 3)).astype("float32")
ROWS = np.int64([4, 1])
WEIGHT = np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4)


class Form(NamedTuple):
    """A file format, and the framework whose ops its files have."""

    pattern: str
    namespace: str
    format: str | None = None
    names: tuple[str, str] = ("chances", "best")
    """What it calls the outputs."""


FORMS: Final = {
    "ONNX": Form("{}.onnx", "onnx@18"),
    "SavedModel": Form("{}_saved", "tensorflow", "tensorflow"),
    "GraphDef": Form("{}.pb", "tensorflow@1.15.5"),
    "pt2": Form("{}.pt2", "torch", None, ("softmax", "argmax")),
    "text": Form("{}.amtxt", "std"),
    "yaml": Form("{}.yaml", "onnx@18"),
    "amanda": Form("{}.amanda", "std"),
}
PAIRS: Final = list(zip(FORMS, [*list(FORMS)[1:], "ONNX"], strict=True))


def network(weight: Any, outputs: tuple[str, ...] = ("chances", "best")) -> Any:
    """The softmax of some rows times a weight, and which column is the largest.

    Outputs are in the order given; a name before `=` is that of the output.
    """
    graph = amanda.Graph("amanda/std/1", "network")
    x, rows = graph.parameter("float32[5, 3]", "x"), graph.parameter("int64[2]", "rows")
    chances = ops.softmax(ops.matmul(ops.gather(x, rows, axis=0), weight), axes=(1,))
    values = {"chances": chances, "best": ops.argmax(chances, axis=1)}
    for each in outputs:
        graph.result(values[each.partition("=")[2] or each], each.partition("=")[0])
    return graph


def results(weight: Any) -> dict[str, Any]:
    """What the network computes, by numpy."""
    power = np.exp(X[ROWS].astype("float64") @ weight.astype("float64"))
    chances = power / power.sum(1, keepdims=True)
    return {"chances": chances.astype("float32"), "best": chances.argmax(1)}


CHANGED = WEIGHT.copy()
CHANGED[1, 2] += 0.5


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The network, and one with a changed weight, in every format, with outputs."""
    made = tmp_path_factory.mktemp("formats")
    for stem, weight in (("right", WEIGHT), ("wrong", CHANGED)):
        graph = network(weight)
        for form in FORMS.values():
            converted = amanda.convert(graph, form.namespace)
            amanda.save(converted, made / form.pattern.format(stem), form.format)
        np.savez(made / f"{stem}.npz", **results(weight))
    np.savez(made / "feeds.npz", x=X, rows=ROWS)
    return made


@pytest.fixture(autouse=True)
def in_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(folder)
    with host_in_calls():
        yield


def compare(*arguments: object) -> tuple[int, Any]:
    """The exit code and the JSON of a comparison on numpy."""
    line = " ".join(map(str, arguments))
    ended = call(f"amanda compare {line} --feed feeds.npz --json")
    return ended.code, json.loads(ended.out)


def rows_of(answer: Any) -> dict[str, Any]:
    """What is compared, by the name of what is wanted."""
    return {row["wanted"]: row for row in answer["results"]}


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_two_formats_agree(a: str, b: str) -> None:
    files = [FORMS[each].pattern.format("right") for each in (a, b)]
    code, answer = compare(*files, "--backend numpy")
    assert code == 0
    rows = rows_of(answer)
    assert {name: row["result"] for name, row in rows.items()} == dict(
        zip(FORMS[a].names, FORMS[b].names, strict=True)
    )
    assert all(row["equal"] for row in rows.values())
    assert [rows[name]["elements"] for name in FORMS[a].names] == [8, 2]


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_two_formats_disagree(a: str, b: str) -> None:
    files = FORMS[a].pattern.format("right"), FORMS[b].pattern.format("wrong")
    code, answer = compare(*files, "--backend numpy")
    assert code == 5
    chances, best = (rows_of(answer)[name] for name in FORMS[a].names)
    right, wrong = results(WEIGHT), results(CHANGED)
    apart = np.abs(wrong["chances"] - right["chances"])
    assert chances["equal"] is False
    assert chances["largest"] == pytest.approx(apart.max(), rel=1e-4)
    assert chances["unequal"] == 8
    assert best["equal"] is bool((right["best"] == wrong["best"]).all())


@pytest.mark.parametrize("form", FORMS)
def test_stored_outputs(form: str) -> None:
    file = FORMS[form].pattern.format("right")
    code, answer = compare(file, "--backend numpy --expected right.npz")
    assert (code, answer["compared_with"]) == (0, "the outputs in right.npz")
    rows = rows_of(answer)
    assert tuple(rows[name]["result"] for name in ("chances", "best")) == (
        FORMS[form].names
    )
    assert all(row["equal"] for row in rows.values())
    code, answer = compare(file, "--backend numpy --expected wrong.npz")
    assert code == 5
    assert rows_of(answer)["chances"]["equal"] is False


def test_backends_against_stored_outputs() -> None:
    for name in ("jax", "onnxruntime"):
        pytest.importorskip(name)
        pytest.importorskip(f"amanda_{name}")
    backends = ("numpy", "jax", "onnxruntime")
    options = " ".join(f"--backend {each}" for each in backends)
    for stem, code in (("right", 0), ("wrong", 5)):
        ended, answer = compare(f"right_saved {options} --expected {stem}.npz")
        assert ended == code
        assert [row["backend"] for row in answer["results"]] == [
            each for each in backends for _ in range(2)
        ]


def test_what_is_printed_of_a_difference() -> None:
    line = "amanda compare right.onnx wrong.pt2 --backend numpy --feed feeds.npz"
    ended = call(line)
    right, wrong = (results(each)["chances"] for each in (WEIGHT, CHANGED))
    assert ended.code == 5
    assert ended.out.splitlines()[0] == "compared with right.onnx"
    first, second = ended.out.splitlines()[-2:]
    assert first.startswith("wrong.pt2, softmax: 8 of 8 elements differ, at [")
    assert f"max abs {np.abs(right - wrong).max():.3g}, max rel" in first
    assert second == (
        "wrong.pt2, argmax: 1 of 2 elements differ, at [0] 2, not 0; max abs 2, "
        "max rel 0"
    )


# -- which outputs correspond --------------------------------------------------------


def save(graph: Any, name: str) -> str:
    """Write a graph as ONNX, and return the name of the file."""
    amanda.save(amanda.convert(graph, "onnx@18"), Path(name))
    return name


@pytest.mark.parametrize(
    ("outputs", "wanted"),
    [
        (("best", "chances"), ["chances", "best"]),
        (("p=chances", "q=best"), ["p", "q"]),
        (("q=best", "p=chances"), ["p", "q"]),
        (("more=chances", "best", "chances"), ["chances", "best"]),
    ],
    ids=["by name", "in order", "by type", "more outputs"],
)
def test_outputs_correspond(outputs: tuple[str, ...], wanted: list[str]) -> None:
    for weight, code in ((WEIGHT, 0), (CHANGED, 5)):
        other = save(network(weight, outputs), f"other-{code}.onnx")
        ended, answer = compare("right.pb", other, "--backend numpy")
        assert ended == code
        assert [row["result"] for row in answer["results"]] == wanted
        assert [row["wanted"] for row in answer["results"]] == ["chances", "best"]


def test_an_exchange_of_named_outputs_is_a_difference() -> None:
    """Names decide, not types: then the types differ."""
    other = save(network(WEIGHT, ("best=chances", "chances=best")), "exchanged.onnx")
    code, answer = compare("right.pb", other, "--backend numpy")
    assert code == 5
    assert [row["why"] for row in answer["results"]] == [
        "int64[2], not float32[2, 4]",
        "float32[2, 4], not int64[2]",
    ]


def test_another_shape_is_a_difference() -> None:
    wide = np.concatenate([WEIGHT, WEIGHT[:, :1] - 3], axis=1)
    other = save(network(wide), "wide.onnx")
    code, answer = compare("right.pb", other, "--backend numpy")
    assert code == 5
    assert answer["results"][0]["why"] == "float32[2, 5], not float32[2, 4]"
    same = (results(wide)["best"] == results(WEIGHT)["best"]).all()
    assert answer["results"][1]["equal"] is bool(same)
    strange = save(network(wide, ("p=chances", "best")), "strange.onnx")
    ended = call(f"amanda compare right.pb {strange} --backend numpy --feed feeds.npz")
    assert ended.code == 2
    assert "the outputs of the models do not correspond by name, order" in ended.err
    assert "expected: chances: float32[2, 4], best: int64[2]" in ended.err
    assert "got:      p: float32[2, 5], best: int64[2]" in ended.err


def test_a_tolerance_is_of_floats_alone() -> None:
    """Integers must be equal whatever is given."""
    far = results(CHANGED)["chances"], results(WEIGHT)["best"] + 1
    np.savez("far.npz", chances=far[0], best=far[1])
    given = "right.pt2 --backend numpy --expected far.npz --atol 1 --rtol 1"
    code, answer = compare(given)
    assert code == 5
    assert [row["equal"] for row in answer["results"]] == [True, False]


# -- stored outputs of other kinds ---------------------------------------------------


def test_stored_outputs_correspond_by_name_order_and_type() -> None:
    right = results(WEIGHT)
    stored = {
        "names": right,
        "exchanged": {"best": right["best"], "chances": right["chances"]},
        "order": {"p": right["chances"], "q": right["best"]},
        "types": {"q": right["best"], "p": right["chances"]},
        "some": {"best": right["best"]},
    }
    for name, arrays in stored.items():
        np.savez(f"{name}.npz", **arrays)
        code, answer = compare(f"right_saved --backend numpy --expected {name}.npz")
        assert code == 0, name
        assert len(answer["results"]) == len(arrays)
        assert [row["elements"] for row in answer["results"]] == [
            each.size for each in arrays.values()
        ]


def test_stored_outputs_of_an_element_type_that_the_model_does_not_give() -> None:
    right = results(WEIGHT)
    np.savez("double.npz", **{**right, "chances": right["chances"].astype("float64")})
    code, answer = compare("right.onnx --backend numpy --expected double.npz")
    assert code == 5
    assert answer["results"][0]["why"] == "float32[2, 4], not float64[2, 4]"


def test_outputs_that_the_model_has_not() -> None:
    right = results(WEIGHT)
    np.savez("three.npz", **right, more=right["best"])
    line = "amanda compare right.onnx --backend numpy --expected three.npz"
    ended = call(f"{line} --feed feeds.npz")
    assert ended.code == 2
    assert "got:      chances: float32[2, 4], best: int64[2]" in ended.err


def test_a_folder_of_stored_outputs() -> None:
    right = results(WEIGHT)
    folders = {"by_name": ("chances", "best"), "by_number": ("output_0", "output_1")}
    for folder, names in folders.items():
        Path(folder).mkdir()
        for name, array in zip(names, right.values(), strict=True):
            np.save(Path(folder, f"{name}.npy"), array)
        code, answer = compare(f"right.pt2 --backend numpy --expected {folder}")
        assert code == 0, folder
        assert len(answer["results"]) == 2


CASES = (
    *("test_softmax_axis_1", "test_gather_elements_1", "test_and3d"),
    "test_layer_normalization_2d_axis1",  # which has three outputs
)


@pytest.mark.filterwarnings("ignore")  # by onnx, when it makes the cases
@pytest.mark.parametrize("name", CASES)
def test_cases_of_the_onnx_specification(name: str, tmp_path: Path) -> None:
    """Their outputs are those of the specification, for files of other formats too."""
    onnx = pytest.importorskip("onnx")
    from onnx.backend.test.case.node import collect_testcases

    (case,) = [each for each in collect_testcases(None) if each.name == name]
    data = tmp_path / "data"
    data.mkdir()
    for prefix, arrays, ports in zip(
        ("input", "output"),
        case.data_sets[0],
        (case.model.graph.input, case.model.graph.output),
        strict=True,
    ):
        for i, (array, port) in enumerate(zip(arrays, ports, strict=True)):
            tensor = onnx.numpy_helper.from_array(np.asarray(array), port.name)
            (data / f"{prefix}_{i}.pb").write_bytes(tensor.SerializeToString())
    file = tmp_path / "model.onnx"
    onnx.save(case.model, file)
    files = [file]
    for form in ("SavedModel", "pt2", "text"):
        pattern, namespace, kind, _ = FORMS[form]
        made = tmp_path / pattern.format("model")
        amanda.save(amanda.convert(amanda.load(file), namespace), made, kind)
        files.append(made)
    count = len(case.model.graph.output)
    for each in files:
        line = f"amanda compare {each} --backend numpy --feed {data} --expected {data}"
        ended = call(f"{line} --json")
        assert ended.code == 0, (each, ended.err)
        assert len(json.loads(ended.out)["results"]) == count
    wanted = np.asarray(case.data_sets[0][1][0])
    wrong = ~wanted if wanted.dtype == bool else wanted + wanted.dtype.type(1)
    tensor = onnx.numpy_helper.from_array(wrong, case.model.graph.output[0].name)
    (data / "output_0.pb").write_bytes(tensor.SerializeToString())
    for each in files:
        line = f"amanda compare {each} --backend numpy --feed {data} --expected {data}"
        assert call(line).code == 5
