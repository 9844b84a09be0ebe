"""The archives of exported programs: `.pt2` of PyTorch 2.8 on, and those before."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import amanda
from amanda.dictionary import Dictionary
from amanda.errors import FormatError
from amanda.formatkit import Archive, MessageFile
from amanda.graph import Graph
from amanda.tensors import Tensor
from amanda_torch.payloads import Payload, Payloads, member_tensor, read_table
from amanda_torch.reader import read_program
from amanda_torch.records import PROGRAM_RECORDS

__all__ = [
    "DEFAULT_MODEL", "MEMBERS", "NO_TENSORS", "Members", "ProgramParts", "read_archive",
    "read_parts",
]  # fmt: skip

DEFAULT_MODEL: Final = "model"
NO_TENSORS: Final[Mapping[str, Tensor]] = MappingProxyType({})


class Members(NamedTuple):
    """Where an archive has the parts of a model, relative to its root folder."""

    program: str = "models/{}.json"
    weights: str = "data/weights/"
    weights_table: str = "data/weights/{}_weights_config.json"
    constants: str = "data/constants/"
    constants_table: str = "data/constants/{}_constants_config.json"
    samples: str = "data/sample_inputs/{}.pt"
    extra: str = "extra/"


MEMBERS: Final = Members()
_OLD_PROGRAM: Final = "serialized_exported_program.json"
_OLD_WEIGHTS: Final = "serialized_state_dict.pt"
"""Members of PyTorch 2.1 to 2.7."""
_REFUSED: Final = {
    "data/aotinductor/": (
        "this is a model that AOTInductor compiled, without its graph",
        "save the exported program: torch.export.save(program, path)",
    ),
    "constants.pkl": (
        "this is TorchScript, which PyTorch reads: it needs example inputs",
        "amanda.load(path, args=[...]), with PyTorch installed",
    ),
    "data.pkl": (
        "this is a pickle of PyTorch, which is never opened",
        "save the weights as safetensors, or the model with torch.export.save",
    ),
}  # fmt: skip


class ProgramParts(NamedTuple):
    """A program in an archive or in memory: its JSON, its tensors, other members."""

    program: Mapping[str, Any]
    weights: Payloads
    constants: Payloads
    members: Mapping[str, Tensor]
    model: str = DEFAULT_MODEL


def read_archive(
    file: MessageFile, model: str | None, version: str | None,
    given: Mapping[str, Tensor] = NO_TENSORS,
) -> Graph:  # fmt: skip
    """The graph of a model in an archive, whose weights stay in the file.

    `given` are tensors by name, in the place of those of the archive.
    """
    archive = Archive(file)
    names = [name for name in archive.members if not name.endswith("/")]
    root = _root_folder(names)
    inside = {name.removeprefix(root): name for name in names}
    is_old = _OLD_PROGRAM in inside
    chosen = DEFAULT_MODEL if is_old else _choose_model(inside, model)
    name = _OLD_PROGRAM if is_old else MEMBERS.program.format(chosen)
    program = _expect_program(archive.read_json(root + name))
    weights, constants = [
        _payloads(archive, root, chosen, folder, table, given)
        for folder, table in (
            (MEMBERS.weights, MEMBERS.weights_table),
            (MEMBERS.constants, MEMBERS.constants_table),
        )
    ]  # fmt: skip
    kept = [name for name in inside if name.startswith(MEMBERS.extra)]
    kept += [n for n in inside if n == MEMBERS.samples.format(chosen)]
    members = {name: member_tensor(archive, inside[name]) for name in kept}
    parts = ProgramParts(program, weights, constants, members, chosen)
    return read_parts(parts, version)


def read_parts(
    parts: ProgramParts, version: str | None, given: Mapping[str, Tensor] = NO_TENSORS
) -> Graph:
    """The graph of a program, with `given` tensors in the place of some of its own."""
    program, *tables = parts[:3]
    weights, constants = (_replace_payloads(table, given) for table in tables)
    graph = read_program(program, dictionary_of(program, version), weights, constants)
    used = {op.attrs["target"] for op in graph if op.type == "get_attr"}
    rest = {
        name: {
            **payload.record, "tensor": payload.tensor, "is_param": payload.is_param,
            "is_constant": is_constant,
        }
        for table, is_constant in ((weights, False), (constants, True))
        for name, payload in table.items() if name not in used
    }  # fmt: skip
    members = {
        name: content for name, content in parts.members.items() if content.nbytes
    }
    named = "" if parts.model == DEFAULT_MODEL else parts.model
    PROGRAM_RECORDS.add(graph, model=named, members=members, payloads=rest)
    return graph


def _replace_payloads(table: Payloads, given: Mapping[str, Tensor]) -> Payloads:
    changed = {
        key: Payload(_expect_type(key, each.tensor, given[key]), {}, each.is_param)
        for key, each in table.items() if key in given
    }  # fmt: skip
    return {**table, **changed}


def _root_folder(names: list[str]) -> str:
    """The folder that an archive has everything in."""
    first = names[0] if names else ""
    root = first[: first.find("/") + 1]
    return root if all(name.startswith(root) for name in names) else ""


def _choose_model(inside: Mapping[str, str], wanted: str | None) -> str:
    before, after = MEMBERS.program.split("{}")
    found = [
        name[len(before) : -len(after)] for name in inside
        if name.startswith(before) and name.endswith(after)
    ]  # fmt: skip
    if wanted in found:
        return wanted
    if not found:
        _refuse(inside)
    if wanted is None and (len(found) == 1 or DEFAULT_MODEL in found):
        return DEFAULT_MODEL if DEFAULT_MODEL in found else found[0]
    raise FormatError(
        "the archive has several models" if wanted is None
        else f"the archive has no model {wanted!r}",
        got=", ".join(found), hint="choose one: model=NAME",
    )  # fmt: skip


def _refuse(inside: Mapping[str, str]) -> None:
    for part, (message, hint) in _REFUSED.items():
        if any(name.startswith(part) for name in inside):
            raise FormatError(message, expected="an exported program", hint=hint)
    raise FormatError(
        "the archive has no exported program",
        expected="models/NAME.json", got=", ".join(sorted(inside)[:6]),
        hint="save one: torch.export.save(torch.export.export(model, inputs), path)",
    )  # fmt: skip


def _payloads(
    archive: Archive, root: str, model: str, folder: str, table: str,
    given: Mapping[str, Tensor],
) -> Payloads:  # fmt: skip
    """The tensors of a table; those that are given, if the archive has a pickle."""
    name = root + table.format(model)
    if name in archive.members:
        found = read_table(archive, root + folder, name)
        return _replace_payloads(found, given)
    pickles = [f"{root}{folder}{model}.pt", root + _OLD_WEIGHTS]
    if given or not any(pickle in archive.members for pickle in pickles):
        return {key: Payload(value, {}, True) for key, value in given.items()}
    raise FormatError(
        "the weights of this file are a pickle, which is never opened",
        who=next(pickle for pickle in pickles if pickle in archive.members),
        hint="save it again with PyTorch 2.9 or newer; or save its weights with "
        "safetensors.torch.save_file, and load it with weights=FILE",
    )


def _expect_type(name: str, old: Tensor | None, new: Tensor) -> Tensor:
    if old is not None and (old.dtype, old.shape) != (new.dtype, new.shape):
        raise FormatError(
            "a weight has another type than the program", who=name,
            expected=f"{old.dtype}{list(old.shape)}",
            got=f"{new.dtype}{list(new.shape)}",
        )  # fmt: skip
    return new


def _expect_program(program: Any) -> Mapping[str, Any]:
    if isinstance(program, dict) and isinstance(program.get("graph_module"), dict):
        return program
    raise FormatError("this is no exported program", expected="graph_module")


def dictionary_of(program: Mapping[str, Any], version: str | None) -> Dictionary:
    """The newest dictionary that is not newer than the PyTorch of a program."""
    if version is None:
        found = program.get("torch_version")
        version = found if isinstance(found, str) else ""
        version = version.lstrip("<=> ").partition("+")[0].partition("a")[0]
    name = f"torch@{version}" if version[:1].isdigit() else "torch"
    dictionary: Any = amanda.namespace(name, assume=True)
    return dictionary  # type: ignore[no-any-return]
