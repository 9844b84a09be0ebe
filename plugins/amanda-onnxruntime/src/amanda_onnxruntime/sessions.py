"""Creates sessions of onnxruntime, and explains its errors."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NoReturn

from amanda.errors import BackendError, LimitError
from amanda.graph import Graph
from amanda_onnxruntime.onnx_format import onnx_format
from amanda_onnxruntime.profiling import new_trace_file
from amanda_onnxruntime.random_seeds import with_seeds
from amanda_onnxruntime.runtime_info import newest_schema, version
from amanda_onnxruntime.wrong_optimizers import find_wrong_optimizers

__all__ = ["SessionFactory", "newest_opset"]

_IR: Final = re.compile(r"IR version: (\d+), max supported IR version: (\d+)")
_OPSET: Final = re.compile(
    r"Opset (\d+) is under development.*domain (\S+) is till opset (\d+)", re.DOTALL
)
_NEWEST: Final = re.compile(r"up to (\d+)$")
_FUTURE_OPSET: Final = "amanda/onnx/100000"
_PREFIX: Final = re.compile(
    r"^\[ONNXRuntimeError\] : \d+ : (?:\w+ : )?(?:/\S+ .*?\) )?"
)
_OPTIMIZATION_LEVELS: Final = {
    "disable_all": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}
_LOG_ERRORS: Final = 3


class SessionFactory:
    """Creates sessions with one set of options."""

    def __init__(
        self,
        providers: Sequence[str],
        provider_options: Sequence[Mapping[str, Any]] | None,
        session_options: Any,
        seed: int | None = None,
        profile: bool = False,
    ) -> None:
        self.providers = list(providers)
        self.ir_version: int | None = None
        """The IR version written, where onnxruntime does not support the model's."""
        self._seed = seed
        self._provider_options = provider_options
        self._options = _session_options(session_options)
        self.profiles = profile
        """Whether sessions record the times of their nodes."""

    def __call__(self, graph: Graph) -> Any:
        """A session of a graph of ONNX."""
        codec, graph = onnx_format(), with_seeds(graph, self._seed)
        try:
            raw = codec.dumps(graph, ir_version=self.ir_version)
        except LimitError:
            return self._load_from_files(graph)
        disabled = find_wrong_optimizers(graph)
        try:
            return self._create(raw, disabled)
        except BackendError as error:
            newest = _IR.search(error.got or "")
            if newest is None or self.ir_version is not None:
                raise
            self.ir_version = int(newest[2])
            raw = codec.dumps(graph, ir_version=self.ir_version)
            return self._create(raw, disabled)

    def _load_from_files(self, graph: Graph) -> Any:
        """A session of a model too large for one message, with external data."""
        with tempfile.TemporaryDirectory(prefix="amanda-onnxruntime-") as folder:
            path = Path(folder, "model.onnx")
            onnx_format().write(graph, path, external=True)
            return self._create(str(path), find_wrong_optimizers(graph))

    def _create(self, model: bytes | str, disabled: Sequence[str]) -> Any:
        import onnxruntime

        if self.profiles:
            self._options.enable_profiling = True
            self._options.profile_file_prefix = str(new_trace_file())
        options: list[dict[str, Any]] | None = None
        if self._provider_options is not None:
            options = [dict(each) for each in self._provider_options]
        try:
            session = onnxruntime.InferenceSession(
                model,
                self._options,
                providers=self.providers,
                provider_options=options,
                disabled_optimizers=list(disabled),
            )
        except Exception as error:  # noqa: BLE001 - its errors have no common base
            _raise_refusal(error)
        used = list(session.get_providers())
        if self.providers and self.providers[0] not in used:
            raise BackendError(
                f"onnxruntime could not start {self.providers[0]}",
                got=f"it would use {', '.join(used)}",
                hint="see its log; a driver or a library may be missing",
            )
        return session


@cache
def newest_opset() -> int:
    """The newest supported opset, from the error for an opset that is too new."""
    try:
        SessionFactory(["CPUExecutionProvider"], None, None)(Graph(_FUTURE_OPSET))
    except BackendError as error:
        found = _NEWEST.search(error.message)
        if found:
            return int(found[1])
    return newest_schema()


# -- options -----------------------------------------------------------------------


def _session_options(given: Any) -> Any:
    """SessionOptions from a dict of their fields and configuration entries."""
    import onnxruntime

    if given is not None and not isinstance(given, Mapping):
        return given
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _LOG_ERRORS  # its warnings are about the model
    for key, value in (given or {}).items():
        if "." in key:
            options.add_session_config_entry(key, str(value))
        elif key.startswith("_") or not hasattr(options, key):
            fields = [name for name in dir(options) if not name.startswith("_")]
            raise BackendError(
                f"SessionOptions of onnxruntime has no {key!r}",
                expected=f"one of {', '.join(fields)}",
            )
        else:
            _set_option(options, key, value)
    return options


def _set_option(options: Any, key: str, value: Any) -> None:
    import onnxruntime

    if key == "graph_optimization_level" and isinstance(value, str):
        name = _OPTIMIZATION_LEVELS.get(value, value)
        value = getattr(onnxruntime.GraphOptimizationLevel, name, value)
    field = getattr(options, key)
    try:
        if callable(field):
            field(*value) if isinstance(value, list | tuple) else field(value)
        else:
            setattr(options, key, value)
    except (TypeError, ValueError, AttributeError) as error:
        raise BackendError(
            f"SessionOptions of onnxruntime does not accept this {key!r}",
            got=repr(value),
        ) from error


# -- errors ------------------------------------------------------------------------


def _raise_refusal(error: Exception) -> NoReturn:
    """Raise a BackendError that explains why onnxruntime does not load a model."""
    text = str(error)
    who = f"onnxruntime {version()}"
    if ir := _IR.search(text):
        raise BackendError(
            f"{who} supports IR versions up to {ir[2]}", got=ir[0], who="the model"
        ) from error
    if opset := _OPSET.search(text):
        raise BackendError(
            f"{who} supports opsets of {opset[2]} up to {opset[3]}",
            got=f"opset {opset[1]}",
            hint=f"convert the graph first: amanda.convert(graph, 'onnx@{opset[3]}')",
        ) from error
    raise BackendError(
        f"{who} does not load the model",
        got=_PREFIX.sub("", text).strip(),
        hint="choose another backend, or replace the ops that the error names",
    ) from error
