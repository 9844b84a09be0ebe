"""The base class of tools, and the order in which several are applied."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from amanda.errors import UsageError
from amanda.instrument._selectors import CALLBACK_MARK, Selector

if TYPE_CHECKING:
    from amanda.instrument._instrumentation import Instrumentation
    from amanda.instrument._report import Report

__all__ = ["Tool", "callbacks_of", "order_of_tools"]


class Tool:
    """An analysis or a change of models; its methods are callbacks of ops.

    Methods decorated by `on_op` and `on_gradient` are called for the ops that they
    select. A tool that changes the graph as a whole overrides `instrument`. The
    constructor takes the options of the tool, by keyword: on the command line they are
    `--option NAME=VALUE`.
    """

    name: ClassVar[str] = ""
    """The name in reports, and of the entry point; default: that of the class."""
    namespace: ClassVar[str | None] = "amanda/std/1"
    """The namespace in which it works: models are converted to it. None: the model's
    own."""
    depends_on: ClassVar[tuple[str, ...]] = ()
    """Names of tools that must be applied before it."""
    conflicts: ClassVar[tuple[str, ...]] = ()
    """Names of tools that must not be applied to the same graph."""

    def instrument(self, instrumentation: Instrumentation) -> None:
        """Instrument a graph: by default, call the callbacks for the ops they select.

        Ops that callbacks add are not visited."""
        for method, selector in callbacks_of(self, of_gradients=False):
            for site in instrumentation.sites(selector):
                method(site)
        for method, selector in callbacks_of(self, of_gradients=True):
            instrumentation.call_with_gradients(selector, method)

    def conclude(self, report: Report) -> Mapping[str, Any]:  # noqa: ARG002
        """Facts about the whole model, from the rows of a report after some runs."""
        return {}

    def after_run(self, report: Report) -> None:
        """Called after each run, when its values are in the report."""

    def picture(self, report: Report) -> str | None:  # noqa: ARG002  for subclasses
        """An SVG picture of what the tool found, for people; None without one."""
        return None

    @classmethod
    def label(cls) -> str:
        """The name of the tool."""
        return cls.name or cls.__name__


def callbacks_of(
    tool: Tool, *, of_gradients: bool
) -> Iterator[tuple[Callable[[Any], Any], Selector]]:
    """The callbacks of a tool, in the order of their definition, base classes first."""
    names: dict[str, None] = {}
    for cls in reversed(type(tool).__mro__):
        names.update(dict.fromkeys(vars(cls)))
    for name in names:
        method = getattr(type(tool), name, None)
        for selector, is_of_gradient in getattr(method, CALLBACK_MARK, ()):
            if is_of_gradient == of_gradients:
                yield getattr(tool, name), selector


def order_of_tools(tools: Sequence[Tool], applied: Sequence[str]) -> list[Tool]:
    """The tools in the given order, except that those others depend on come first.

    `applied` names the tools that the graph was instrumented with before."""
    by_name = {tool.label(): tool for tool in tools}
    if len(by_name) < len(tools):
        raise UsageError(
            "one tool is given twice",
            got=", ".join(tool.label() for tool in tools),
        )
    _expect_no_conflict(tools, applied)
    ordered: dict[str, Tool] = {}
    open_: list[str] = []

    def visit(tool: Tool) -> None:
        name = tool.label()
        if name in ordered:
            return
        if name in open_:
            raise UsageError(
                "tools depend on each other in a circle",
                got=" -> ".join([*open_[open_.index(name) :], name]),
            )
        open_.append(name)
        for needed in tool.depends_on:
            if needed in by_name:
                visit(by_name[needed])
            elif needed not in applied:
                raise UsageError(
                    f"the tool {name} depends on {needed}, which is not applied",
                    hint=f"apply both: amanda.apply(graph, {needed}, {name})",
                )
        open_.pop()
        ordered[name] = tool

    for tool in tools:
        visit(tool)
    return list(ordered.values())


def _expect_no_conflict(tools: Sequence[Tool], applied: Sequence[str]) -> None:
    names = {*applied, *(tool.label() for tool in tools)}
    for tool in tools:
        for other in tool.conflicts:
            if other in names:
                raise UsageError(
                    f"the tools {tool.label()} and {other} do not go together",
                    hint="apply each to a graph of its own",
                )
