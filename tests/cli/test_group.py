"""What holds for every verb: help, JSON, exit codes, errors, verbs of plug-ins."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import click
import pytest

import amanda
from amanda.cli import Answer, verb
from amanda.cli.group import Verb, VerbGroup, cli
from amanda.cli.verb_table import VERBS
from amanda.errors import (
    AmandaError,
    BackendError,
    ConversionError,
    NumericMismatchError,
    PluginMissingError,
)

if TYPE_CHECKING:
    from tests.cli.conftest import Call

DESIGNED = (
    "info show view check convert run compare bisect diff opset bench rules ops "
    "validate plugins doctor"
)


def leaves() -> dict[str, click.Command]:
    """Every verb of ours, `plugin new` too."""
    found: dict[str, click.Command] = {}
    for name in VERBS:
        command = importlib.import_module(f"amanda.cli.verbs.{name}").command
        if isinstance(command, VerbGroup):
            inner = command.commands.items()
            found.update({f"{name} {key}": value for key, value in inner})
        else:
            found[name] = command
    return found


def offer(host: amanda.Host, name: str, function: Callable[..., object]) -> None:
    host.register("commands", name, verb(name, "for a test")(function))  # type: ignore[arg-type]


def raising(error: BaseException) -> Callable[[], Answer]:
    def function() -> Answer:
        raise error

    return function


def test_the_verbs_of_the_design_are_here_or_in_a_plugin() -> None:
    ours = {"backends", "completion", "coverage", "instrument", "plugin", "scoreboard"}
    offered = {"bench", "bisect", "diff", "view"}  # by amanda-inspect
    assert set(VERBS) | offered == set(DESIGNED.split()) | ours


def test_help(call: Call, host: amanda.Host) -> None:
    ended = call("--help")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == HELP
    assert call("-h") == ended


HELP = """\
Usage: amanda [OPTIONS] VERB ...

  Inspect, change, convert and run models of any framework.

  `amanda VERB --help` describes a verb. With --json, every verb prints JSON.
  Exit codes: 0 yes, 1 no, 2 usage, 3 plug-in missing, 4 unsupported, 5
  numeric mismatch, 70 a bug in Amanda.

Options:
  --version   Show the version.
  -h, --help  Show this message and exit.

Verbs:
  backends    where a model can run: backends, devices, state
  check       whether a model can be converted to a framework or backend
  compare     run models on backends and compare the results
  completion  print the completion script of a shell
  convert     convert a model to another framework or format
  coverage    which ops of a framework can be mapped to another
  doctor      check this installation
  info        a summary of a model file
  instrument  measure or change a model with tools
  ops         the ops of a framework's version: list, search, show, compare
  opset       convert a model to another version of its framework
  plugin      create a plug-in
  plugins     installed plug-ins and their state
  rules       the rules between two frameworks: list, show, export, test
  run         run a model on a backend
  scoreboard  run a framework's own test cases, and count
  show        print a model in readable form
  validate    check a model against its dictionary
