"""Tensors of strings."""
