"""`amanda ops`: list, search, show and compare op definitions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from amanda.cli.group import verb
from amanda.cli.output.answer import Answer, Table
from amanda.cli.output.op_entries import (
    definition_data,
    difference_answer,
    list_row,
    one_line,
)
from amanda.errors import NamespaceError, UsageError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from amanda.backend import Implementation
    from amanda.dictionary import Dictionary, OpDef

__all__ = ["command", "open_dictionary"]

_KINDS = frozenset(("primitive", "composite"))


def _complete_namespace(
    _: click.Context, __: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Complete a namespace, or its version after `@`."""
    from click.shell_completion import CompletionItem

    path, mark, version = begun.partition("@")
    found = []
    for known, versions in _installed_versions().items():
        name = known.removeprefix("amanda/")
        if mark and name == path:
            found += [f"{name}@{v}" for v in versions if v.startswith(version)]
        elif not mark and name.startswith(begun):
            found.append(name)
    return [CompletionItem(name) for name in found]


def _complete_op(
    ctx: click.Context, _: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Complete an op of the given namespace."""
    from click.shell_completion import CompletionItem

    named = ctx.params.get("namespace")
    if named is None:
        return []
    try:
        names = list(open_dictionary(named))
    except NamespaceError:
        return []
    return [CompletionItem(name) for name in names if name.startswith(begun)]


@verb("ops", "the ops of a framework's version: list, search, show, compare")
@click.argument("namespace", required=False, shell_complete=_complete_namespace)
@click.argument("op", required=False, shell_complete=_complete_op)
@click.option("--search", metavar="TEXT", help="Ops with TEXT in name or doc.")
@click.option("--tag", metavar="TAG", help="Ops with a tag, such as core.")
@click.option("--since", metavar="VERSION", help="Ops defined in VERSION or later.")
@click.option(
    "--diff",
    "other",
    metavar="OTHER",
    shell_complete=_complete_namespace,
    help="Compare with another version.",
)
@click.option("--assume", is_flag=True, help="Use a lower version if unknown.")
@click.option(
    "--backend",
    metavar="BACKEND",
    help="Show how BACKEND implements OP, by dtype where that decides.",
)
@click.option(
    "--missing", is_flag=True, help="List ops that lack samples, gradients etc."
)
def command(
    namespace: str | None,
    op: str | None,
    *,
    search: str | None,
    tag: str | None,
    since: str | None,
    other: str | None,
    assume: bool,
    backend: str | None,
    missing: bool,
) -> Answer:
    """List the ops of NAMESPACE, such as `onnx@18` or `tensorflow@1.13.1`.

    With OP, show its definition. The default version is the newest. Without NAMESPACE,
    list the dictionaries, or with --search, search all of them.

    `amanda ops torch --diff 2.5 2.13` compares two versions, `amanda ops onnx@18 Conv
    --diff 22` one op. `amanda ops std matmul --backend numpy` shows what runs it there.
    `amanda ops std --missing` lists ops without samples, inference, or a gradient or
    the reason for none.

    Examples:
        amanda ops onnx@18 Conv
        amanda ops onnx --diff 17 18
        amanda ops --search depthwise
    """
    about = [search, tag, since]
    if backend is not None and (op is None or other is not None):
        raise UsageError(
            "--backend applies to one op", hint="amanda ops std matmul --backend numpy"
        )
    if missing:
        if namespace is None or any(x is not None for x in (op, other, *about)):
            raise UsageError(
                "--missing applies to all ops of one namespace",
                hint="amanda ops std --missing",
            )
        return _missing_parts(namespace, assume=assume)
    if namespace is None:
        if any(one is not None for one in (tag, since, other)):
            raise UsageError(
                "a namespace is required", hint="amanda ops onnx --since 18"
            )
        return _list_dictionaries() if search is None else _search_all(search)
    if other is not None:
        if any(one is not None for one in about):
            raise UsageError(
                "--diff cannot be combined with --search, --tag or --since"
            )
        return _compare_versions(namespace, op, other, assume=assume)
    dictionary = open_dictionary(namespace, assume=assume)
    if op is not None:
        if any(one is not None for one in about):
            raise UsageError("OP cannot be combined with --search, --tag or --since")
        several = [] if op in dictionary else dictionary.overloads(op)
        if several:
            return _list_answer(dictionary, several, f"named {op!r}")
        return _definition_answer(dictionary, dictionary[op], backend)
    return _filtered_ops(dictionary, search, tag, since)


def _filtered_ops(
    dictionary: Dictionary, search: str | None, tag: str | None, since: str | None
) -> Answer:
    """The ops that match all options."""
    from amanda.dictionary import version_key

    found = list(dictionary.values()) if search is None else dictionary.search(search)
    criteria = [] if search is None else [f"matching {search!r}"]
    if tag is not None:
        found = [entry for entry in found if entry.tag(tag) is not None]
        criteria.append(f"tagged {tag!r}")
    if since is not None:
        begin = version_key(since)
        found = [entry for entry in found if version_key(entry.since) >= begin]
        criteria.append(f"defined in {since} or later")
    return _list_answer(dictionary, found, " ".join(criteria))


def _search_all(text: str) -> Answer:
    """Search the newest versions of all dictionaries."""
    rows: list[tuple[Dictionary, OpDef]] = []
    count = 0
    for path in _installed_versions():
        try:
            dictionary = open_dictionary(path)
        except NamespaceError:  # one that has names only
            continue
        count += 1
        rows += [(dictionary, entry) for entry in dictionary.search(text)]
    ops = [{"namespace": d.name, **list_row(entry)} for d, entry in rows]
    lines: list[str | Table] = []
    if rows:
        table = [(d.path, entry.name, one_line(entry)) for d, entry in rows]
        lines = [Table(("namespace", "op", "what"), table), ""]
    lines.append(f"{len(rows)} ops of {count} dictionaries match {text!r}")
    return Answer({"count": len(ops), "ops": ops}, lines, exit_code=int(not ops))


def _compare_versions(
    namespace: str, op: str | None, other: str, *, assume: bool
) -> Answer:
    """Compare versions: `torch --diff 2.5 2.13`, `onnx@18 --diff onnx@19`."""
    from amanda.dictionary import parse_name

    path = parse_name(namespace).path
    if op is not None and op[0].isdigit():
        namespace, other, op = f"{path}/{other}", op, None
    if other[0].isdigit():
        other = f"{path}/{other}"
    old = open_dictionary(namespace, assume=assume)
    new = open_dictionary(other, assume=assume)
    if op is None:
        return difference_answer(old.diff(new))
    if op not in old and op not in new:
        raise NamespaceError(
            f"neither {old.name} nor {new.name} has an op {op!r}",
            hint=new.suggest(op),
        )
    return difference_answer(old.diff(new, only=op))


def _missing_parts(name: str, *, assume: bool) -> Answer:
    """List what the ops of a namespace lack; exit code 1 if there is any."""
    from amanda.api.namespaces import namespace

    found = namespace(name, assume=assume)
    missing = getattr(found, "missing", None)
    if missing is None:
        raise NamespaceError(
            f"{found.name} does not list what its ops lack",
            expected="a namespace that defines its ops, with a method `missing`",
            hint="amanda ops std --missing",
        )
    lacking: dict[str, list[str]] = {k: list(v) for k, v in missing().items()}
    count = sum(1 for _ in found)
    data = {"namespace": found.name, "count": count, "missing": lacking}
    lines: list[str | Table] = [f"none of {count} ops of {found.name} lacks anything"]
    if lacking:
        rows = [(op, ", ".join(parts)) for op, parts in lacking.items()]
        total = f"{len(lacking)} of {count} ops of {found.name} lack something"
        lines = [Table(("op", "missing"), rows), "", total]
    return Answer(data, lines, exit_code=int(bool(lacking)))


def open_dictionary(name: str, *, assume: bool = False) -> Dictionary:
    """The dictionary of a name, if it has op definitions."""
    from amanda.api.namespaces import namespace
    from amanda.dictionary import Dictionary

    found = namespace(name, assume=assume)
    dictionary = Dictionary.of(found)
    if dictionary is None:
        raise NamespaceError(
            f"the dictionary of {name} has names of ops only",
            got=", ".join(sorted(found)[:20]),
        )
    return dictionary


def _installed_versions() -> dict[str, list[str]]:
    """The versions of each installed dictionary, from the manifests."""
    from amanda.dictionary import parse_name
    from amanda.host import default_host

    entries = [e for e in default_host().entries("namespaces") if not e.fault]
    return {
        parse_name(entry.name).path: list(entry.manifest.get("versions", ()))
        for entry in entries
    }


def _list_dictionaries() -> Answer:
    """List the installed dictionaries."""
    from amanda.dictionary import newest_version

    found = _installed_versions()
    rows = [
        (
            path,
            len(versions),
            versions[0] if versions else "?",
            newest_version(versions) or "?",
        )
        for path, versions in found.items()
    ]
    data = [{"namespace": path, "versions": found[path]} for path in found]
    text: list[str | Table] = ["no dictionary is installed"]
    if rows:
        text = [Table(("namespace", "versions", "first", "newest"), rows)]
    return Answer({"namespaces": data}, text)


# -- one op ------------------------------------------------------------------------


def _definition_answer(
    dictionary: Dictionary, op_def: OpDef, backend: str | None
) -> Answer:
    data = {**_head(dictionary), "op": definition_data(op_def)}
    lines = list(_definition_lines(dictionary, op_def))
    if backend is not None:
        rows = _implementations(dictionary, op_def, backend)
        data["implementations"] = [
            {"dtypes": list(row.dtypes), "name": row.name} for row in rows
        ]
        table = [(", ".join(row.dtypes) or "any", row.name) for row in rows]
        lines += ["", Table(("dtype", f"on {backend}"), table)]
    return Answer(data, lines)


def _implementations(
    dictionary: Dictionary, op_def: OpDef, name: str
) -> list[Implementation]:
    """How a backend implements ops of a definition; an error if it does not say so."""
    from amanda.api.compilation import find_backend
    from amanda.backend import consumes
    from amanda.host import default_host

    host = default_host()
    backend = find_backend(host, name)
    if not consumes(dictionary.name, backend.namespace):
        raise UsageError(
            f"backend {name!r} does not run ops of {dictionary.name}",
            expected=f"an op of {backend.namespace}",
        )
    found = backend.implementations(op_def)
    if not found:
        raise UsageError(f"backend {name!r} reports no implementation of {op_def.name}")
    return found


def _head(dictionary: Dictionary) -> dict[str, object]:
    return {"namespace": dictionary.name, "assumed": dictionary.assumed}


def _definition_lines(dictionary: Dictionary, op_def: OpDef) -> Iterator[str | Table]:
    yield from _assumption(dictionary)
    yield op_def.signature
    if op_def.doc:
        yield f"\n{op_def.doc}"
    if docs := op_def.docs:
        yield ""
        rows = [(*part.split(" "), doc) for part, doc in docs.items()]
        yield Table(("", "name", "what"), rows)
    until = f", until {op_def.until}" if op_def.until else ""
    yield f"\n{dictionary.path}: since {op_def.since}{until}"
    if op_def.deprecated is not None:
        why = f": {op_def.deprecated.why}" if op_def.deprecated.why else ""
        use = f"; use {op_def.deprecated.use}" if op_def.deprecated.use else ""
        yield f"deprecated since {op_def.deprecated.version}{why}{use}"


def _assumption(dictionary: Dictionary) -> Iterator[str]:
    if dictionary.assumed is not None:
        known = f"{dictionary.path}/{dictionary.assumed}"
        yield f"{dictionary.name} is unknown; {known} is used\n"


# -- many ops ----------------------------------------------------------------------


def _list_answer(dictionary: Dictionary, found: list[OpDef], criteria: str) -> Answer:
    ops = [list_row(entry) for entry in found]
    data = {**_head(dictionary), "count": len(ops), "ops": ops}
    return Answer(
        data, _list_lines(dictionary, found, criteria), exit_code=int(not ops)
    )


def _list_lines(
    dictionary: Dictionary, found: list[OpDef], criteria: str
) -> Iterator[str | Table]:
    yield from _assumption(dictionary)
    if found:
        yield _list_table(found)
        yield ""
    total = f"{len(found)} of {len(dictionary)} ops of {dictionary.name}"
    yield f"{total} {criteria}".rstrip()


def _list_table(found: list[OpDef]) -> Table:
    """A row for each op; those of a hub are marked as primitive or composite."""
    kinds = [next(iter(op_def.tags & _KINDS), None) for op_def in found]
    if None in kinds:
        rows = [(op_def.name, op_def.since, one_line(op_def)) for op_def in found]
        return Table(("op", "since", "what"), rows)
    marked = zip(found, kinds, strict=True)
    rows = [(op_def.name, kind or "", one_line(op_def)) for op_def, kind in marked]
    return Table(("op", "kind", "what"), rows)
