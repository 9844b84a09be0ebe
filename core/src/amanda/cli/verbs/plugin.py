"""`amanda plugin new`: a new plug-in from a template."""

from __future__ import annotations

import click

from amanda.cli.group import VerbGroup, verb
from amanda.cli.output.answer import Answer
from amanda.cli.scaffold import TEMPLATES, new_plugin

__all__ = ["command"]


@click.group(cls=VerbGroup, short_help="create a plug-in")
def command() -> None:
    """Create a plug-in."""


@verb("new", "create a folder with a plug-in that passes its tests")
@click.argument("name")
@click.option(
    "--kind",
    type=click.Choice(TEMPLATES),
    default="format",
    show_default=True,
    help="What the plug-in offers.",
)
@click.option(
    "--dir",
    "folder",
    default=".",
    type=click.Path(),
    help="The folder to create it in; by default the current one.",
)
def new(name: str, kind: str, folder: str) -> Answer:
    """Create amanda-NAME: a complete small plug-in, which passes its own tests.

    Replace what it does. docs/plugin-author.md explains each kind.

    Examples:
        amanda plugin new lark --kind format
    """
    from pathlib import Path

    made = Path(new_plugin(name, Path(folder), kind))
    text = [
        f"created {made}",
        "next:",
        f"  pip install --editable {made}",
        f"  pytest {made}",
        "  amanda plugins",
    ]
    files = sorted(str(file.relative_to(made)) for file in made.rglob("*"))
    return Answer({"folder": str(made), "files": files}, text)


command.add_command(new)
