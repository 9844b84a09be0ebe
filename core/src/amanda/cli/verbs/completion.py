"""`amanda completion`: prints the completion script of a shell."""

from __future__ import annotations

import click

from amanda.cli.group import verb
from amanda.cli.output.answer import Answer

__all__ = ["command"]

SHELLS = {
    "bash": "amanda completion bash >> ~/.bashrc",
    "fish": "amanda completion fish > ~/.config/fish/completions/amanda.fish",
    "zsh": "amanda completion zsh >> ~/.zshrc",
}


@verb("completion", "print the completion script of a shell")
@click.argument("shell", type=click.Choice(sorted(SHELLS)))
def command(shell: str) -> Answer:
    """Print the script with which SHELL completes verbs, options and files.

    It includes verbs of plug-ins. For bash: amanda completion bash >> ~/.bashrc

    Examples:
        amanda completion bash
    """
    from click.shell_completion import get_completion_class

    from amanda.cli.exit_codes import COMPLETE
    from amanda.cli.group import cli

    kind = get_completion_class(shell)
    assert kind is not None, shell  # click has had these three since 8.0
    # not .source(): it asks the shell for its version, which may not be installed here
    script = kind.source_template % kind(cli, {}, "amanda", COMPLETE).source_vars()
    return Answer(
        {"shell": shell, "script": script, "install": SHELLS[shell]}, [script]
    )
