"""Checks of argument kinds, derived from the annotations of public functions.

`check_arguments(globals())` at the end of a face, the core's or a plug-in's, wraps its
functions, and the public methods and constructors of its classes. An argument of
another kind than annotated is a UsageError before anything changes. The annotations are
read on the first call; after that, an argument costs one lookup of its class.

`checks_itself` marks functions whose bodies check their arguments, for speed.
"""

from __future__ import annotations

import builtins
import inspect
import io
import re
import sys
import types
import typing
from collections import abc
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from functools import cache, lru_cache, wraps
from importlib import import_module
from itertools import islice
from numbers import Integral, Real
from typing import Any, TypeVar, get_type_hints

from amanda.errors import UsageError

__all__ = [
    "argument_check",
    "argument_error",
    "check_arguments",
    "check_member",
    "checks_itself",
    "without_checks",
]

_Function = TypeVar("_Function", bound=Callable[..., Any])
_OPERATORS = ("__init__", "__new__", "__call__", "__getitem__")
_NUMBERS: dict[Any, Any] = {int: Integral, float: Real, complex: (Real, complex)}
_CONFUSIONS = (TypeError, AttributeError, LookupError, ValueError)
"""What code raises that meets elements of a wrong kind."""
_SHOWN = 1000  # elements of a collection that an explanation looks at
_OFTEN = 100  # calls of a function, after which its checks are compiled
_MARK = "_checks_its_arguments"


def checks_itself(function: _Function) -> _Function:
    """Leave a function or class as it is: it checks its arguments itself."""
    setattr(function, _MARK, True)
    return function


def check_arguments(face: MutableMapping[str, Any], *late: str) -> None:
    """Check the arguments of the public functions and classes of a module.

    `late` names modules that annotations refer to and that are imported on first use.
    """
    for name in face["__all__"]:
        face[name] = check_member(face[name], *late)


def check_member(member: Any, *late: str) -> Any:
    """The function with checks of its arguments; a class receives them in place."""
    if inspect.isfunction(member):
        return _check_calls_of(member, _Signature(member, member.__name__, 0, late))
    if inspect.isclass(member):
        _check_class(member, late)
    return member


def argument_check(function: Callable[..., Any], *late: str) -> Callable[..., None]:
    """The check alone, called as the method is: for bodies that check rarely."""
    who = ".".join(function.__qualname__.split(".")[-2:]).removesuffix(".__init__")
    return _Signature(function, who, 1, late).check


def without_checks(function: _Function) -> _Function:
    """A function or a bound method without the check, for loops over the ops of a graph
    that pass it what is of the right kind by construction."""
    found: Any = function
    if inspect.ismethod(found):
        return types.MethodType(without_checks(found.__func__), found.__self__)  # type: ignore[return-value]
    return getattr(found, "__wrapped__", found) if hasattr(found, _MARK) else found  # type: ignore[no-any-return]


def argument_error(
    who: str, parameter: str, expected: str, got: object, hint: str | None = None
) -> UsageError:
    """The error of an argument of the wrong kind."""
    return UsageError(
        f"{who} does not take this argument",
        where=f"argument {parameter!r}",
        expected=expected,
        got=_describe(got),
        hint=hint,
    )


def _describe(value: object) -> str:
    if value is None or isinstance(value, bool | int | float | str | bytes):
        text = repr(value)
        text = text if len(text) <= 60 else f"{text[:60]}..."
        return "None" if value is None else f"{type(value).__name__} {text}"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return type(value).__name__


def _check_class(cls: type, late: Sequence[str]) -> None:
    """Check the arguments of the methods of a class, also of its private bases."""
    if issubclass(cls, BaseException) or getattr(cls, "_is_protocol", False):
        return
    if _MARK in vars(cls):
        return
    type.__setattr__(cls, _MARK, True)
    bases = cls.__mro__[1:]
    for base in bases:
        if _is_near(base, cls) and _is_public(base):
            _check_class(base, late)
    for name in dir(cls):
        home = next((base for base in cls.__mro__ if name in vars(base)), object)
        is_own = home is cls or (_is_near(home, cls) and not _is_public(home))
        if is_own and (not name.startswith("_") or name in _OPERATORS):
            _check_method(cls, name, vars(home)[name], late)


def _check_method(cls: type, name: str, member: Any, late: Sequence[str]) -> None:
    is_bound = isinstance(member, staticmethod | classmethod)
    function = member.__func__ if is_bound else member
    if not inspect.isfunction(function):
        return
    is_maker = name in _OPERATORS[:2]
    who = cls.__name__ if is_maker else f"{cls.__name__}.{name}"
    skip = 0 if isinstance(member, staticmethod) and not is_maker else 1
    late = (cls.__module__, *late)  # the maker of a named tuple has no module
    checked = _check_calls_of(function, _Signature(function, who, skip, late))
    if checked is not function:
        type.__setattr__(cls, name, type(member)(checked) if is_bound else checked)


