"""Post-training quantization, and graphs for quantization-aware training."""
