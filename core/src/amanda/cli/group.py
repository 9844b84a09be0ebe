"""The command group: verbs by name, imported when they are called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from amanda.addons import advise_entry
from amanda.cli.examples import split_examples
from amanda.cli.output.answer import Answer, print_answer
from amanda.cli.output.chatter import chatter_to_stderr
from amanda.cli.plugin_verbs import list_plugin_verbs, load_plugin_verb
from amanda.cli.verb_table import VERBS
from amanda.errors import PluginBrokenError, PluginMissingError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from amanda.current_host import Plugin

__all__ = [
    "Invocation",
    "Verb",
    "VerbGroup",
    "Verbs",
    "cli",
    "verb",
]

_HELP = {"help_option_names": ["-h", "--help"]}


@dataclass
class Invocation:
    """A call of the command line: which verb it is, and of which plug-in."""

    verb: str = ""
    plugin: Plugin | None = None


class Verb(click.Command):
    """A verb, created by `verb`."""

    examples: Sequence[str] = ()
    """Command lines, which its help shows."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        if self.examples:
            with formatter.section("Examples"):
                for line in self.examples:  # as they are, to be copied
                    formatter.write(f"  {line}\n")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        _record_verb(ctx)
        return super().parse_args(ctx, args)


def _record_verb(ctx: click.Context) -> None:
    call = ctx.find_object(Invocation)
    if call is not None:
        call.verb = " ".join(ctx.command_path.split()[1:])


def verb(name: str, help: str) -> Callable[[Callable[..., Answer]], Verb]:
    """Create a verb from a function that returns an `Answer`.

    The decorator comes before those of `click`. `--json` is added. The docstring of the
    function is the help; lines after `Examples:`, which end it, are shown as they are.
    """

    def make_verb(function: Callable[..., Answer]) -> Verb:
        def callback(*, json: bool, **arguments: Any) -> int:
            context = click.get_current_context()
            call = context.find_object(Invocation)
            with chatter_to_stderr(None if call is None else call.plugin):
                answer = _complete(function(**arguments), name)
            spoken = " ".join(context.command_path.split()[1:])
            print_answer(spoken, answer, json=json)
            return answer.exit_code

        text, examples = split_examples(function.__doc__ or "")
        command = click.command(
            name, cls=Verb, help=text, short_help=help, context_settings=_HELP
        )
        parameters = getattr(function, "__click_params__", [])
        callback.__click_params__ = parameters  # type: ignore[attr-defined]
        as_json = click.option("--json", is_flag=True, help="Print JSON.")
        made = command(as_json(callback))
        made.examples = examples
        return made

    return make_verb


def _complete(answer: object, verb: str) -> Answer:
    """An answer, with its text generated."""
    if not isinstance(answer, Answer) or not isinstance(answer.exit_code, int):
        raise PluginBrokenError(
            f"the verb {verb!r} did not return an answer",
            expected="an amanda.cli.Answer, with an exit code that is a number",
            got=repr(answer) if isinstance(answer, Answer) else type(answer).__name__,
        )
    text = [answer.text] if isinstance(answer.text, str) else [*answer.text]
    return replace(answer, text=text)


class VerbGroup(click.Group):
    """Verbs with a common prefix, such as `plugin new`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        _record_verb(ctx)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        command = self.get_command(ctx, name)
        call = ctx.find_object(Invocation)
        if call is not None:
            call.plugin = self.plugin_of(name) or call.plugin
        if command is None:
            ctx.fail(f"no verb {name!r}{self._suggestion(ctx, name)}")
        return name, command, args[1:]

    def plugin_of(self, name: str) -> Plugin | None:  # noqa: ARG002
        """The plug-in that a verb is from, if it has one of its own."""
        return None

    def _suggestion(self, ctx: click.Context, name: str) -> str:
        from difflib import get_close_matches

        near = get_close_matches(name, self.list_commands(ctx), n=3)
        return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""


class Verbs(VerbGroup):
    """The verbs of `VERBS` and those of plug-ins; listing them imports none."""

    def summaries(self) -> dict[str, str]:
        """One line for each verb: its help, or the plug-in that it is from."""
        ours = dict(sorted(VERBS.items()))
        theirs: dict[str, list[str]] = {}
        for offer in list_plugin_verbs():
            theirs.setdefault(offer.name, []).append(offer.source)
        lines = {name: f"from {' and '.join(dists)}" for name, dists in theirs.items()}
        return ours | {name: line for name, line in lines.items() if name not in ours}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self.summaries())

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002
        cmd_name: str,
    ) -> click.Command | None:
        if cmd_name in VERBS:
            module = import_module(f"amanda.cli.verbs.{cmd_name}")
            command: click.Command = module.command
            return command
        if self._is_of_plugin(cmd_name):
            return load_plugin_verb(cmd_name)
        if (advice := advise_entry("commands", cmd_name)) is not None:
            raise PluginMissingError(
                f"the plug-in with the verb {cmd_name!r} is not installed", hint=advice
            )
        return None

    def plugin_of(self, name: str) -> Plugin | None:
        if name in VERBS or not self._is_of_plugin(name):
            return None
        from amanda.host import default_host

        return default_host().find("commands", name)

    def _is_of_plugin(self, name: str) -> bool:
        return ":" in name or any(offer.name == name for offer in list_plugin_verbs())

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002
        formatter: click.HelpFormatter,
    ) -> None:
        rows = self.summaries().items()
        for title, ours in (("Verbs", True), ("Verbs of plug-ins", False)):
            if part := [row for row in rows if (row[0] in VERBS) is ours]:
                with formatter.section(title):
                    formatter.write_dl(part)

    def shell_complete(
        self, ctx: click.Context, incomplete: str
    ) -> list[CompletionItem]:
        """Complete verbs, without importing any, and options of the group."""
        from click.shell_completion import CompletionItem

        rows = self.summaries().items()
        found = [CompletionItem(n, help=h) for n, h in rows if n.startswith(incomplete)]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]


@click.group(
    cls=Verbs,
    invoke_without_command=True,
    context_settings=_HELP,
    subcommand_metavar="VERB ...",
)
@click.option("--version", is_flag=True, is_eager=True, help="Show the version.")
@click.pass_context
def cli(ctx: click.Context, *, version: bool) -> int:
    """Inspect, change, convert and run models of any framework.

    `amanda VERB --help` describes a verb. With --json, every verb prints JSON. Exit
    codes: 0 yes, 1 no, 2 usage, 3 plug-in missing, 4 unsupported, 5 numeric mismatch,
    70 a bug in Amanda.
    """
    if version:
        from amanda import __version__

        click.echo(f"amanda {__version__}")
        ctx.exit()
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help(), err=True)
        ctx.exit(2)
    return 0
