"""Models of `transformers` with random weights as exported programs."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from typing import Any, Final

import numpy as np
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from transformers.exporters.exporter_dynamo import apply_patches
from transformers.integrations.executorch import register_dynamic_cache_export_support

from amanda_torch_conformance.making.model_inputs import Feeds, feeds_of
from amanda_torch_conformance.making.model_table import Model
from amanda_torch_conformance.training import sgd_step

__all__ = [
    "SIZES",
    "ModelCall",
    "export_model",
    "make_data_sets",
    "make_model",
    "training_data",
]

SIZES: Final = ((2, 12), (3, 16))
"""Batch and length of the two data sets; programs are exported with the first."""


class ModelCall(torch.nn.Module):  # type: ignore[misc,unused-ignore]
    """A model whose results are its tensors, those of a cache among them.

    `names` are the names of its arguments, from which programs name their inputs.
    """

    def __init__(self, model: Any, names: Iterable[str]) -> None:
        super().__init__()
        self.model = model

        def forward(**kwargs: Any) -> tuple[torch.Tensor, ...]:
            results = pytree.tree_leaves(dict(model(**kwargs)))
            return tuple(y for y in results if isinstance(y, torch.Tensor))

        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters = [inspect.Parameter(name, kind) for name in names]
        forward.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        self.forward = forward


def make_model(row: Model) -> ModelCall:
    """The model of a row; no parameter has the value that leaves out its op."""
    import transformers

    cls: Any = getattr(transformers, row.cls)
    torch.manual_seed(1)
    model = cls(cls.config_class(**row.sizes)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(row.spread * torch.randn_like(parameter))
    feeds = feeds_of(row.inputs, model.config, *SIZES[0])
    call = ModelCall(model, feeds.kwargs)
    call.eval()
    with torch.no_grad():  # some models scale their weights in the first call
        call(**feeds.kwargs)
    return call


def model_feeds(row: Model, call: ModelCall, size: tuple[int, int]) -> Feeds:
    """Inputs of a size; caches are trees of tensors for PyTorch."""
    register_dynamic_cache_export_support()
    torch.manual_seed(2)
    return feeds_of(row.inputs, call.model.config, *size)


def export_model(row: Model, call: ModelCall, *, is_dynamic: bool) -> tuple[Any, str]:
    """The exported program of a model, and the names of its dynamic axes.

    Where PyTorch exports it with guards only, these are checked at run time; where
    it does not, the patches of `transformers` are applied; where it does not with a
    dynamic length, the length is fixed.
    """
    feeds = model_feeds(row, call, SIZES[0])
    choices = dict.fromkeys([row.axes, "batch"] if is_dynamic else [""])
    failed: Exception | None = None
    for axes in choices:
        for is_patched, is_deferred in _WAYS:
            try:
                with torch.no_grad(), _patches(is_patched):
                    return torch.export.export(
                        call, (), copy.deepcopy(feeds.kwargs), strict=False,
                        dynamic_shapes=_dynamic_shapes(axes, feeds) if axes else None,
                        prefer_deferred_runtime_asserts_over_guards=is_deferred,
                    ), axes  # fmt: skip
            except Exception as error:  # noqa: BLE001 - the next way may succeed
                failed = failed or error
    assert failed is not None
    raise failed


_WAYS: Final = ((False, False), (False, True), (True, True))
"""Whether the patches of `transformers` are applied, and guards are deferred."""


def _patches(is_patched: bool) -> Any:
    return apply_patches("dynamo") if is_patched else nullcontext()


def _dynamic_shapes(axes: str, feeds: Feeds) -> Any:
    """The dynamic axes of the inputs; the others are fixed."""
    names = {"batch": torch.export.Dim("batch", min=2, max=64)}
    if "length" in axes:
        for name in ("length", "target", "past", "frames"):
            names[name] = torch.export.Dim(name, min=4, max=40)
        names["samples"] = torch.export.Dim("samples", min=400, max=4000)
        names["past+3"] = names["past"] + 3
        names["4*frames"] = 4 * names["frames"]

    def dims(axes: Mapping[int, str]) -> Any:
        return {i: names[name] for i, name in axes.items() if name in names}

    return pytree.tree_map(
        dims, feeds.axes, is_leaf=lambda x: isinstance(x, dict) and 0 in x
    )


def make_data_sets(row: Model, call: ModelCall, axes: str) -> Iterator[dict[str, Any]]:
    """Inputs and outputs of each size that its axes admit, as arrays by name."""
    (batch, length), (other_batch, other_length) = SIZES
    sizes = [(batch, length)]
    if axes:
        sizes.append((other_batch, other_length if "length" in axes else length))
    for size in sizes:
        feeds = model_feeds(row, call, size)
        inputs = [x.clone() for x in pytree.tree_leaves(feeds.kwargs)]
        with torch.no_grad():
            outputs = call(**feeds.kwargs)
        arrays = {f"in_{i}": x.numpy() for i, x in enumerate(inputs)}
        yield arrays | {f"out_{i}": y.numpy() for i, y in enumerate(outputs)}


def training_data(row: Model, call: ModelCall) -> dict[str, Any]:
    """Inputs, and the loss and parameters after one step of SGD, as arrays by name.

    These are the parameters that have a gradient; a tied one has several names. The
    arrays `exact_0`, `exact_1` ... are the loss and the parameters of float64.
    """
    feeds = model_feeds(row, call, SIZES[0])
    inputs = [x.clone() for x in pytree.tree_leaves(feeds.kwargs)]
    with torch.random.fork_rng():
        exact_loss, exact = _exact_step(call, copy.deepcopy(feeds.kwargs))
    loss = sgd_step(call, (), feeds.kwargs)
    if not loss.isfinite():
        raise ValueError(f"the loss is {float(loss)}")
    names: dict[Any, list[str]] = {}
    for name, parameter in call.named_parameters(remove_duplicate=False):
        if parameter.grad is not None:
            names.setdefault(parameter, []).append(name)
    outputs = [loss, *names]
    exact_outputs = [exact_loss, *(exact[first] for first, *_ in names.values())]
    arrays = {f"in_{i}": x.numpy() for i, x in enumerate(inputs)}
    arrays |= {f"out_{i}": y.detach().numpy() for i, y in enumerate(outputs)}
    arrays |= {f"exact_{i}": y.detach().numpy() for i, y in enumerate(exact_outputs)}
    return arrays | {"names": np.array([" ".join(each) for each in names.values()])}


def _exact_step(call: ModelCall, kwargs: Mapping[str, Any]) -> tuple[Any, Any]:
    """The loss of a step in float64 of a copy of a model, and its parameters."""
    model = copy.deepcopy(call.model).double()
    model.set_experts_implementation("eager")  # grouped_mm has no float64
    wide = ModelCall(model, kwargs).eval()
    kwargs = pytree.tree_map(_as_float64, kwargs)
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _Float64():
            loss = sgd_step(wide, (), kwargs)
    finally:
        torch.set_default_dtype(usual)
    return loss, dict(wide.named_parameters(remove_duplicate=False))


def _as_float64(leaf: Any) -> Any:
    is_narrow = isinstance(leaf, torch.Tensor) and leaf.dtype == torch.float32
    return leaf.double() if is_narrow else leaf


class _Float64(TorchDispatchMode):  # type: ignore[misc,unused-ignore]
    """Where casts to float32, and new tensors of it, are of float64."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        args, kwargs = pytree.tree_map(
            lambda leaf: torch.float64 if leaf is torch.float32 else leaf,
            (args, kwargs or {}),
        )
        return func(*args, **kwargs)
