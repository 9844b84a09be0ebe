"""Quantized tensors and integer arithmetic."""
