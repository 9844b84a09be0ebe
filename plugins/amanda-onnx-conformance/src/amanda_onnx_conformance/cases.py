"""The cases of ONNX's backend test suite: their models, inputs and expected outputs."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from amanda.scoreboard import name_filter

__all__ = ["KINDS", "cases", "data_sets", "load_model", "to_array"]

KINDS: Final = ("node", "simple", "real", "pytorch-converted", "pytorch-operator")
"""The kinds of cases. All of them are in the onnx package.

The real ones are well-known networks whose weights are computed by nodes.
"""


def cases(
    kinds: Iterable[str] = KINDS, pattern: str | None = None
) -> Iterator[tuple[str, Any]]:
    """Yield each case with its kind, sorted by name."""
    from onnx.backend.test.loader import load_model_tests

    is_selected = name_filter(pattern)
    for kind in kinds:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = load_model_tests(kind=kind)
        for case in sorted(found, key=lambda case: case.name):
            if is_selected(case.name):
                yield kind, case


def load_model(case: Any) -> Any:
    """The model of a case: a message, or the path of its file."""
    if case.model is not None:
        return case.model
    if case.model_dir is not None:
        return Path(case.model_dir) / "model.onnx"
    import onnx

    # The URL of a real model begins with the name of the package that has the file.
    found = Path(onnx.__file__).parent.parent / case.url
    if not found.is_file():
        raise FileNotFoundError(f"the onnx package has no file {case.url}")
    return found


def data_sets(case: Any) -> Iterator[tuple[Sequence[Any], Sequence[Any]]]:
    """Yield the inputs and expected outputs of each run of a case."""
    if case.data_sets is not None:
        yield from case.data_sets
        return
    import onnx

    model = onnx.load(load_model(case), load_external_data=False)
    if case.model_dir is None:
        yield _generated_data(model, load_model(case))
        return
    for folder in sorted(Path(case.model_dir).glob("test_data_set_*")):
        yield (
            _stored_values(folder, "input", model.graph.input),
            _stored_values(folder, "output", model.graph.output),
        )


def _stored_values(folder: Path, side: str, infos: Iterable[Any]) -> list[Any]:
    files = ((folder / f"{side}_{i}.pb", info) for i, info in enumerate(infos))
    return [_read_value(file, info.type) for file, info in files if file.exists()]


def _generated_data(model: Any, path: Path) -> tuple[Sequence[Any], Sequence[Any]]:
    """Inputs that the suite generates, from 0 to 1; the outputs that it stores."""
    from onnx.backend.test.runner import Runner

    weights = {each.name for each in model.graph.initializer}
    inputs = [each for each in model.graph.input if each.name not in weights]
    files = [path.with_name(f"{path.stem}_output_{i}.pb")
             for i in range(len(model.graph.output))]  # fmt: skip
    feeds = [Runner.generate_dummy_data(each, name=path.stem) for each in inputs]
    expected = [
        _read_value(file, info.type)
        for file, info in zip(files, model.graph.output, strict=True)
    ]
    return feeds, expected


def to_array(value: Any) -> Any:
    """A tensor message as an array, also in sequences; absent values unchanged."""
    import onnx
    from onnx import numpy_helper

    if isinstance(value, list | tuple):
        return [to_array(each) for each in value]
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return value


def _read_value(path: Path, type_: Any) -> Any:
    import onnx
    from onnx import numpy_helper

    raw = path.read_bytes()
    if type_.WhichOneof("value") == "sequence_type":
        return numpy_helper.to_list(onnx.SequenceProto.FromString(raw))
    if type_.WhichOneof("value") == "optional_type":
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(raw))
    return numpy_helper.to_array(onnx.TensorProto.FromString(raw))
