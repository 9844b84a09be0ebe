"""Every error Amanda raises, as one tree.

    AmandaError                       exit code of the command line
    |-- UsageError                    2   invalid arguments
    |-- GraphError                    1   a change that would break the graph
    |   |-- CycleError                    an op would depend on itself
    |   |-- DuplicateNameError            a name that is in use
    |   |-- ForeignPortError              a value of another graph
    |   |-- InUseError                    something still uses what would be removed
    |   `-- GoneError                     a handle whose value was removed
    |-- InvalidTypeError              1   an invalid type, dim or attribute
    |-- Undecided                     1   a question that the known facts do not answer
    |-- FormatError                   1   a file or text that cannot be read or written
    |   |-- UnknownFormatError        3   no installed format knows this file
    |   `-- LimitError                1   input that exceeds limits of time or memory
    |-- NamespaceError                1   a dictionary or op that does not exist
    |-- ConversionError               1   ops that no rule maps (the gaps, all of them)
    |-- BackendError                  4   a backend cannot do this
    |-- PluginError                   3   a plug-in, and its fault
    |   |-- PluginMissingError            nothing with this name is installed
    |   |-- PluginClashError              several plug-ins have this name
    |   |-- PluginIncompatibleError       made for another version of Amanda
    |   `-- PluginBrokenError             it does not load, or broke its contract
    |-- NumericMismatchError          5   two runs that should agree differ
    `-- InternalError                 70  a bug in Amanda

An error states who (file, op, rule, plug-in), where, what was expected and what was
found, and what to do. `str(error)` is the text that users see.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

__all__ = [
    "AmandaError",
    "AmandaWarning",
    "BackendError",
    "ConversionError",
    "CycleError",
    "DuplicateNameError",
    "ForeignPortError",
    "FormatError",
    "GoneError",
    "GraphError",
    "InUseError",
    "InternalError",
    "InvalidTypeError",
    "LimitError",
    "NamespaceError",
    "NumericMismatchError",
    "PluginBrokenError",
    "PluginClashError",
    "PluginError",
    "PluginIncompatibleError",
    "PluginMissingError",
    "Undecided",
    "UnknownFormatError",
    "UsageError",
]

_SHOWN = 20  # problems listed in the text; `problems` holds them all


class AmandaError(Exception):
    """The root of the tree. All parts except the message are optional.

    >>> print(AmandaError("the shape does not fit", who="op 'conv1'", where="input 1",
    ...                   expected="rank 4", got="rank 3", hint="add a batch axis"))
    the shape does not fit
      who:      op 'conv1'
      where:    input 1
      expected: rank 4
      got:      rank 3
      to do:    add a batch axis
    """

    exit_code: ClassVar[int] = 1

    def __init__(
        self,
        message: str,
        *,
        who: object = None,
        where: object = None,
        expected: object = None,
        got: object = None,
        hint: str | None = None,
        problems: Iterable[str] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.who = None if who is None else str(who)
        self.where = None if where is None else str(where)
        self.expected = None if expected is None else str(expected)
        self.got = None if got is None else str(got)
        self.hint = hint
        self.problems = tuple(problems)

    def parts(self) -> dict[str, str]:
        """The known parts, by the names that `str` and `--json` show."""
        parts = {
            "who": self.who,
            "where": self.where,
            "expected": self.expected,
            "got": self.got,
            "to do": self.hint,
        }
        return {name: text for name, text in parts.items() if text is not None}

    def __str__(self) -> str:
        lines = [self.message]
        lines += [f"  {name + ':':9} {text}" for name, text in self.parts().items()]
        lines += [f"  - {problem}" for problem in self.problems[:_SHOWN]]
        if len(self.problems) > _SHOWN:
            lines.append(f"  ... and {len(self.problems) - _SHOWN} more")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.__dict__.copy()))


def _rebuild(kind: type[AmandaError], state: dict[str, object]) -> AmandaError:
    error = kind.__new__(kind)
    Exception.__init__(error, state["message"])
    error.__dict__.update(state)
    return error


class AmandaWarning(UserWarning):
    """What works, but not as its caller may expect; the text says what to do."""


class UsageError(AmandaError):
    """Invalid arguments."""

    exit_code = 2


class GraphError(AmandaError):
    """A change that would break the graph; the graph is as it was before."""


class CycleError(GraphError):
    """An op would depend on itself."""


class DuplicateNameError(GraphError):
    """A name that is in use."""


class ForeignPortError(GraphError):
    """A value of another graph, which cannot be read here."""


class InUseError(GraphError):
    """Something still uses what would be removed."""


class GoneError(GraphError):
    """A handle to a value that was removed and not replaced."""


class InvalidTypeError(AmandaError):
    """An invalid type, dim or attribute value."""


class Undecided(AmandaError):
    """A question about dims or types that the known facts do not answer."""


class FormatError(AmandaError):
    """A file or text that cannot be read or written; `where` is the position."""


class UnknownFormatError(FormatError):
    """No installed format knows this file."""

    exit_code = 3


class LimitError(FormatError):
    """Input that exceeds limits of time or memory."""


class NamespaceError(AmandaError):
    """A dictionary, or an op in one, that does not exist."""


class ConversionError(AmandaError):
    """Ops that no rule maps: all the gaps at once, in `problems`."""


class BackendError(AmandaError):
    """A backend cannot do this."""

    exit_code = 4


class PluginError(AmandaError):
    """A plug-in, and its fault."""

    exit_code = 3


class PluginMissingError(PluginError):
    """Nothing with this name is installed."""


class PluginClashError(PluginError):
    """Several plug-ins have this name."""


class PluginIncompatibleError(PluginError):
    """A plug-in made for another version of Amanda."""


class PluginBrokenError(PluginError):
    """A plug-in that does not load, or that broke its contract."""


class NumericMismatchError(AmandaError):
    """Two runs that should agree differ."""

    exit_code = 5


class InternalError(AmandaError):
    """A bug in Amanda."""

    exit_code = 70
