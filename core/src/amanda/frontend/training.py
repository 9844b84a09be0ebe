"""Training: the weights of a graph, fitted to data by an optimizer."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from amanda.errors import FormatError, UsageError
from amanda.frontend.functions import HUB, find_capability
from amanda.graph import Graph, Op
from amanda.host import host_in_use, use_host

if TYPE_CHECKING:
    from amanda.backend import Compiled
    from amanda.host import Host

__all__ = ["TrainedModel", "TrainingGraph", "train"]

Feeds = Mapping[str, Any]
Batches = Iterable[Feeds] | Callable[[int], Iterable[Feeds]]

RATE: Final = "learning_rate"
"""The input of a training graph that the learning rate is fed to."""
LOSS: Final = "loss"
"""Its result."""
_LOSSES = "amanda:losses"
_PLOT = (480, 240)


class TrainingGraph(NamedTuple):
    """One step of training as a graph: it updates its variables, and returns the loss.

    - `graph`: inputs are those of the model, of the loss, and `learning_rate`
    - `weights`: the key of the variable of each weight, by its name: that of the
      constant, with a number where several have it
    - `variables`: the shape of each variable, by key: weights, and what else is kept
    - `model`: the model that is trained
    - `constants`: the constant of each weight in the model or a body of it, by name
    """

    graph: Graph
    weights: Mapping[str, str]
    variables: Mapping[str, tuple[int, ...]]
    model: Graph
    constants: Mapping[str, Op]


class TrainedModel:
    """A model after training.

    - `losses`: the loss of each step
    - `weights`: the trained weights, by name
    """

    def __init__(
        self,
        model: Graph,
        weights: Mapping[str, Any],
        losses: Sequence[float],
        constants: Mapping[str, Op] | None = None,
    ) -> None:
        """`constants` are those of the weights, by name; None: the ops so named."""
        self._model = model
        self._constants = constants
        self.weights = dict(weights)
        self.losses = list(losses)

    @property
    def graph(self) -> Graph:
        """A copy of the model, in the namespace of the hub, with the weights."""
        from amanda.tensors import Tensor

        copies: dict[Any, Any] = {}
        copy = self._model.clone(memo=copies)
        for name, value in self.weights.items():
            constants = self._model.ops if self._constants is None else self._constants
            copies[constants[name]].attrs["value"] = Tensor.of(value)
        return copy

    def plot(self) -> str:
        """The losses as an SVG picture: by step, with a logarithmic axis."""
        return _plot_losses(self.losses)

    def _repr_html_(self) -> str:
        return f"<figure>{self.plot()}</figure>" if self.losses else repr(self)

    def __repr__(self) -> str:
        last = f", loss {self.losses[-1]:.4g}" if self.losses else ""
        return f"<trained model: {len(self.losses)} steps{last}>"


def train(
    graph: Graph,
    loss: str | Callable[..., Any],
    data: Batches,
    *,
    optimizer: str = "adam",
    learning_rate: float | Callable[[int], float] = 1e-3,
    weights: Iterable[str] | None = None,
    epochs: int = 1,
    backend: str | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 100,
    show: bool = False,
    host: Host | None = None,
    **settings: Any,
) -> TrainedModel:
    """Train the weights of a graph of any framework; returns the trained model.

    `loss` is the name of a result, or a function of the results by name and of inputs
    of its own, whose names are those of its other parameters; it returns one number.
    `data` are batches: dicts of feeds for the inputs of the model and the loss; they
    are iterated once per epoch, or a function of the epoch returns them. Without
    epochs, the model is returned as it is.

    `optimizer` names a step of the namespace: sgd, momentum, adam, adamax, adagrad,
    rmsprop, adadelta, lion or ftrl; `settings` are its hyperparameters, and
    `learning_rate` may be a function of the step, from 0. `weights` are names of
    constants, those in bodies included, or shell patterns; the default leaves out
    statistics of batch normalization and constants noted `x-trainable=False`.

    With a `checkpoint`, a file that is replaced atomically every `checkpoint_every`
    steps and at the end; training goes on where it stands. `show` prints progress.
    """
    if epochs < 0:
        raise UsageError("the number of epochs is negative", got=epochs)
    host = host or host_in_use()
    with use_host(host):
        first, data = _first_batch(data)
        step = _training_graph(graph, loss, first, optimizer, weights, settings, host)
        from amanda.api.compilation import compile

        compiled = compile(step.graph, backend, host=host)
        losses = _read_checkpoint(checkpoint, compiled, step)
        rate = learning_rate if callable(learning_rate) else lambda _: learning_rate
        done = 0
        for batch in _batches(data, epochs):
            done += 1
            if done <= len(losses):
                continue  # a checkpoint has this step
            losses.append(_run_step(compiled, batch, _rate_of(rate, done - 1)))
            if show:
                sys.stderr.write(f"\rstep {done}: loss {losses[-1]:.4g} ")
            if checkpoint is not None and done % checkpoint_every == 0:
                _write_checkpoint(Path(checkpoint), compiled, losses)
        if show and losses:
            sys.stderr.write("\n")
        if checkpoint is not None and losses:
            _write_checkpoint(Path(checkpoint), compiled, losses)
        trained = _read_weights(compiled, step)
        return TrainedModel(step.model, trained, losses, step.constants)


def _training_graph(
    graph: Graph,
    loss: str | Callable[..., Any],
    first: Feeds,
    optimizer: str,
    weights: Iterable[str] | None,
    settings: Mapping[str, Any],
    host: Host,
) -> TrainingGraph:
    """The graph of a step; the first batch has the types of the inputs of the loss."""
    from amanda.api.conversion import convert

    model = convert(graph, HUB, host=host)
    model = model.clone() if model is graph else model
    given = _loss_inputs(loss, first)
    build = find_capability(HUB, "training_graph", "trains no graphs")
    made: TrainingGraph = build(model, loss, given, optimizer, weights, dict(settings))
    return made


def _first_batch(data: Batches) -> tuple[Feeds, Batches]:
    """The first batch, and the data, of which none is lost."""
    found = data(0) if callable(data) else data
    batches = iter(found)
    first = next(batches, None)
    if first is None:
        raise UsageError("there is no batch to train on")
    return first, chain([first], batches) if batches is data else data


def _loss_inputs(loss: str | Callable[..., Any], batch: Feeds) -> dict[str, Any]:
    """The arrays of the inputs that only the loss has, by name."""
    import numpy as np

    if isinstance(loss, str):
        return {}
    names = list(inspect.signature(loss).parameters)[1:]
    missing = [name for name in names if name not in batch]
    if missing:
        raise UsageError(
            "the loss has parameters that no batch feeds",
            expected=", ".join(names),
            got=", ".join(batch),
            hint="the first parameter gets the results; others are feeds by name",
        )
    return {name: np.asarray(batch[name]) for name in names}


def _batches(data: Batches, epochs: int) -> Iterator[Feeds]:
    """All batches, epoch by epoch."""
    for epoch in range(epochs):
        found = data(epoch) if callable(data) else data
        if epoch and iter(found) is found:
            raise UsageError(
                "the data can be iterated only once, but there are several epochs",
                hint="pass a list, or a function of the epoch",
            )
        yield from found


def _read_weights(compiled: Compiled, step: TrainingGraph) -> dict[str, Any]:
    """The weights by name; those that no step has changed are the constants."""
    found = {}
    for name, key in step.weights.items():
        constant = step.constants[name].attrs["value"]
        found[name] = compiled.state.get(key, constant.numpy())
    return found


def _rate_of(rate: Callable[[int], Any], step: int) -> float:
    """The learning rate of a step."""
    found = rate(step)
    if isinstance(found, Real) or getattr(found, "shape", None) == ():
        return float(found)
    raise UsageError(
        f"the learning rate of step {step} is no number",
        expected="a number, or a function of the step that returns one",
        got=repr(found),
    )


def _run_step(compiled: Compiled, batch: Feeds, rate: float) -> float:
    import numpy as np

    feeds = {**batch, RATE: np.float32(rate)}
    return float(np.asarray(compiled(feeds)[LOSS]))


# -- checkpoints -----------------------------------------------------------------------


def _write_checkpoint(path: Path, compiled: Compiled, losses: Sequence[float]) -> None:
    """Write the variables and the losses so far; the file is replaced atomically."""
    import numpy as np

    from amanda.files import replace_file, write_safetensors
    from amanda.tensors import Tensor

    arrays = {key: compiled.state[key] for key in compiled.state}
    arrays[_LOSSES] = np.asarray(losses, "float64")
    with replace_file(path) as file:
        write_safetensors({k: Tensor.of(v) for k, v in arrays.items()}, file)


def _read_checkpoint(
    path: str | Path | None, compiled: Compiled, step: TrainingGraph
) -> list[float]:
    """Restore the variables of a checkpoint; returns its losses, none without one."""
    from amanda.files import read_safetensors

    if path is None or not Path(path).exists():
        return []
    arrays = {key: tensor.numpy() for key, tensor in read_safetensors(path).items()}
    losses = arrays.pop(_LOSSES, None)
    shapes = dict(step.variables)
    found = {key: array.shape for key, array in arrays.items()}
    if losses is None or shapes != found:
        differing = sorted(
            k for k in {*shapes, *found} if shapes.get(k) != found.get(k)
        )
        raise FormatError(
            "this checkpoint is of another model or optimizer",
            where=str(path),
            expected=f"the variables of {len(step.weights)} weights",
            got=f"{', '.join(differing[:3]) or 'no losses'} differ",
            hint="name another file, or delete this one",
        )
    for key, array in arrays.items():
        compiled.state[key] = array.copy()
    return [float(value) for value in losses]


# -- pictures --------------------------------------------------------------------------


def _plot_losses(losses: Sequence[float]) -> str:
    """A curve of positive losses on a logarithmic axis, of others on a linear one."""
    import math

    width, height = _PLOT
    finite = [value for value in losses if math.isfinite(value)]
    is_log = bool(finite) and min(finite) > 0
    scale = math.log10 if is_log else float
    low, high = (scale(f(finite)) for f in (min, max)) if finite else (0.0, 1.0)
    span = (high - low) or 1.0
    count = max(len(losses) - 1, 1)
    points = " ".join(
        f"{50 + i / count * (width - 60):.1f},"
        f"{height - 30 - (scale(value) - low) / span * (height - 50):.1f}"
        for i, value in enumerate(losses)
        if math.isfinite(value)
    )
    ends = [(max(finite, default=1.0), 24), (min(finite, default=0.0), height - 26)]
    labels = "".join(
        f'<text x="44" y="{y}" text-anchor="end">{value:.3g}</text>'
        for value, y in ends
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" font-family="sans-serif" font-size="11" fill="currentColor">'
        f'<path d="M50 20V{height - 30}H{width - 10}" fill="none" stroke="#888"/>'
        f'<polyline points="{points}" fill="none" stroke="#2563eb" stroke-width="1.5"/>'
        f'{labels}<text x="{width - 10}" y="{height - 12}" text-anchor="end">'
        f'step {len(losses)}</text><text x="50" y="{height - 12}">loss'
        f"{', logarithmic' if is_log else ''}</text></svg>"
    )
