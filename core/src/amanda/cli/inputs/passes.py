"""Passes that a conversion applies on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from amanda.errors import UsageError

if TYPE_CHECKING:
    from amanda.graph import Graph
    from amanda.mapping import Plan

__all__ = ["passes_options", "plan_with_passes"]


def passes_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options `--passes` and `--no-passes` of a verb, for `plan_with_passes`."""
    none = click.option(
        "--no-passes", is_flag=True, help="Apply no passes: ops are mapped one by one."
    )
    some = click.option(
        "--passes",
        metavar="LIST",
        help="The passes to apply to graphs of their namespace on the way, with commas "
        "between them; default: optimize_for_inference.",
    )
    return some(none(command))


def plan_with_passes(
    graph: Graph,
    goal: str,
    listed: str | None,
    none: bool,
    prefer_backend: bool = False,
) -> tuple[Plan, list[str]]:
    """The plan of a conversion with the passes that the options choose, and these.

    Runs of backends have none by default: a backend optimizes what it compiles.
    """
    from amanda.api.conversion import is_backend, plan
    from amanda.api.improvement import default_passes, expect_passes_apply
    from amanda.host import default_host

    host = default_host()
    if none and listed is not None:
        raise UsageError("--passes and --no-passes exclude each other; give one")
    names: list[str] = []
    if listed is not None:
        names = [host.find("passes", name.strip()).choice for name in listed.split(",")]
    elif not none and not is_backend(goal, host, prefer_backend):
        names = default_passes(host)
    found = plan(graph, goal, passes=names, prefer_backend=prefer_backend)
    if listed is not None:
        expect_passes_apply(names, found.route, host)
    return found, names
