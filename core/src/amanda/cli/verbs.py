"""The verbs: which module has each, and one line about it. Adding one is one row."""

from __future__ import annotations

__all__ = ["PLANNED", "VERBS"]

VERBS = {
    "backends": (
        "amanda.cli.backends",
        "where a model can run: backends, devices, state",
    ),
    "check": ("amanda.cli.check", "whether a model can go to a framework or backend"),
    "compare": (
        "amanda.cli.compare",
        "run a model on several backends and compare",
    ),
    "completion": ("amanda.cli.completion", "print the completion script of a shell"),
    "convert": ("amanda.cli.convert", "convert a model to another framework or format"),
    "coverage": (
        "amanda.cli.coverage",
        "which ops of a framework go to another, and by what",
    ),
    "doctor": ("amanda.cli.doctor", "check this installation, and say what to do"),
    "info": ("amanda.cli.info", "what a model file holds, in short"),
    "namespace": (
        "amanda.cli.namespace",
        "make dictionaries anew, and compare them with the frameworks",
    ),
    "ops": (
        "amanda.cli.ops",
        "the ops of a framework's version: list, search, show, compare",
    ),
    "opset": (
        "amanda.cli.opset",
        "bring a model to another version of its framework",
    ),
    "plugin": ("amanda.cli.plugin", "make a plug-in of your own"),
    "plugins": (
        "amanda.cli.plugins",
        "every plug-in: found, loadable, usable, why not",
    ),
    "rules": (
        "amanda.cli.rules",
        "the rules between two frameworks: list, show, export, test",
    ),
    "run": ("amanda.cli.run", "run a model on a backend"),
    "show": ("amanda.cli.show", "a model in readable form, folded when it is large"),
    "validate": ("amanda.cli.validate", "check a model against its dictionary"),
}

# Verbs that the design names and this version does not have: what each will do. They
# are not listed; who asks for one is told, and a plug-in may offer one meanwhile.
PLANNED = {
    "bench": "measure a model on several backends",
    "bisect": "find the first op where two runs differ",
    "diff": "tell how two models differ",
    "view": "show a model as a picture",
}
