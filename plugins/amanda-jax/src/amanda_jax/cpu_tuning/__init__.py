"""Optimizations for XLA on the CPU: Winograd convolution, few-row products."""
