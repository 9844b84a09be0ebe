"""Sparse tensors, as indices, values and a shape."""
