"""The backend `torch`: the ops and devices that it supports, and its options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from amanda.errors import BackendError
from amanda.graph import Graph, Op

if TYPE_CHECKING:
    from amanda.backend import DynamicSize, Implementation
    from amanda.dictionary import OpDef
    from amanda_std.backends import State
    from amanda_torch.backend.devices import DeviceState
    from amanda_torch.backend.executable import Executable

__all__ = ["Settings", "TorchBackend"]

RESULTS: Final = ("numpy", "torch", None)


class Settings(NamedTuple):
    """The options of the backend."""

    results: str | None = None
    """Whether results are arrays of `numpy` or tensors of `torch`; None: as the feeds,
    tensors if any feed is one."""
    state: State | None = None
    """Variables to share with other executables."""
    observe: Any = None
    """Called with the label and the value of every probe."""
    callbacks: Any = None
    """The functions that `host_callback` may call, by name."""
    profile: bool = False
    """Whether ops are to be timed."""

    def validate(self) -> Settings:
        from amanda_std.backends import State

        State.expect(self.state)
        if self.results not in RESULTS:
            raise BackendError(
                "option 'results' is the library of the results",
                expected="numpy, torch or None",
                got=repr(self.results),
            )
        return self


class TorchBackend:
    """Entry `torch` of `amanda.backends`."""

    name = "torch"
    namespace = "amanda/std/1"
    profiles = True

    def devices(self) -> Sequence[str]:
        """The names of the devices that can be used, the default one first."""
        from amanda_torch.backend.devices import usable_devices

        return usable_devices()

    def states(self) -> Sequence[DeviceState]:
        """Every kind of device; for those that cannot be used, the reason."""
        from amanda_torch.backend.devices import device_states

        return device_states()

    def takes(self, op: Op) -> Literal[True] | str:
        from amanda_std.backends import why_invalid
        from amanda_torch.backend.eager_ops import is_eager

        return is_eager(op) or why_invalid(op) or True

    def dynamic_sizes(self, graph: Graph) -> Sequence[DynamicSize]:
        """None: PyTorch runs op by op, with sizes as they come."""
        del graph
        return ()

    def implementations(self, definition: OpDef) -> Iterator[Implementation]:
        """The kernel of an op, or its definition."""
        from amanda_std.backends import implementations_in_table
        from amanda_torch.backend.kernels import TORCH

        return implementations_in_table(definition.name, TORCH)

    def compile(
        self, graph: Graph, device: str | None, options: Mapping[str, Any]
    ) -> Executable:
        from amanda_torch.backend.devices import find_device
        from amanda_torch.backend.executable import Executable

        known = Settings._fields
        if unknown := sorted(set(options) - set(known)):
            raise BackendError(
                f"backend {self.name!r} has no option {unknown[0]!r}",
                expected=f"one of {', '.join(known)}",
            )
        settings = Settings(**options).validate()
        return Executable(graph, find_device(device), settings)
