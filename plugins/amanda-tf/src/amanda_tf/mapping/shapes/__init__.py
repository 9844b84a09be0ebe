"""Shapes, slices, joins, indexing, generated tensors."""
