"""The backend `stablehlo`: StableHLO programs as they are, compiled by XLA."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from amanda.errors import BackendError
from amanda.graph import Graph, Op
from amanda_jax.formats.stablehlo.custom_calls import (
    custom_call_refusal,
    refuse_custom_calls,
)

__all__ = ["StableHloBackend"]


class StableHloBackend:
    """Entry `stablehlo` of `amanda.backends`."""

    name = "stablehlo"
    namespace = "amanda/stablehlo/*"

    def devices(self) -> Sequence[str]:
        from amanda_jax.devices import usable_devices

        return list(usable_devices())

    def takes(self, op: Op) -> Literal[True] | str:
        """Ops of StableHLO and CHLO; XLA reports others when it compiles."""
        own = (op.namespace or "").split("/")[1:2]
        if own and own[0] not in ("stablehlo", "chlo", "core"):
            return f"it is of {op.namespace}"
        return custom_call_refusal(op) or True

    def compile(
        self, graph: Graph, device: str | None, options: Mapping[str, Any]
    ) -> Executable:
        from amanda_jax.devices import find_device
        from amanda_jax.formats.stablehlo.lowering import open_inputs

        if options:
            raise BackendError(
                f"backend {self.name!r} has no option {next(iter(options))!r}",
                expected="none",
            )
        if open_ := open_inputs(graph):
            raise BackendError(
                "backend 'stablehlo' runs programs with static shapes",
                got=", ".join(open_),
                hint="run the graph that it was converted from on backend 'jax'",
            )
        refuse_custom_calls(graph)
        return Executable(graph, find_device(device))


class Executable:
    """A program compiled by XLA. Several threads may call it at once."""

    def __init__(self, graph: Graph, device: Any) -> None:
        from jax.extend.backend import get_backend

        from amanda_jax.formats.stablehlo.format import module_text

        self._device = device
        self._dtypes = [port.type.dtype.numpy for port in graph.parameters]  # type: ignore[union-attr]
        client, text = get_backend(device.platform), module_text(graph)
        try:
            self._program = client.compile_and_load(text, [device])
        except Exception as error:  # XLA raises errors of many types
            raise BackendError(
                "XLA cannot compile the program", got=str(error).partition("\n")[0]
            ) from error

    def __call__(
        self,
        feeds: Mapping[str | int, Any],
        out: Mapping[str | int, Any] | None = None,
    ) -> Sequence[Any]:
        """Run with checked feeds, in order. `out` is not used."""
        import jax
        import numpy as np

        del out
        rows = zip(feeds.values(), self._dtypes, strict=True)
        with jax.enable_x64(True):
            arrays = [np.array(value, dtype) for value, dtype in rows]
            arguments = jax.device_put(arrays, self._device)
            results = self._program.execute_sharded(arguments)
            parts = results.disassemble_into_single_device_arrays()
        return [np.array(part) for [part] in parts]

    def __repr__(self) -> str:
        return f"<program of StableHLO on {self._device}>"
