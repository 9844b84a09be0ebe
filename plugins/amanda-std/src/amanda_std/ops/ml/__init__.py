"""Classical machine learning: trees, encoders, kernels."""
