"""Quantization: the ops of `quantized_decomposed`, and fake quantization."""
