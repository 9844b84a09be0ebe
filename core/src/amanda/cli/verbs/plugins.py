"""`amanda plugins`: the installed plug-ins and their state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from amanda.cli.group import verb
from amanda.cli.output.answer import Answer, Table
from amanda.cli.output.terminal import show_progress

if TYPE_CHECKING:
    from amanda.host import Host, PluginInfo

__all__ = ["command", "is_usable"]

WELL = {"found", "loaded", "off", "slow", "usable"}


@verb("plugins", "installed plug-ins and their state")
@click.option(
    "--probe",
    is_flag=True,
    help="Load each one in a separate process, with a time limit.",
)
def command(*, probe: bool) -> Answer:
    """List the installed plug-ins, what they offer, and their state.

    Nothing is imported. Exit code 1 means that at least one has a fault.

    Examples:
        amanda plugins
    """
    from amanda.host import default_host

    host = default_host()
    plugins = [_probe(host, each) if probe else each for each in host.plugins()]
    rows = [_row(plugin) for plugin in plugins]
    data = {"plugins": [_data(plugin) for plugin in plugins]}
    ill = [plugin for plugin in plugins if not is_usable(plugin)]
    return Answer(data, [*_text(rows), *_causes(plugins)], exit_code=int(bool(ill)))


def is_usable(plugin: PluginInfo) -> bool:
    """Whether it has no known fault; slow or excluded ones have none."""
    return plugin.state in WELL


def _probe(host: Host, plugin: PluginInfo) -> PluginInfo:
    with show_progress(f"trying {plugin.dist}"):
        return host.probe(plugin.dist)


def _row(plugin: PluginInfo) -> tuple[str, str, str, str]:
    by_kind: dict[str, list[str]] = {}
    for entry in plugin.entries:
        by_kind.setdefault(entry.kind, []).append(entry.name)
    offers = "; ".join(f"{kind} {', '.join(names)}" for kind, names in by_kind.items())
    return plugin.dist, plugin.version, plugin.state, offers


def _text(rows: list[tuple[str, str, str, str]]) -> list[str | Table]:
    if not rows:
        return ["no plug-in is installed"]
    return [Table(("plug-in", "version", "state", "offers"), rows)]


def _causes(plugins: list[PluginInfo]) -> list[str | Table]:
    return [f"\n{plugin.dist}: {plugin.why}" for plugin in plugins if plugin.why]


def _data(plugin: PluginInfo) -> dict[str, object]:
    entries = [
        {
            "kind": entry.kind,
            "name": entry.name,
            "state": entry.state,
            "fault": entry.fault or None,
        }
        for entry in plugin.entries
    ]
    return {
        "dist": plugin.dist,
        "version": plugin.version,
        "state": plugin.state,
        "why": plugin.why or None,
        "entries": entries,
    }
