"""What every installed verb prints: its help, the examples in it, JSON, exit codes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from routes.verbs import verb_goldens
from routes.verbs.verb_goldens import Example, call

import amanda

ROOT = verb_goldens.ROOT
VERBS = verb_goldens.verbs()
SCHEMAS = {
    file.name: json.loads(file.read_text(encoding="utf-8"))
    for file in sorted((ROOT / "docs" / "schemas").glob("*.json"))
}
COMMON = {"common.json", "error.json"}
EXAMPLES = [
    (name, Example.parse(line))
    for name, verb in VERBS.items()
    for line in verb.examples
]
MODEL = "digits.onnx"


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The examples, without the settings of the environment that others have made."""
    for name in (name for name in [*os.environ] if name.startswith("AMANDA_")):
        monkeypatch.delenv(name)
    with verb_goldens.example_folder() as made:
        yield made


# -- schemas -------------------------------------------------------------------------


def strict(schema: Any) -> Any:
    """A schema that allows no other keys than those that it names."""
    made = deepcopy(schema)
    _close(made)
    return made


def _close(node: Any, is_part: bool = False) -> None:
    """Close objects, but not those that add to the properties around them."""
    if isinstance(node, list):
        for each in node:
            _close(each, is_part)
    elif isinstance(node, dict):
        if "properties" in node and not is_part:
            node.setdefault("unevaluatedProperties", False)
        for key, value in node.items():
            if key == "properties":
                _close(list(value.values()))
            elif key in ("anyOf", "oneOf", "allOf"):
                _close(value, "properties" in node or is_part)
            elif key == "$defs":
                _close([each for name, each in value.items() if name != "head"])
            elif key in ("items", "additionalProperties", "prefixItems"):
                _close(value)


def _open_definitions(schema: Any) -> Any:
    """Definitions that other schemas add to stay open where they are referred to."""
    made = strict(schema)
    for name in ("head", "op_row"):
        made.get("$defs", {}).get(name, {}).pop("unevaluatedProperties", None)
    return made


REGISTRY: Registry[Any] = Registry().with_resources(
    (name, Resource.from_contents(_open_definitions(schema)))
    for name, schema in SCHEMAS.items()
)


def faults(answer: Any, schema: str) -> list[str]:
    """How an answer differs from a schema; keys that it does not name are faults."""
    validator = Draft202012Validator(strict(SCHEMAS[schema]), registry=REGISTRY)
    return [f"{e.json_path}: {e.message}" for e in validator.iter_errors(answer)]


def schema_of(name: str) -> str:
    return f"{name.replace(' ', '-')}.json"


def test_every_verb_has_a_schema() -> None:
    assert {schema_of(name) for name in VERBS} == SCHEMAS.keys() - COMMON


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas_are_valid(name: str) -> None:
    Draft202012Validator.check_schema(SCHEMAS[name])
    assert SCHEMAS[name]["$id"] == name


def test_a_schema_finds_faults() -> None:
    answer = json.loads(call(f"amanda info {MODEL} --json").out)
    assert faults(answer, "info.json") == []
    assert faults({**answer, "graphs": "1"}, "info.json") == [
        "$.graphs: '1' is not of type 'integer'"
    ]
    assert "'colour' was unexpected" in faults({**answer, "colour": 1}, "info.json")[0]
    wrong = {**answer, "weights": {"count": 8}}
    assert faults(wrong, "info.json") == ["$.weights: 'bytes' is a required property"]


# -- examples ------------------------------------------------------------------------


@pytest.mark.parametrize("name", VERBS)
def test_help_has_examples(name: str) -> None:
    ended = call(f"amanda {name} --help")
    assert ended.code == 0
    _, block = ended.out.split("\nExamples:\n")
    lines = block.splitlines()
    assert lines
    assert all(line.startswith(f"  amanda {name}") for line in lines)


RUN = [(name, each) for name, each in EXAMPLES if name not in verb_goldens.NOT_RUN]


@pytest.mark.parametrize(("name", "example"), RUN, ids=[e.command for _, e in RUN])
def test_examples_run_and_answer_by_their_schema(name: str, example: Example) -> None:
    ended = call(f"{example.command} --json")
    assert ended.code == example.exit_code, ended
    answer = json.loads(ended.out)
    assert faults(answer, schema_of(name)) == []
    assert (answer["verb"], answer["exit_code"]) == (name, example.exit_code)


GOLDEN = [name for name in VERBS if verb_goldens.has_golden(name)]


@pytest.mark.parametrize("name", GOLDEN)
def test_what_examples_print(name: str) -> None:
    """`python tests/routes/verbs/verb_goldens.py` writes the files."""
    expected = verb_goldens.golden_file(name).read_text(encoding="utf-8")
    assert verb_goldens.transcript(name, VERBS[name]) == expected


