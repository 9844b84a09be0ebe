"""Fake quantization."""
