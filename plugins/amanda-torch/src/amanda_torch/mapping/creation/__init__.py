"""Tensors made from sizes and numbers, triangles and diagonals."""