def test_no_golden_is_left_over() -> None:
    files = set(verb_goldens.GOLDENS.glob("*"))
    assert files == {verb_goldens.golden_file(name) for name in GOLDEN}


def write_models(folder: Path) -> None:
    """What is wrong in different ways, beside the digits."""
    digits = amanda.load(folder / MODEL)
    for op in [op for op in digits if op.type == "Softmax"]:
        digits.replace(op, digits.add("Sigmoid", op.inputs).outputs)
    amanda.save(digits, folder / "other.onnx")
    graph = amanda.Graph("amanda/onnx/20")
    text = graph.parameter(amanda.parse_type("string[2]"), name="text")
    joined = graph.add("StringConcat", [text, text], name="join")
    graph.result(joined.output, "joined")
    amanda.save(graph, folder / "strings.onnx")
    odd = graph.add("Odd", [joined.output], name="odd")
    graph.result(odd.output, "odd")
    amanda.save(graph, folder / "odd.yaml")
    np.savez(folder / "wrong.npz", chances=np.zeros((1, 10), np.float32))
    np.savez(folder / "text.npz", text=np.array(["a", "b"]))


# -- other forms of answers ----------------------------------------------------------

FORMS = [
    "amanda bench digits.onnx --random 1 --backend numpy --rounds 3 --plot a.svg",
    "amanda check digits.onnx --for onnxruntime --full",
    "amanda compare digits.onnx --backend numpy --random 1 --expected wrong.npz",
    "amanda convert digits.onnx traced.onnx --to onnx@13 --trace",
    "amanda coverage",
    "amanda coverage --write pages",
    "amanda ops",
    "amanda ops onnx@18 Relu",
    "amanda ops onnx@18 Upsample",
    "amanda ops onnx@18 --search pool",
    "amanda ops std matmul --backend numpy",
    "amanda ops std --missing",
    "amanda rules onnx-std --show nn.rules:15",
    "amanda rules onnx-std --to yaml",
    "amanda run digits.onnx --backend numpy --random 1 --save out.npz",
    "amanda run digits.onnx --backend numpy --random 1 --repeat 2 --trace trace.json",
    "amanda run strings.onnx --backend jax --fallback numpy --feed text.npz",
    "amanda view strings.onnx --backend jax --fallback numpy --svg a.svg",
    "amanda view digits.onnx --against other.onnx --model-explorer a.json",
]


def verb_of(command: str) -> str:
    """The verb of a command line."""
    words = command.split()[1:]
    return max(name for name in VERBS if words[: len(name.split())] == name.split())


@pytest.mark.parametrize("command", FORMS)
def test_other_answers_follow_their_schema(command: str, folder: Path) -> None:
    write_models(folder)
    ended = call(f"{command} --json")
    assert ended.code in (0, 1, 5), ended
    assert faults(json.loads(ended.out), schema_of(verb_of(command))) == []


def test_backends_that_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMANDA_PLUGINS", "amanda-std")  # no framework is imported
    with verb_goldens.host_in_calls():
        answer = json.loads(call("amanda backends --load --json").out)
    assert faults(answer, "backends.json") == []
    assert [row["devices"] for row in answer["backends"]] == [["cpu"]]


# -- exit codes ----------------------------------------------------------------------

