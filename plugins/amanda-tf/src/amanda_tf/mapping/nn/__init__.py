"""Neural network layers: products, convolutions, pooling, normalization, losses."""
