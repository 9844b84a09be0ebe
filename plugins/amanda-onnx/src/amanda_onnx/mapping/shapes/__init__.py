"""Shape manipulation, indexing, casts and generated tensors."""
