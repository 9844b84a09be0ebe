"""The verbs, with one line about each; `amanda.cli.verbs.NAME` has its `command`."""

from __future__ import annotations

__all__ = ["VERBS"]

VERBS = {
    "backends": "where a model can run: backends, devices, state",
    "check": "whether a model can be converted to a framework or backend",
    "compare": "run models on backends and compare the results",
    "completion": "print the completion script of a shell",
    "convert": "convert a model to another framework or format",
    "coverage": "which ops of a framework can be mapped to another",
    "doctor": "check this installation",
    "info": "a summary of a model file",
    "instrument": "measure or change a model with tools",
    "ops": "the ops of a framework's version: list, search, show, compare",
    "opset": "convert a model to another version of its framework",
    "plugin": "create a plug-in",
    "plugins": "installed plug-ins and their state",
    "rules": "the rules between two frameworks: list, show, export, test",
    "run": "run a model on a backend",
    "scoreboard": "run a framework's own test cases, and count",
    "show": "print a model in readable form",
    "validate": "check a model against its dictionary",
}
