"""Layers: products, convolutions, pooling, normalization, attention, resampling."""
