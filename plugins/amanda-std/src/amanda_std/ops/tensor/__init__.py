"""Shapes, indexing and rearrangement of tensors."""
