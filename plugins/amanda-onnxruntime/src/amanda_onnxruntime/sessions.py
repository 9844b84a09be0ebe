"""Sessions of onnxruntime, and what it cannot do, in words."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NoReturn

from amanda.errors import BackendError, LimitError
from amanda.graph import Graph
from amanda_onnxruntime.backend import onnx_format

__all__ = ["Maker", "newest_opset"]

_IR: Final = re.compile(r"IR version: (\d+), max supported IR version: (\d+)")
_OPSET: Final = re.compile(
    r"Opset (\d+) is under development.*domain (\S+) is till opset (\d+)", re.DOTALL
)
_SOURCE: Final = re.compile(
    r"^\[ONNXRuntimeError\] : \d+ : (?:\w+ : )?(?:/\S+ .*?\) )?"
)
_NEWEST: Final = re.compile(r"up to (\d+)$")
_FAR: Final = "amanda/onnx/100000"
_LEVELS: Final = {
    "disable_all": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}


class Maker:
    """Makes sessions with one set of options."""

    def __init__(
        self,
        providers: Sequence[str],
        provider_options: Sequence[Mapping[str, Any]] | None,
        session_options: Any,
    ) -> None:
        self.providers = list(providers)
        self.ir_version: int | None = None
        """The IR version that was written because the runtime knows no newer one."""
        self._provider_options = provider_options
        self._options = _options(session_options)

    def __call__(self, graph: Graph) -> Any:
        """A session on a graph of ONNX."""
        codec = onnx_format()
        try:
            raw = codec.dumps(graph, ir_version=self.ir_version)
        except LimitError:
            return self._beside(graph)
        try:
            return self._session(raw)
        except BackendError as error:
            newest = _newest_ir(error)
            if newest is None or self.ir_version is not None:
                raise
            self.ir_version = newest
            return self._session(codec.dumps(graph, ir_version=newest))

    def _beside(self, graph: Graph) -> Any:
        """A session on a model too large to be one message: from files, then gone."""
        with tempfile.TemporaryDirectory(prefix="amanda-onnxruntime-") as folder:
            path = Path(folder, "model.onnx")
            onnx_format().write(graph, path, external=True)
            return self._session(str(path))

    def _session(self, model: bytes | str) -> Any:
        import onnxruntime

        options: list[dict[str, Any]] | None = None
        if self._provider_options is not None:
            options = [dict(each) for each in self._provider_options]
        try:
            session = onnxruntime.InferenceSession(
                model,
                self._options,
                providers=self.providers,
                provider_options=options,
            )
        except Exception as error:  # noqa: BLE001  its errors have no common base
            _refused(error)
        missing = [name for name in self.providers[:1] if name not in _used(session)]
        if missing:
            raise BackendError(
                f"onnxruntime could not start {missing[0]}",
                got=f"it would use {', '.join(_used(session))}",
                hint="see its log; a driver or a library may be missing",
            )
        return session


_PREVIEWS: Final = ("ai.onnx.preview", "ai.onnx.preview.training")


@cache
def newest_opset() -> int:
    """The newest opset that the runtime takes; asked for more, it says so."""
    try:
        Maker(["CPUExecutionProvider"], None, None)(Graph(_FAR))
    except BackendError as error:
        found = _NEWEST.search(error.message)
        if found:
            return int(found[1])
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    ops = state.get_all_operator_schema()
    return max(int(op.since_version) for op in ops if not op.domain)


@cache
def lacking() -> frozenset[str]:
    """The domains of ONNX itself that the runtime has no op of."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    there = {op.domain for op in state.get_all_operator_schema()}
    return frozenset({"ai.onnx.ml", *_PREVIEWS} - there)


def _used(session: Any) -> list[str]:
    return list(session.get_providers())


def _options(given: Any) -> Any:
    """SessionOptions from a dict of their fields and configuration entries."""
    import onnxruntime

    if given is not None and not isinstance(given, Mapping):
        return given
    made = onnxruntime.SessionOptions()
    made.log_severity_level = 3  # errors; what it warns of cannot be changed here
    for key, value in (given or {}).items():
        if "." in key:
            made.add_session_config_entry(key, str(value))
        elif key.startswith("_") or not hasattr(made, key):
            fields = [name for name in dir(made) if not name.startswith("_")]
            raise BackendError(
                f"SessionOptions of onnxruntime has no {key!r}",
                expected=f"one of {', '.join(fields)}",
            )
        else:
            _set(made, key, value)
    return made


def _set(options: Any, key: str, value: Any) -> None:
    import onnxruntime

    if key == "graph_optimization_level" and isinstance(value, str):
        name = _LEVELS.get(value, value)
        value = getattr(onnxruntime.GraphOptimizationLevel, name, value)
    field = getattr(options, key)
    try:
        if callable(field):
            field(*value) if isinstance(value, list | tuple) else field(value)
        else:
            setattr(options, key, value)
    except (TypeError, ValueError, AttributeError) as error:
        raise BackendError(
            f"SessionOptions of onnxruntime does not take this {key!r}",
            got=repr(value),
        ) from error


def _newest_ir(error: BackendError) -> int | None:
    found = _IR.search(error.got or "")
    return int(found[2]) if found else None


def _refused(error: Exception) -> NoReturn:
    """What kept the runtime from taking a model."""
    import onnxruntime

    text = str(error)
    who = f"onnxruntime {onnxruntime.__version__}"
    rows: list[tuple[re.Pattern[str], Callable[[re.Match[str]], BackendError]]] = [
        (
            _IR,
            lambda m: BackendError(
                f"{who} knows IR versions up to {m[2]}", got=m[0], who="the model"
            ),
        ),
        (
            _OPSET,
            lambda m: BackendError(
                f"{who} knows opsets of {m[2]} up to {m[3]}",
                got=f"opset {m[1]}",
                hint=f"convert the graph first: amanda.convert(graph, 'onnx@{m[3]}')",
            ),
        ),
    ]
    for pattern, made in rows:
        found = pattern.search(text)
        if found:
            raise made(found) from error
    raise BackendError(
        f"{who} does not take the model",
        got=_SOURCE.sub("", text).strip(),
        hint="choose another backend, or replace what it names",
    ) from error
