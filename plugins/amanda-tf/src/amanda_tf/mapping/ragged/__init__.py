"""Ragged tensors: values and partitions of their rows."""
