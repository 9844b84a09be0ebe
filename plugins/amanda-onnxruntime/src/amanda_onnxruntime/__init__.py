"""The onnxruntime backend. Entry points are in pyproject.toml."""
