"""Neural network layers: Gemm, convolution, pooling, normalization, losses."""
