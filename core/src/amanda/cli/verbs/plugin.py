"""`amanda plugin new`: a plug-in to begin with."""

from __future__ import annotations

import click

from amanda.cli.group import VerbGroup, verb
from amanda.cli.output.answer import Answer

__all__ = ["command"]


@click.group(cls=VerbGroup, short_help="make a plug-in of your own")
def command() -> None:
    """Make a plug-in of your own."""


@verb("new", "make a folder with a plug-in that passes its tests")
@click.argument("name")
@click.option(
    "--dir",
    "folder",
    default=".",
    type=click.Path(),
    help="The folder to make it in; the current one, unless told.",
)
def new(name: str, folder: str) -> Answer:
    """Make amanda-NAME: a plug-in to begin with, which passes its own tests."""
    from pathlib import Path

    from amanda.cli.scaffold import new_plugin

    made = Path(new_plugin(name, Path(folder)))
    text = [
        f"made {made}",
        "next:",
        f"  pip install --editable {made}",
        f"  pytest {made}",
        "  amanda plugins",
    ]
    files = sorted(str(file.relative_to(made)) for file in made.rglob("*"))
    return Answer({"folder": str(made), "files": files}, text)


command.add_command(new)