"""


def test_without_a_verb_it_helps_and_fails(call: Call, host: amanda.Host) -> None:
    ended = call()
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == HELP


def test_version(call: Call) -> None:
    assert call("--version") == (0, f"amanda {amanda.__version__}\n", "")


@pytest.mark.parametrize("name", leaves())
def test_every_verb_answers_as_json_and_helps(name: str, call: Call) -> None:
    command = leaves()[name]
    assert isinstance(command, Verb)
    assert "json" in {parameter.name for parameter in command.params}
    ended = call(*name.split(), "--help")
    assert ended.code == 0
    assert ended.out.startswith(f"Usage: amanda {name} ")
    assert "--json" in ended.out


@pytest.mark.parametrize("name", VERBS)
def test_the_line_about_a_verb_is_the_same_everywhere(name: str) -> None:
    module = importlib.import_module(f"amanda.cli.verbs.{name}")
    assert module.command.short_help == VERBS[name]


def test_a_verb_that_is_mistyped(call: Call, host: amanda.Host) -> None:
    ended = call("shwo")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == (
        "amanda: no verb 'shwo'; did you mean 'show'?\n"
        "  to do:    amanda --help describes it\n"
    )
    assert call("xyzzy").err.startswith("amanda: no verb 'xyzzy'\n")


def test_a_verb_of_a_plugin_that_is_missing(
    call: Call, host: amanda.Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("amanda.cli.group.list_plugin_verbs", list)
    monkeypatch.setattr("amanda.addons._is_installed", lambda dist: False)
    ended = call("bisect", "a", "b")
    assert (ended.code, ended.out, ended.err) == (
        3,
        "",
        "amanda: the plug-in with the verb 'bisect' is not installed\n"
        "  to do:    pip install amanda-inspect\n",
    )


def test_a_missing_argument(call: Call) -> None:
    ended = call("show")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == (
        "amanda show: missing argument 'FILE'\n"
        "  to do:    amanda show --help describes it\n"
    )


def test_an_unknown_option(call: Call) -> None:
    ended = call("plugin", "new", "--colour")
    assert ended.code == 2
    assert ended.err.startswith("amanda plugin new: no such option")
    assert "--colour" in ended.err.splitlines()[0]


ENDINGS: list[tuple[BaseException, int]] = [
    (AmandaError("no"), 1),
    (ConversionError("gaps", problems=["op 'a': no rule"]), 1),
    (PluginMissingError("missing"), 3),
    (BackendError("cannot"), 4),
    (NumericMismatchError("differs"), 5),
    (KeyError("x"), 3),
    (RecursionError("deep"), 3),
    (SystemExit(0), 3),
    (KeyboardInterrupt(), 130),
    (MemoryError(), 1),
    (FileNotFoundError(2, "No such file or directory", "a.onnx"), 1),
    (click.UsageError("Twice."), 2),
    (BrokenPipeError(), 141),
]


@pytest.mark.parametrize(("error", "code"), ENDINGS, ids=lambda e: type(e).__name__)
def test_exit_codes(
    error: BaseException, code: int, call: Call, host: amanda.Host
) -> None:
    offer(host, "fails", raising(error))
    assert call("fails").code == code


def test_an_error_is_told_whole(call: Call, host: amanda.Host) -> None:
    problems = ["op 'a': no rule", "op 'b': no rule"]
    error = ConversionError("2 ops do not map", who="model.pb", problems=problems)
    offer(host, "fails", raising(error))
    ended = call("fails")
    assert ended.out == ""
    assert ended.err == (
        "amanda fails: 2 ops do not map\n"
        "  who:      model.pb\n"
        "  - op 'a': no rule\n"
        "  - op 'b': no rule\n"
    )
    asked = call("fails", "--json")
    assert asked.err == ended.err
    assert asked.json == {
        "schema": 1,
        "verb": "fails",
        "exit_code": 1,
        "error": {
            "kind": "ConversionError",
            "message": "2 ops do not map",
            "who": "model.pb",
            "problems": problems,
        },
    }


def test_usage_as_json(call: Call) -> None:
    ended = call("show", "--json")
    assert ended.json["verb"] == "show"
    assert ended.json["error"]["kind"] == "UsageError"


def test_a_file_that_is_not_there(call: Call, host: amanda.Host) -> None:
    error = FileNotFoundError(2, "No such file or directory", "a.onnx")
    offer(host, "fails", raising(error))
    told = "amanda fails: no such file or directory\n  who:      a.onnx\n"
    assert call("fails").err == told


def test_a_bug_of_ours(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("amanda.cli.verbs.doctor.run_checks", raising(KeyError("x")))
    ended = call("doctor")
    assert ended.code == 70
    assert ended.err == (
        "amanda doctor: a bug in Amanda: KeyError: 'x'\n"
        "  to do:    report it, with the output of `amanda doctor`; AMANDA_DEBUG=1 "
        "prints the traceback\n"
    )
    monkeypatch.setenv("AMANDA_DEBUG", "1")
    assert call("doctor").err.startswith("Traceback (most recent call last):\n")


def test_a_verb_of_a_plugin_that_raises_is_named(call: Call, host: amanda.Host) -> None:
    for error in (KeyError("x"), SystemExit(0), GeneratorExit()):
        offer(host, "fails", raising(error))
        ended = call("fails")
        assert (ended.code, ended.out) == (3, "")
        assert ended.err.startswith(
            "amanda fails: command 'fails' of this program failed while running\n"
            f"  got:      {type(error).__name__}"
        )
        host.unregister("commands", "fails")


def test_a_verb_without_an_answer_is_named(call: Call, host: amanda.Host) -> None:
    offer(host, "fails", lambda: 3)
    ended = call("fails", "--json")
    assert ended.code == 3
    assert ended.json["error"]["message"] == "the verb 'fails' did not return an answer"


def test_interrupted(call: Call, host: amanda.Host) -> None:
    offer(host, "waits", raising(KeyboardInterrupt()))
    assert call("waits") == (130, "", "amanda: interrupted\n")


def test_a_verb_of_a_plugin(call: Call, host: amanda.Host) -> None:
    def function(file: str) -> Answer:
        """Count."""
        return Answer({"file": file}, [f"read {file}"], exit_code=1)

    made = verb("count", "count")(click.argument("file")(function))
    host.register("commands", "count", made)
    assert call("count", "a.onnx") == (1, "read a.onnx\n", "")
    assert call("count", "a.onnx", "--json").json == {
        "schema": 1,
        "verb": "count",
        "exit_code": 1,
        "file": "a.onnx",
    }
    assert "\nVerbs of plug-ins:\n  count  " in call("--help").out
    assert "did you mean 'count'" in call("coutn").err


def test_what_a_model_is_named_does_not_drive_the_terminal(
    call: Call, host: amanda.Host
) -> None:
    name = "a\x1b[2J\u202eb\r"
    offer(host, "evil", lambda: Answer({"name": name}, [name]))
    assert call("evil").out == "a\\u001b[2J\\u202eb\\u000d\n"
    assert call("evil", "--json").json["name"] == name
    offer(host, "fails", raising(AmandaError(f"no {name}")))
    assert "\x1b" not in call("fails").err


def test_json_is_one_object_and_nothing_else(call: Call, host: amanda.Host) -> None:
    offer(host, "quiet", lambda: Answer({"b": "ü"}, ["text"]))
    out = call("quiet", "--json").out
    assert json.loads(out)["b"] == "ü"


def test_the_group_is_a_click_command() -> None:
    assert isinstance(cli, click.Group)
