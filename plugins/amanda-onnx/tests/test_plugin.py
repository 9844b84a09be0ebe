"""What every plug-in and format must do, on ONNX."""

from __future__ import annotations

from functools import partial

from onnx.backend.test.loader import load_model_tests

import amanda
from amanda.testing import FormatSuite, PluginSuite


class TestPlugin(PluginSuite):
    dist = "amanda-onnx"


class TestFormat(FormatSuite):
    format = "onnx"
    late = ("numpy", "onnx")

    def samples(self):
        cases = load_model_tests(kind="simple")[::4]
        return {
            case.name: partial(amanda.load, f"{case.model_dir}/model.onnx")
            for case in cases
        }
