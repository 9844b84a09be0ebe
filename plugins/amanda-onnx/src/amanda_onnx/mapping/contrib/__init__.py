"""The domain com.microsoft: ops that onnxruntime adds (contrib ops)."""

PRIORITY = -1
"""Tried after the rules of ONNX's own domain."""