def _is_near(base: type, cls: type) -> bool:
    """Whether two classes are of one distribution."""
    packages = {each.__module__.partition(".")[0] for each in (base, cls)}
    return len(packages) == 1


def _is_public(cls: type) -> bool:
    face = sys.modules.get(cls.__module__.rpartition(".")[0])
    return cls.__name__ in getattr(face, "__all__", ())


def _check_calls_of(_function: Any, _signature: _Signature) -> Any:
    """The function behind a check of its arguments, if it has any."""
    if hasattr(_function, _MARK) or not _signature.has_arguments:
        return _function

    @wraps(_function)
    def call_checked(*args: Any, **kwargs: Any) -> Any:
        _signature.check(*args, **kwargs)
        if _signature.is_generator:
            return _signature.iterate(args, kwargs)
        if _signature.is_called_often():
            _compile_checks(_signature.checked, _signature)
        try:
            return _function(*args, **kwargs)
        except _CONFUSIONS as error:
            _signature.explain(error, args, kwargs)
            raise

    _signature.checked = call_checked
    setattr(call_checked, _MARK, True)
    return call_checked


def _compile_checks(call_checked: Any, signature: _Signature) -> None:
    """Replace the code of a checked function, which takes any arguments, by code for
    its parameters, which takes a third of the time.

    For `def add(self, x, *, name=None)` it is

        def call_checked(self, x, *, name):
            _kinds = _signature.kinds
            if x.__class__ not in _kinds[1]: _kinds[1].check(x)
            if name.__class__ not in _kinds[2]: _kinds[2].check(name)
            try: return _function(self, x, name=name)
            except _CONFUSIONS as _error:
                _signature.explain(_error, [self, x], dict(name=name))
                raise
    """
    function, ordered = signature.function, [kind.name for kind in signature.ordered]
    parameters, named = list(ordered), list(signature.named)[len(ordered) :]
    if function.__code__.co_posonlyargcount:
        parameters.insert(function.__code__.co_posonlyargcount, "/")
    if named:
        parameters += ["*", *named]
    by_name = [f"{name}={name}" for name in named]
    checks = [
        f"if {kind.name}.__class__ not in _kinds[{i}]: _kinds[{i}].check({kind.name})"
        for i, kind in enumerate(signature.kinds)
        if not kind.is_any
    ]
    given = f"[{', '.join(ordered)}], dict({', '.join(by_name)})"
    lines = [
        "def bind(_function, _signature):",
        f" def call_checked({', '.join(parameters)}):",
        "  _kinds = _signature.kinds",
        *(f"  {check}" for check in checks),
        f"  try: return _function({', '.join(ordered + by_name)})",
        "  except _CONFUSIONS as _error:",
        f"   _signature.explain(_error, {given})",
        "   raise",
        " return call_checked",
    ]
    scope: dict[str, Any] = {}
    exec("\n".join(lines), scope)  # noqa: S102  # it consists of names of parameters
    call_checked.__defaults__ = function.__defaults__
    call_checked.__kwdefaults__ = function.__kwdefaults__
    call_checked.__code__ = scope["bind"](None, None).__code__


