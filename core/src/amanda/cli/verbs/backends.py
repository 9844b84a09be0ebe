"""`amanda backends`: the installed backends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from amanda.cli.group import verb
from amanda.cli.output.answer import Answer, Table
from amanda.errors import AmandaError

if TYPE_CHECKING:
    from amanda.host import Host, PluginEntry

__all__ = ["command"]


@verb("backends", "where a model can run: backends, devices, state")
@click.option(
    "--load",
    is_flag=True,
    help="Import each one and list its devices; default: those in its manifest.",
)
def command(*, load: bool) -> Answer:
    """List the installed backends. Nothing is imported without --load.

    Exit code 1 means that at least one has a fault.

    Examples:
        amanda backends
    """
    from amanda.host import default_host

    host = default_host()
    found = [
        _backend_data(host, entry, load=load) for entry in host.entries("backends")
    ]
    rows = [(r["name"], r["state"], r["consumes"], ", ".join(r["devices"]), r["dist"])
            for r in found]  # fmt: skip
    text: list[str | Table] = [
        Table(("backend", "state", "consumes", "devices", "from"), rows)
        if rows
        else "no backend is installed; install a plug-in that has one"
    ]
    text += [
        f"{r['name']}:{told}" for r in found for told in map(_state_line, r["states"])
    ]
    text += [f"\n{r['name']}: {r['fault']}" for r in found if r["fault"]]
    faulty = any(r["fault"] for r in found)
    return Answer({"backends": found}, text, exit_code=int(faulty))


def _backend_data(host: Host, entry: PluginEntry, *, load: bool) -> dict[str, Any]:
    from amanda.backend import GuardedBackend

    devices = [str(device) for device in entry.manifest.get("devices", ())]
    fault = entry.fault
    states: list[dict[str, str]] = []
    if load and not fault:
        try:
            backend = GuardedBackend(host.load(entry), entry, host)
            devices, states = backend.devices(), backend.states()
        except AmandaError as error:
            fault = str(error)
    return {
        "name": entry.name,
        "dist": entry.dist,
        "state": entry.state,
        "consumes": str(entry.manifest.get("namespace", "?")),
        "devices": devices,
        "states": states,
        "fault": fault or None,
    }


def _state_line(state: dict[str, str]) -> str:
    reason = state["reason"] and f", {state['reason']}"
    return f"{state['name']}: {state['state']}{reason}"
