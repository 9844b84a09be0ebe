"""Quantization: QuantizeLinear, DequantizeLinear and the integer products."""
