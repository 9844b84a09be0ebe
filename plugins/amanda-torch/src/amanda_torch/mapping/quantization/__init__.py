"""Quantization: the ops of `quantized_decomposed`."""
