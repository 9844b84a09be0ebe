"""Text as feeds: token ids, masks and token types, by a tokenizer file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amanda.errors import AmandaError, PluginMissingError, UsageError
from amanda.types import Sym, TensorType

if TYPE_CHECKING:
    from amanda.graph import Parameter

__all__ = ["read_texts"]

Key = str | int


def read_texts(
    texts: Sequence[str], tokenizer: str, ports: Mapping[Key, Parameter]
) -> dict[Key, Any]:
    """Feeds for the inputs of a text model; `@FILE` is the text in a file.

    Inputs are recognized by their names: `attention_mask`, `token_type_ids` or
    `segment_ids`, `position_ids`, and for token ids `input_ids`, or the only other name
    with `ids` or `tokens` in it."""
    import numpy as np

    roles = _roles(ports)
    encode = _load(tokenizer)
    length = _static_length(ports[roles["ids"]])
    if length is not None:
        encode.enable_truncation(length)
    pad = encode.padding or {}
    encode.enable_padding(**{**pad, "length": length})
    encoded = encode.encode_batch([_text(each) for each in texts])
    rows = {
        "ids": [each.ids for each in encoded],
        "mask": [each.attention_mask for each in encoded],
        "types": [each.type_ids for each in encoded],
        "positions": [range(len(each.ids)) for each in encoded],
    }
    return {
        key: np.array([list(row) for row in rows[role]], _dtype(ports[key]))
        for role, key in roles.items()
    }


def _roles(ports: Mapping[Key, Parameter]) -> dict[str, Key]:
    """The input for each part of an encoding."""
    found: dict[str, Key] = {}
    for key in ports:
        role = _role(str(key).lower())
        if role and (role not in found or str(key) == "input_ids"):
            found[role] = key
    if "ids" not in found:
        raise UsageError(
            "the model has no input for token ids",
            expected="a name such as input_ids",
            got=", ".join(map(str, ports)),
            hint="feed it from a .npy file",
        )
    return found


def _role(name: str) -> str:
    if "decoder" in name or "past" in name:
        return ""
    for role, words in _WORDS.items():
        if any(word in name for word in words):
            return role
    return ""


_WORDS: Mapping[str, Sequence[str]] = {
    "mask": ("mask",),
    "types": ("token_type", "segment"),
    "positions": ("position",),
    "ids": ("ids", "tokens"),
}


def _load(path: str) -> Any:
    """The tokenizer of a `tokenizer.json`."""
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise PluginMissingError(
            "text is encoded by the library tokenizers, which is not installed",
            hint="pip install tokenizers, or feed token ids from a .npy file",
        ) from None
    if not Path(path).is_file():
        raise AmandaError("there is no such file", who=path)
    try:
        return Tokenizer.from_file(path)
    except Exception as error:  # its errors have no other base
        raise AmandaError(
            "this is no tokenizer file",
            who=path,
            expected="a tokenizer.json of Hugging Face tokenizers",
            got=str(error)[:200],
        ) from error


def _text(text: str) -> str:
    if not text.startswith("@"):
        return text
    try:
        return Path(text[1:]).read_text(encoding="utf-8")
    except OSError as error:
        raise AmandaError("there is no such file", who=text[1:]) from error


def _static_length(port: Parameter) -> int | None:
    """The length of sequences, where the type of an input fixes it."""
    type_ = port.type
    if isinstance(type_, TensorType) and type_.shape.has_rank and type_.shape.rank:
        last = type_.shape[-1]
        return None if isinstance(last, Sym) else int(last)
    return None


def _dtype(port: Parameter) -> Any:
    type_ = port.type
    known = isinstance(type_, TensorType) and type_.dtype.kind != "unknown"
    return type_.dtype.numpy if known and isinstance(type_, TensorType) else "int64"
