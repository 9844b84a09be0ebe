"""The verbs, with one line about each; `amanda.cli.verbs.NAME` has its `command`."""

from __future__ import annotations

__all__ = ["PLANNED", "VERBS"]

VERBS = {
    "backends": "where a model can run: backends, devices, state",
    "check": "whether a model can go to a framework or backend",
    "compare": "run a model on several backends and compare",
    "completion": "print the completion script of a shell",
    "convert": "convert a model to another framework or format",
    "coverage": "which ops of a framework go to another, and by what",
    "doctor": "check this installation, and say what to do",
    "info": "what a model file holds, in short",
    "ops": "the ops of a framework's version: list, search, show, compare",
    "opset": "convert a model to another version of its framework",
    "plugin": "create a plug-in",
    "plugins": "every plug-in: found, loadable, usable, why not",
    "rules": "the rules between two frameworks: list, show, export, test",
    "run": "run a model on a backend",
    "show": "a model in readable form, folded when it is large",
    "validate": "check a model against its dictionary",
}

# Verbs that the design names and this version does not have: what each will do. They
# are not listed; who asks for one is told, and a plug-in may offer one meanwhile.
PLANNED = {
    "bench": "measure a model on several backends",
    "bisect": "find the first op where two runs differ",
    "diff": "tell how two models differ",
    "view": "show a model as a picture",
}