ENDINGS = {
    "backends": {"amanda backends": 0},
    "bench": {
        "amanda bench missing.onnx": 1,
        "amanda bench digits.onnx --backend nobody --random 1": 3,
        "amanda bench strings.onnx --backend jax --feed text.npz": 4,
    },
    "bisect": {
        "amanda bisect missing.onnx --backend numpy --backend jax": 1,
        "amanda bisect digits.onnx": 2,
        "amanda bisect digits.onnx --backend numpy --backend nobody --random 1": 3,
        "amanda bisect digits.onnx other.onnx --backend numpy --random 1": 5,
    },
    "check": {
        "amanda check odd.yaml --for jax": 1,
        "amanda check strings.onnx --for jax": 1,
        "amanda check missing.onnx --for jax": 1,
        "amanda check digits.onnx": 2,
        "amanda check digits.onnx --for jax --format nothing": 3,
    },
    "compare": {
        "amanda compare missing.onnx --backend jax --backend numpy": 1,
        "amanda compare digits.onnx": 2,
        "amanda compare digits.onnx --backend jax --backend nobody --random 1": 3,
        "amanda compare strings.onnx --backend numpy --backend jax --feed text.npz": 4,
        "amanda compare digits.onnx other.onnx --backend numpy --random 1": 5,
    },
    "completion": {"amanda completion tcsh": 2},
    "convert": {
        "amanda convert odd.yaml odd.pb --to tensorflow": 1,
        "amanda convert missing.onnx a.onnx": 1,
        "amanda convert digits.onnx a.pb --passes fold --no-passes --to tensorflow": 2,
        "amanda convert digits.onnx a.unknown": 3,
        "amanda convert digits.onnx a.onnx --target-format nothing": 3,
    },
    "coverage": {
        "amanda coverage keras torch": 1,
        "amanda coverage onnx": 2,
        "amanda coverage onnx nothing": 1,
    },
    "diff": {
        "amanda diff digits.onnx other.onnx": 1,
        "amanda diff digits.onnx missing.onnx": 1,
    },
    "doctor": {"amanda doctor": 0},
    "edit": {
        "amanda edit missing.onnx out.onnx": 1,
        "amanda edit digits.onnx out.onnx --replace-op /4/Relu=Rleu": 1,
        "amanda edit digits.onnx out.onnx --remove nothing": 2,
        "amanda edit digits.onnx out.unknown": 3,
    },
    "export": {
        "amanda export missing.onnx --c out --dim batch=1": 1,
        "amanda export strings.onnx --c out": 4,
        "amanda export digits.onnx --c out --dim batch": 2,
        "amanda export digits.onnx --c out --format nothing": 3,
    },
    "instrument": {
        "amanda instrument missing.onnx --tool flops": 1,
        "amanda instrument digits.onnx --tool flops --option no=1": 2,
        "amanda instrument digits.onnx --tool trace --backend numpy": 2,
        "amanda instrument digits.onnx --tool nothing": 3,
    },
    "info": {
        "amanda info missing.onnx": 1,
        "amanda info": 2,
        "amanda info digits.onnx --format nothing": 3,
    },
    "namespace check": {"amanda namespace check nothing": 3},
    "namespace regenerate": {"amanda namespace regenerate nothing": 3},
    "ops": {
        "amanda ops onnx --search zzz": 1,
        "amanda ops nothing": 1,
        "amanda ops --since 3": 2,
        "amanda ops std matmul --backend nobody": 3,
    },
    "opset": {
        "amanda opset odd.yaml 13": 1,
        "amanda opset digits.onnx -o a.onnx": 2,
        "amanda opset digits.onnx 13 --format nothing": 3,
    },
    "plugin new": {"amanda plugin new lark --kind strange": 2},
    "plugins": {"amanda plugins": 0},
    "reduce": {
        "amanda reduce missing.onnx --to std": 1,
        "amanda reduce digits.onnx --to std": 1,
        "amanda reduce digits.onnx": 2,
    },
    "rules": {
        "amanda rules onnx-std --op Nothing": 1,
        "amanda rules onnx-std --show nothing:1": 2,
        "amanda rules nothing": 3,
    },
    "run": {
        "amanda run missing.onnx --backend numpy": 1,
        "amanda run digits.onnx --backend numpy --random x": 2,
        "amanda run digits.onnx --backend numpy --random 1 --target nothing": 2,
        "amanda run digits.onnx --backend nobody --random 1": 3,
        "amanda run strings.onnx --backend jax --feed text.npz": 4,
    },
    "scoreboard": {
        "amanda scoreboard onnx --kind nothing": 2,
        "amanda scoreboard nothing": 3,
    },
    "show": {
        "amanda show missing.onnx": 1,
        "amanda show digits.onnx --op nothing": 2,
        "amanda show digits.onnx --format nothing": 3,
    },
    "validate": {
        "amanda validate odd.yaml": 1,
        "amanda validate missing.onnx": 1,
        "amanda validate digits.onnx --format nothing": 3,
    },
    "view": {
        "amanda view missing.onnx": 1,
        "amanda view odd.yaml --to std": 1,
        "amanda view digits.onnx --depth 2": 2,
        "amanda view digits.onnx --format nothing": 3,
        "amanda view digits.onnx --backend nobody": 3,
        "amanda view strings.onnx --backend jax": 4,
    },
}
"""Exit codes of each verb, as the guide lists them."""
CODES = [(line, code) for rows in ENDINGS.values() for line, code in rows.items()]


def test_every_verb_has_exit_codes() -> None:
    assert ENDINGS.keys() == VERBS.keys()


@pytest.mark.parametrize(("command", "code"), CODES, ids=[c for c, _ in CODES])
def test_exit_codes(command: str, code: int, folder: Path) -> None:
    write_models(folder)
    ended = call(f"{command} --json")
    assert ended.code == code, ended
    answer = json.loads(ended.out)
    assert answer["exit_code"] == code
    schema = "error.json" if "error" in answer else schema_of(verb_of(command))
    assert faults(answer, schema) == []
    assert bool(ended.err) is ("error" in answer)


@pytest.mark.parametrize("name", VERBS)
def test_an_unknown_option_is_invalid(name: str) -> None:
    ended = call(f"amanda {name} --colour --json")
    assert ended.code == 2
    assert faults(json.loads(ended.out), "error.json") == []
