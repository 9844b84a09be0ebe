"""The forty faults: in which network, between which forms of it, of which kind."""

from __future__ import annotations

from typing import Final, NamedTuple

from planted_faults.networks import LOOP

__all__ = ["FAULTS", "Fault"]


class Fault(NamedTuple):
    """A fault of a kind in the form `b` of a network; `a` is the reference."""

    number: int
    network: str
    a: str
    b: str
    kind: str

    def __str__(self) -> str:
        return f"{self.number:2} {self.network}, {self.a} and {self.b}: {self.kind}"


_ROWS: Final = {
    "ResNet-50": (
        ("pt2", "onnx", "changed weight"),
        ("onnx of pt2", "pt2", "changed weight"),
        ("pt2", "onnx", "wrong pad"),
        ("onnx", "SavedModel of onnx", "wrong pad"),
        ("onnx", "std of pt2", "wrong pad"),
        ("onnx", "pt2", "swapped operands"),
        ("pt2", "onnx of pt2", "swapped operands"),
        ("pt2", "onnx", "lost axis"),
        ("SavedModel of pt2", "pt2", "lost axis"),
        ("onnx", "pt2", "wrong epsilon"),
        ("pt2", "onnx of pt2", "wrong epsilon"),
        ("pt2", "onnx", "dropped cast"),
        ("onnx", "pt2 of onnx", "dropped cast"),
    ),
    "BERT-base": (
        ("pt2", "onnx", "changed weight"),
        ("std of onnx", "pt2", "changed weight"),
        ("onnx", "pt2", "swapped operands"),
        ("pt2", "onnx of pt2", "swapped operands"),
        ("pt2", "onnx", "lost axis"),
        ("onnx", "SavedModel of onnx", "lost axis"),
        ("pt2", "onnx", "wrong epsilon"),
        ("onnx", "pt2", "wrong epsilon"),
        ("pt2", "onnx", "dropped cast"),
        ("onnx", "SavedModel of pt2", "dropped cast"),
    ),
    "GPT-2": (
        ("pt2", "onnx", "changed weight"),
        ("onnx", "pt2 of onnx", "changed weight"),
        ("onnx", "pt2", "swapped operands"),
        ("pt2", "std of onnx", "swapped operands"),
        ("pt2", "onnx", "lost axis"),
        ("onnx", "onnx of pt2", "lost axis"),
        ("pt2", "onnx", "wrong epsilon"),
        ("std of pt2", "pt2", "wrong epsilon"),
        ("pt2", "onnx", "dropped cast"),
    ),
    LOOP: (
        ("onnx", "std of onnx", "changed weight"),
        ("pt2 of onnx", "onnx", "changed weight"),
        ("pt2 of onnx", "onnx", "wrong pad"),
        ("SavedModel of onnx", "onnx", "swapped operands"),
        ("onnx", "pt2 of onnx", "swapped operands"),
        ("onnx", "pt2 of onnx", "lost axis"),
        ("onnx", "std of onnx", "wrong epsilon"),
        ("std of onnx", "onnx", "dropped cast"),
    ),
}
FAULTS: Final = tuple(
    Fault(number, *row)
    for number, row in enumerate(
        ((network, *row) for network, rows in _ROWS.items() for row in rows), start=1
    )
)
assert len(FAULTS) == 40