class _Signature:
    """The kinds of the parameters of a function, read from it on first use."""

    def __init__(self, function: Any, who: str, skip: int, late: Sequence[str]) -> None:
        self.is_generator = inspect.isgeneratorfunction(function)
        function = inspect.unwrap(function)
        self.function, self.who = function, who
        self._skip, self._late = skip, late
        self._hints: dict[str, Any] = {}
        self._defaults: dict[str, Any] = {}
        self._rest: _Kind | None = None
        code = function.__code__
        count = code.co_argcount
        names = code.co_varnames[: count + code.co_kwonlyargcount]
        self.has_arguments = bool(
            len(names) > skip or code.co_flags & inspect.CO_VARARGS
        )
        self.kinds = [_Kind(self, name, i < skip) for i, name in enumerate(names)]
        self.ordered = self.kinds[:count]
        self.named = dict(zip(names, self.kinds, strict=True))
        if code.co_flags & inspect.CO_VARARGS:
            self._rest = _Kind(self, code.co_varnames[len(names)], False)
        is_open = code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
        self._left = 0 if is_open or self.is_generator else _OFTEN
        self.checked: Any = None  # the function that callers get

    def is_called_often(self) -> bool:
        """Whether this call is the one after which the checks are worth compiling."""
        self._left -= 1
        return self._left == 0

    def check(self, /, *args: Any, **kwargs: Any) -> None:
        """Check the arguments of a call."""
        for value, kind in zip(args, self.ordered, strict=False):
            if value.__class__ not in kind:
                kind.check(value)
        for name, value in kwargs.items():
            if name in self.named and value.__class__ not in self.named[name]:
                self.named[name].check(value)
        if self._rest is not None:
            for value in args[len(self.ordered) :]:
                if value.__class__ not in self._rest:
                    self._rest.check(value)

    def iterate(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[Any]:
        """What a generator function yields."""
        if len(args) == self._skip and not kwargs:  # nothing that may be wrong
            return self.function(*args)  # type: ignore[no-any-return]
        return self._iterate(args, kwargs)

    def _iterate(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[Any]:
        try:
            yield from self.function(*args, **kwargs)
        except _CONFUSIONS as error:
            self.explain(error, args, kwargs)
            raise

    def explain(
        self, error: Exception, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        """Raise UsageError if elements of an argument are of the wrong kind."""
        names = [kind.name for kind in self.ordered]
        given = list(zip(names, args, strict=False))[self._skip :]
        if self._rest is not None:
            given += [(self._rest.name, value) for value in args[len(names) :]]
        for name, value in (*given, *kwargs.items()):
            wanted = self.annotation(name)
            if not fits_deeply(value, wanted) and value is not self.default(name):
                expected = describe_annotation(wanted)
                raise argument_error(self.who, name, expected, value) from error

    def fits_text(self, value: Any, name: str) -> bool:
        """Whether a value is an instance of a class that the annotation of a parameter
        names; that takes no evaluation of the annotation."""
        annotation = self.function.__annotations__.get(name, "Any")
        text = getattr(annotation, "__forward_arg__", annotation)
        return isinstance(text, str) and any(
            self._is_named(value, word) for word in _heads(text)
        )

    def _is_named(self, value: Any, word: str) -> bool:
        """Whether a value is an instance of the class that a word names."""
        if word == "None":
            return value is None
        found = self._find(word)
        return found is Any or (isinstance(found, type) and _is_instance(value, found))

    def _find(self, word: str) -> Any:
        scope = self.function.__globals__
        found = scope.get(word, getattr(builtins, word, _NOTHING))
        if found is not _NOTHING or not word.isidentifier():
            return found
        try:
            return _find_name(word, _package_of(scope), *self._late)
        except LookupError:
            return _NOTHING

    def annotation(self, name: str) -> Any:
        """The annotation of a parameter; Any if there is none."""
        if name not in self._hints:
            text = self.function.__annotations__.get(name, Any)

            def holder() -> None:
                """A function with this annotation only; each takes its time."""

            holder.__annotations__ = {name: text}
            names = _Names(self.function.__globals__, self._late)
            self._hints.update(get_type_hints(holder, {}, names))
        return self._hints[name]

    def default(self, name: str) -> Any:
        """The default of a parameter; `_NOTHING` if there is none."""
        if not self._defaults:
            for parameter in inspect.signature(self.function).parameters.values():
                is_absent = parameter.default is inspect.Parameter.empty
                found = _NOTHING if is_absent else parameter.default
                self._defaults[parameter.name] = found
        return self._defaults[name]


_NOTHING = object()


class _Names(dict[str, Any]):
    """The names of a module, and those that it imports for type checkers only."""

    def __init__(self, scope: Mapping[str, Any], late: Sequence[str]) -> None:
        super().__init__(scope)
        self._late = late

    def __getitem__(self, name: str) -> Any:
        found = super().__getitem__(name)  # an alias may be text
        return typing.ForwardRef(found) if isinstance(found, str) else found

    def __missing__(self, name: str) -> Any:
        if hasattr(builtins, name):
            raise KeyError(name)
        try:
            return _find_name(name, _package_of(self), *self._late)
        except LookupError:
            return Any


def _package_of(scope: Mapping[str, Any]) -> str:
    """The package of the module with these names."""
    return str(scope.get("__name__", "")).rpartition(".")[0]


@lru_cache(1 << 12)
def _heads(text: str) -> tuple[str, ...]:
    """The alternatives of an annotation, without their arguments.

    >>> _heads("Sequence[int | None] | str")
    ('Sequence', 'str')
    """
    depth, heads = 0, [""]
    for part in re.split(r"([\[\]|])", text):
        if part in ("[", "]"):
            depth += 1 if part == "[" else -1
        elif not depth:
            heads += [""] if part == "|" else []
            heads[-1] += "" if part == "|" else part.strip()
    return tuple(heads)


@cache
def _find_name(name: str, package: str, *late: str) -> Any:
    """What a name is in these modules, near the package, or elsewhere in Amanda;
    LookupError where no module has it yet."""
    ours = [n for n in list(sys.modules) if n.startswith("amanda")]
    near = [n for n in ours if n.startswith(package)]
    for home in (*late, *near, "collections.abc", *ours):
        module = sys.modules.get(home) or import_module(home)
        if name in vars(module):
            return vars(module)[name]
    raise LookupError(name)


class _Kind(set[type]):
    """The annotation of a parameter, and the classes that are known to satisfy it."""

    __slots__ = ("_signature", "_values", "is_any", "name")

    def __init__(self, signature: _Signature, name: str, is_any: bool) -> None:
        self._signature, self.name, self.is_any = signature, name, is_any
        self._values: frozenset[Any] = frozenset()
        """The values of an annotation that is a Literal and nothing else."""

    def check(self, value: Any) -> None:
        """Raise UsageError unless the value is of the annotated kind."""
        if self.is_any:
            self.add(value.__class__)
            return
        if value.__class__ is str and value in self._values:
            return
        if value.__class__ is not type and self._signature.fits_text(value, self.name):
            self.add(value.__class__)
            return
        wanted = self._signature.annotation(self.name)
        if typing.get_origin(wanted) is typing.Literal:
            self._values = frozenset(typing.get_args(wanted))
        if not satisfies(value, wanted):
            if value is self._signature.default(self.name):
                return
            who, expected = self._signature.who, describe_annotation(wanted)
            hint = getattr(wanted, "argument_hint", None)
            raise argument_error(who, self.name, expected, value, hint)
        if value.__class__ is not type and "Literal" not in str(wanted):
            self.add(value.__class__)


def satisfies(value: Any, wanted: Any) -> bool:
    """Whether a value is of an annotated kind; elements are not looked at."""
    if wanted is Any or isinstance(wanted, TypeVar):
        return True
    if wanted is None:
        return value is None
    origin = typing.get_origin(wanted)
    words = typing.get_args(wanted)
    if origin in (typing.Union, types.UnionType):
        return any(satisfies(value, word) for word in words)
    if origin is typing.Literal:
        return any(value is w or (type(value) is type(w) and value == w) for w in words)
    if origin in (typing.Annotated, typing.Final):
        return satisfies(value, words[0])
    return _is_instance(value, wanted if origin is None else origin)


def _is_instance(value: Any, wanted: Any) -> bool:
    if not isinstance(wanted, type):
        return True
    if wanted in (typing.BinaryIO, typing.TextIO):  # which real files do not inherit
        return isinstance(value, io.IOBase) or hasattr(value, "write")
    if wanted in _NUMBERS:
        return isinstance(value, _NUMBERS[wanted])
    if isinstance(value, str | bytes | bytearray) and wanted in _COLLECTIONS:
        return False  # a text is not meant as a collection of letters
    try:
        return isinstance(value, wanted)
    except TypeError:  # a protocol that cannot be checked at run time
        return True


def fits_deeply(value: Any, wanted: Any) -> bool:
    """Whether a value is of an annotated kind, its elements and members too."""
    origin, words = typing.get_origin(wanted), typing.get_args(wanted)
    if origin in (typing.Union, types.UnionType):
        return any(fits_deeply(value, word) for word in words)
    if not satisfies(value, wanted):
        return False
    kind = wanted if origin is None else origin
    if getattr(kind, "_is_protocol", False):
        members = (*vars(kind), *inspect.get_annotations(kind))
        names = [name for name in members if not name.startswith("_")]
        return all(hasattr(value, name) for name in names)
    if isinstance(value, Mapping) and len(words) == 2:
        items = value.items()
        rows = [pair for item in items for pair in zip(item, words, strict=True)]
    elif kind is tuple and words[-1:] != (Ellipsis,):
        if words and len(value) != len(words):
            return False
        rows = list(zip(value, words, strict=False))
    elif isinstance(value, abc.Iterable) and not isinstance(value, abc.Iterator):
        rows = [(each, word) for word in words[:1] for each in islice(value, _SHOWN)]
    else:
        return True
    return all(fits_deeply(each, word) for each, word in rows)


_COLLECTIONS = (abc.Sequence, abc.Iterable, abc.Collection, abc.Set, abc.Container)


def describe_annotation(wanted: Any) -> str:
    """An annotation as messages show it."""
    if wanted is None or wanted is type(None):
        return "None"
    words = typing.get_args(wanted)
    if typing.get_origin(wanted) in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(map(describe_annotation, words)))
    if isinstance(wanted, type) and not words:
        return wanted.__name__
    return re.sub(r"\b[\w.]+\.(?=\w)", "", str(wanted))
