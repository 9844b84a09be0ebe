"""Weights on the device: transfer, layout, memory."""
