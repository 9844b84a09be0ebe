"""Inputs of models, by kind, of any batch and length, and which axes are dynamic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import torch

__all__ = ["INPUTS", "Feeds", "feeds_of"]


class Feeds(NamedTuple):
    """Keyword arguments of a model, and the names of the axes of its tensors."""

    kwargs: dict[str, Any]
    axes: dict[str, Any]
    """For each argument its axes by number: `{0: "batch", 1: "length"}`."""


BATCH: Final = {0: "batch"}
TOKENS: Final = {0: "batch", 1: "length"}


def _ids(batch: int, length: int) -> torch.Tensor:
    return torch.randint(4, 99, (batch, length))


def _text(batch: int, length: int) -> Feeds:
    """Ids and a mask, in which the last row has padding at the end."""
    mask = torch.ones(batch, length, dtype=torch.long)
    mask[-1, -2:] = 0
    return Feeds(
        {"input_ids": _ids(batch, length), "attention_mask": mask},
        {"input_ids": TOKENS, "attention_mask": TOKENS},
    )


def _ids_only(batch: int, length: int) -> Feeds:
    return Feeds({"input_ids": _ids(batch, length)}, {"input_ids": TOKENS})


def _seq2seq(batch: int, length: int) -> Feeds:
    targets = {"decoder_input_ids": _ids(batch, length // 2)}
    return _merge(
        _text(batch, length),
        Feeds(targets, {"decoder_input_ids": {0: "batch", 1: "target"}}),
    )


def _merge(*parts: Feeds) -> Feeds:
    kwargs: dict[str, Any] = {}
    axes: dict[str, Any] = {}
    for part in parts:
        kwargs |= part.kwargs
        axes |= part.axes
    return Feeds(kwargs, axes)


def _tensor(name: str, *shape: int, axes: Mapping[int, str] = BATCH) -> Feeds:
    return Feeds({name: torch.randn(shape)}, {name: dict(axes)})


def _image(batch: int, _length: int, size: int) -> Feeds:
    return _tensor("pixel_values", batch, 3, size, size)


def _boxes(batch: int, length: int) -> Feeds:
    low = torch.randint(0, 20, (batch, length, 2))
    boxes = torch.cat([low, low + torch.randint(1, 20, (batch, length, 2))], -1)
    return Feeds({"bbox": boxes}, {"bbox": TOKENS})


def _series(batch: int) -> Feeds:
    past, future = 10, 4
    return _merge(
        _tensor("past_values", batch, past),
        _tensor("past_time_features", batch, past, 1),
        Feeds({"past_observed_mask": torch.ones(batch, past)},
              {"past_observed_mask": BATCH}),
        _tensor("future_values", batch, future),
        _tensor("future_time_features", batch, future, 1),
    )  # fmt: skip


def _cache(batch: int, length: int, config: Any) -> Feeds:
    """A step of a decoder: new ids, a mask over all, keys and values of the past."""
    from transformers import DynamicCache

    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    depth = getattr(config, "head_dim", None)
    depth = depth or config.hidden_size // config.num_attention_heads
    shape = (batch, heads, length, depth)
    past = [
        (torch.randn(shape), torch.randn(shape))
        for _ in range(config.num_hidden_layers)
    ]
    fresh = 3
    mask = torch.ones(batch, length + fresh, dtype=torch.long)
    mask[-1, :2] = 0
    kept = {0: "batch", 2: "past"}
    layers = [dict(kept) for _ in past]
    return Feeds(
        {"input_ids": _ids(batch, fresh), "attention_mask": mask,
         "past_key_values": DynamicCache(past, config=None)},
        {"input_ids": BATCH, "attention_mask": {0: "batch", 1: "past+3"},
         "past_key_values": [layers, [dict(kept) for _ in past]]},
    )  # fmt: skip


def _frames(batch: int, length: int) -> Feeds:
    frames = _tensor("input_features", batch, 4 * length, 8,
                     axes={0: "batch", 1: "4*frames"})  # fmt: skip
    return _merge(frames, Feeds({"decoder_input_ids": _ids(batch, 5)},
                                 {"decoder_input_ids": BATCH}))  # fmt: skip


def _waveform(batch: int, length: int) -> Feeds:
    return _tensor("input_values", batch, 100 * length,
                   axes={0: "batch", 1: "samples"})  # fmt: skip


def _image_size(config: Any) -> int:
    size = getattr(config, "image_size", 64)
    return int(size[0]) if isinstance(size, list | tuple) else int(size or 64)


def _vision_size(config: Any) -> int:
    return _image_size(getattr(config, "vision_config", config))


INPUTS: Final[Mapping[str, Callable[[int, int, Any], Feeds]]] = {
    "text": lambda b, n, _: _text(b, n),
    "ids": lambda b, n, _: _ids_only(b, n),
    "seq2seq": lambda b, n, _: _seq2seq(b, n),
    "cache": _cache,
    "image": lambda b, n, c: _image(b, n, _image_size(c)),
    "image_noise": lambda b, n, c: _merge(
        _image(b, n, _image_size(c)), _tensor("noise", b, 16)
    ),
    "video": lambda b, _, c: _tensor(
        "pixel_values", b, 2, 3, c.image_size, c.image_size
    ),
    "text_image": lambda b, n, c: _merge(_text(b, n), _image(b, n, _vision_size(c))),
    "ids_image": lambda b, n, c: _merge(
        _ids_only(b, n), _image(b, n, _vision_size(c))
    ),
    "queries_image": lambda b, n, c: _merge(
        _text(b, n), _image(b, n, _vision_size(c))
    ),
    "text_boxes": lambda b, n, _: _merge(_text(b, n), _boxes(b, n)),
    "waveform": lambda b, n, _: _waveform(b, n),
    "waveform_ids": lambda b, n, _: _merge(
        _waveform(b, n), Feeds({"decoder_input_ids": _ids(b, 5)},
                               {"decoder_input_ids": BATCH})
    ),
    "spectrogram": lambda b, n, _: _merge(
        _tensor("input_features", b, 8, 32),
        Feeds({"decoder_input_ids": _ids(b, n)}, {"decoder_input_ids": TOKENS}),
    ),
    "frames": lambda b, n, _: _frames(b, n),
    "mel": lambda b, _n, _c: _tensor("input_values", b, 32, 16),
    "codec": lambda b, _n, _c: _tensor("input_values", b, 1, 160),
    "series": lambda b, _n, _c: _series(b),
    "channels": lambda b, _n, _c: _tensor("past_values", b, 16, 2),
}  # fmt: skip


def feeds_of(kind: str, config: Any, batch: int, length: int) -> Feeds:
    """Inputs of a kind for a model of a configuration."""
    return INPUTS[kind](batch, length, config)
